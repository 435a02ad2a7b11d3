"""The gate again on a recorded proposal: fresh cages, a fresh secret, this machine. Nothing is recorded; the answer is what moved."""

from pathlib import Path

from infra_agent.errors import UsageError
from infra_agent.gates.proposal import Judged, OnCheck, ProposalGate
from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.proposal.store import Proposal
from infra_agent.task import repository
from infra_agent.task.load import load


def rerun(proposal: Proposal, home: Path, task: str = "", sandbox: str = "auto", on_check: OnCheck | None = None) -> Judged:
    """Judge the proposal's patch at its base. Raises UsageError when the task is another by now."""
    header = proposal.session.header
    loaded = load(task or header.task)
    repo, base = repository.for_task(loaded, home)
    if (loaded.digest, base) != (header.task_digest, header.base):
        raise UsageError(f"task {header.task} is not what it was when {proposal.id} was made; give --task FOLDER, a copy from then")
    with Collector(loaded, seeds.new_secret(), sandbox) as collector:
        gate = ProposalGate(collector, repo, base, lambda record: "", on_check, proposal.policy.isolation)
        return gate.judge(proposal.session.blobs.get(proposal.made.patch))
