"""The loop: model, gate, cage, judge, in that order, until a proposal is judged or a limit is reached."""

from collections.abc import Callable
from dataclasses import dataclass

from infra_agent import instruments
from infra_agent.agent import tools
from infra_agent.agent.workbench import Workbench, say
from infra_agent.errors import BudgetError, InfraAgentError, ModelError
from infra_agent.gates.action import describe
from infra_agent.gates.policy import Decision, Policy
from infra_agent.gates.proposal import ProposalGate
from infra_agent.judge import seeds
from infra_agent.models.base import Model, Reply
from infra_agent.models.recorded import tools_digest
from infra_agent.proposal.store import proposal_id
from infra_agent.session import events
from infra_agent.session.budget import Budget
from infra_agent.session.context import chain, project
from infra_agent.session.events import ToolCall
from infra_agent.session.log import SessionLog
from infra_agent.session.observation import Observation
from infra_agent.session.redaction import redact_text
from infra_agent.session.verdict import Check, Verdict

_NUDGE = "Answer with a tool call; only `propose` ends the session."
_MOST_SILENT = 2
_MOST_PROPOSALS = 3
"""Each one looks at the held-out cases once: more would be a search on them."""
EXIT = {"pass": 0, "fail": 1, "inconclusive": 3}


@dataclass(frozen=True)
class Outcome:
    """How a session ended: the exit code, why, and the last proposal if there is one."""

    exit_code: int
    reason: str
    proposal: str | None = None


class Loop:
    """One session. Everything it knows is in the log; everything it does goes through the gate."""

    def __init__(self, model: Model, policy: Policy, bench: Workbench, log: SessionLog, budget: Budget,
                 sparse_metric: str | None, secret: bytes) -> None:  # fmt: skip
        self._model = model
        self._policy = policy
        self._bench = bench
        self._log = log
        self._budget = budget
        self._sparse_metric = sparse_metric
        self._secret = secret
        self._spec = bench.collector.task.spec
        self._schemas = tools.schemas(self._spec.instruments)
        self._tools_digest = tools_digest(self._schemas)
        self._actions = 0
        self._judged: list[Outcome] = []

    def run(self) -> Outcome:
        """Steps until the end. Always leaves a finished, readable log behind."""
        try:
            outcome = self._steps()
        except (BudgetError, ModelError) as error:
            outcome = Outcome(error.exit_code, str(error))
        except KeyboardInterrupt:
            outcome = Outcome(130, "interrupted")
        except BaseException as error:
            code = error.exit_code if isinstance(error, InfraAgentError) else 1
            self._end(Outcome(code, f"{type(error).__name__}: {error}"))
            raise
        self._end(outcome)
        return outcome

    def _end(self, outcome: Outcome) -> None:
        self._log.append(
            events.SessionEnded(reason=outcome.reason, exit_code=outcome.exit_code, secret=self._secret.hex(), spent=self._budget.spent())
        )

    def _steps(self) -> Outcome:
        silent = 0
        while True:
            reply = self._ask()
            if not reply.tool_calls:
                silent += 1
                if silent > _MOST_SILENT:
                    said = reply.text.strip()[:200] or "it said nothing"
                    last = self._judged[-1] if self._judged else Outcome(3, "no proposal was made")
                    return Outcome(last.exit_code, f"{last.reason}; the model stopped: {said}", last.proposal)
                self._log.append(events.Note(text=_NUDGE, to_model=True))
                continue
            silent = 0
            for call in reply.tool_calls:
                outcome = self._act(call)
                if outcome is not None:
                    return outcome

    def _ask(self) -> Reply:
        """One model call, reserved in the budget, recorded before and after."""
        self._budget.reserve_step()
        messages = project(self._log.entries, self._log.blobs, self._sparse_metric)
        digest = chain(self._tools_digest, messages)
        self._log.append(events.ModelRequested(model=self._model.name, digest=digest, messages=len(messages)))
        reply = self._model.complete(messages, self._schemas)
        self._budget.book(reply.usage, reply.waited_s)
        raw = self._log.blobs.put(redact_text(reply.raw.decode(errors="replace")).encode()) if reply.raw else None
        self._log.append(
            events.ModelReplied(
                request=digest, text=reply.text, tool_calls=reply.tool_calls, usage=reply.usage, raw=raw, waited_s=reply.waited_s
            )
        )
        return reply

    def _act(self, call: ToolCall) -> Outcome | None:
        """One tool call: arguments, gate, execution, observation. Returns an outcome when it ends the session."""
        self._actions += 1
        action = f"a-{self._actions}"
        arguments, problem = tools.parse(call.name, call.arguments, self._spec.instruments)
        self._log.append(events.ActionProposed(action=action, call=call.id, tool=call.name, arguments=arguments, problem=problem))
        if problem:
            self._observe(action, say(call.name, "fail", problem, kind="bad_arguments"))
            return None
        decision = self._policy.decide(describe(call.name, arguments, self._spec, frozenset(self._bench.base_tree)))
        self._log.append(events.GateDecided(action=action, decision=decision.ruling, rule=decision.rule, reason=decision.reason))
        if decision.ruling != "allow":
            return self._refuse(action, call.name, decision)
        if call.name == "propose":
            return self._propose(action, arguments["title"], arguments["summary"])
        self._log.append(events.ExecStarted(action=action, program=call.name, tree=self._bench.tree_digest, arguments=arguments))
        observation, records = self._bench.run(call.name, arguments)
        self._log.append(events.ExecFinished(action=action, ended=observation.status, seconds=observation.cost_s))
        self._observe(action, observation, {name: self._log.blobs.put(data) for name, data in records.items()})
        return None

    def _observe(self, action: str, observation: Observation, records: dict[str, str] | None = None) -> None:
        kind = instruments.load(observation.instrument).evidence if records else ""
        tree = self._bench.tree_digest
        self._log.append(
            events.ObservationMade(action=action, observation=observation, records=records or {}, evidence_kind=kind, tree=tree)
        )

    def _refuse(self, action: str, tool: str, decision: Decision) -> Outcome | None:
        """deny is an observation; abort ends the session; ask parks it."""
        if decision.ruling == "ask":
            self._log.append(events.ApprovalRequested(action=action, reason=decision.reason))
            return Outcome(5, f"parked: {action} needs a person ({decision.rule}: {decision.reason})")
        self._observe(action, say(tool, "fail", f"{decision.ruling} by rule {decision.rule}: {decision.reason}", kind="denied"))
        return Outcome(1, f"aborted by rule {decision.rule}: {decision.reason}") if decision.ruling == "abort" else None

    def _finished(self, proposal: str) -> Callable[[Check], None]:
        """Record each check of ``proposal`` as it is done."""

        def record(check: Check) -> None:
            self._log.append(events.CheckFinished(proposal=proposal, name=check.name, status=check.status))

        return record

    def _propose(self, action: str, title: str, summary: str) -> Outcome | None:
        """Judge the workspace as it is. A pass ends the session; otherwise the model may try again, a few times."""
        patch = self._bench.patch()
        kept = self._log.blobs.put(patch)
        entry = self._log.append(events.ProposalMade(action=action, base=self._bench.base, patch=kept, title=title, summary=summary))
        identity = proposal_id(entry)
        self._log.append(events.CheckStarted(proposal=identity, secret_commitment=seeds.commitment(self._secret)))
        gate = ProposalGate(
            self._bench.collector, self._bench.repository, self._bench.base, self._log.blobs.put,
            self._finished(identity),
        )  # fmt: skip
        judged = gate.judge(patch)
        self._log.append(events.VerdictGiven(proposal=identity, patch=kept, verdict=judged.verdict, seconds=round(judged.seconds, 3)))
        passed = [check for check in judged.verdict.checks if check.status == "pass"]
        headline = f"{judged.verdict.decision}: {len(passed)} of {len(judged.verdict.checks)} checks pass"
        body = _for_model(judged.verdict, self._sparse_metric is not None)
        self._observe(action, say("propose", judged.verdict.decision, headline, body=body))
        outcome = Outcome(EXIT[judged.verdict.decision], f"proposal {identity}: {judged.verdict.decision}", identity)
        self._judged.append(outcome)
        return outcome if outcome.exit_code == 0 or len(self._judged) == _MOST_PROPOSALS else None


def _for_model(verdict: Verdict, sparse: bool) -> str:
    """The checks; of the held-out cases only their count, and in a sparse run only the statuses."""
    lines = []
    for check in verdict.checks:
        head = f"{check.name}: {check.status}{f' ({check.kind})' if check.kind else ''}"
        detail = check.figure if check.name == "held_out" else " ".join(check.message.split())
        lines.append(head if sparse and check.name != "held_out" else f"{head} — {detail}")
    return "\n".join(lines)
