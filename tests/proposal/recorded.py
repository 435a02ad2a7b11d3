"""Real sessions with a proposal that passed, and proposals of patches that no edit could make."""

import shutil
from pathlib import Path

import pytest

from infra_agent import canonical
from infra_agent.agent import session
from infra_agent.gates.proposal import ProposalGate
from infra_agent.judge.collector import Collector
from infra_agent.models.base import Reply
from infra_agent.models.scripted import Scripted
from infra_agent.proposal import approval
from infra_agent.proposal.store import open_session, proposal_id
from infra_agent.session import events
from infra_agent.session.budget import Limits
from infra_agent.session.events import ToolCall
from infra_agent.session.log import SessionLog
from infra_agent.task.load import Task
from infra_agent.task.repository import Repository
from tests.support import call, mark_audited, rows_task

EDIT = call("edit", path="rows/entry.py", old="torch.cumsum(product, 1)", new="torch.cumsum(product, 0)")
PROPOSE = call("propose", title="Sum rows along axis 0", summary="The running sum ran along columns.")


def session_of(task: Task, home: Path) -> tuple[str, str]:
    """A session whose proposal passed: its name and the proposal's id."""
    mark_audited(task, home)
    said = [Reply("", (ToolCall(id=f"c{n}", name=name, arguments=text),)) for n, (name, text) in enumerate([EDIT, PROPOSE])]
    name, outcome = session.run(task, Scripted(said), "model:scripted", session.Options(False, Limits(steps=2), home), lambda event: None)
    assert outcome.exit_code == 0 and outcome.proposal, outcome
    return name, outcome.proposal


def approved_in(
    folder: Path, reviewer: str = "Ada Reviewer", reason: str = "the axis was wrong", minutes: float = 4.0
) -> tuple[Path, str, str]:
    """For fixtures that tests share: a home under ``folder``, its session, and the approved proposal."""
    home = folder / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFRA_AGENT_HOME", str(home))
        name, identity = session_of(rows_task(folder), home)
        approval.decide(identity, "approve", reviewer, reason, minutes=minutes)
    return home, name, identity


def copied(source: Path, home: Path) -> None:
    """A home with the same sessions and repositories."""
    shutil.copytree(source, home, dirs_exist_ok=True)


def proposed(like: str, home: Path, collector: Collector, repository: Repository, base: str, patch: bytes, number: int) -> str:
    """A proposal of any bytes at any base: the events of a session, with the verdict that the real gate gives. Returns its id."""
    source = open_session(like)
    with SessionLog(home / "sessions" / f"corpus-{number}") as log:
        files = {path: canonical.digest(data) for path, data in repository.read_tree(base).items()}
        kept = {"base_files": log.blobs.put(canonical.encode(files))}
        for name in ("cases", "spec", "policy", "system_prompt", "brief", "tools"):
            kept[name] = log.blobs.put(source.blobs.get(getattr(source.header, name)))
        log.append(source.header.model_copy(update={"session": f"corpus-{number}", "base": base, **kept}))
        gate = ProposalGate(collector, repository, base, log.blobs.put)
        judged = gate.judge(patch)
        digest = log.blobs.put(judged.patch)
        made = log.append(events.ProposalMade(action="a-1", base=base, patch=digest, title="Change files", summary="As a person would."))
        log.append(events.VerdictGiven(proposal=proposal_id(made), patch=digest, verdict=judged.verdict, seconds=judged.seconds))
    return proposal_id(made)


def long_patch(tmp_path: Path, lines: int) -> bytes:
    """A patch that takes away and adds so many lines in all, one of them a lock."""
    repository = Repository(tmp_path / "long.git")
    repository.git("init", "--quiet", "--bare")
    half = lines // 2
    old = {"src/a.py": b"".join(b"value_%d = f(%d)\n" % (n, n) for n in range(half))}
    new = {"src/a.py": b"".join(b"value_%d = g(%d)\n" % (n, n) for n in range(half - 1)) + b"lock = threading.Lock()\n"}
    base = repository.commit_tree(repository.write_tree(old), [], "base\n")
    return repository.diff(base, repository.write_tree(new))
