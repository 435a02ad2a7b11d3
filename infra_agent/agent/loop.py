"""The loop: model, gate, cage, judge, in that order, until a proposal is judged or a limit is reached."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from infra_agent import instruments
from infra_agent.agent import tools
from infra_agent.agent.stuck import Watch
from infra_agent.agent.workbench import Workbench, say
from infra_agent.errors import BudgetError, ContextError, InfraAgentError, ModelError, ParkError
from infra_agent.gates.action import describe
from infra_agent.gates.policy import Decision, Policy
from infra_agent.gates.proposal import ProposalGate
from infra_agent.judge import seeds
from infra_agent.models.base import Model, Reply
from infra_agent.models.price import Price
from infra_agent.proposal.store import proposal_id
from infra_agent.session import events
from infra_agent.session.budget import Budget
from infra_agent.session.context import Conversation
from infra_agent.session.events import ToolCall, Usage
from infra_agent.session.log import SessionLog
from infra_agent.session.observation import Observation
from infra_agent.session.redaction import redact_text
from infra_agent.session.verdict import Check, Verdict

_STUCK = "You go round in circles"
_NUDGE = "Answer with a tool call; only `propose` ends the session."
_MOST_SILENT = 2
MOST_PROPOSALS = 3
"""Each one looks at the held-out cases once: more would be a search on them."""
EXIT = {"pass": 0, "fail": 1, "inconclusive": 3}


@dataclass(frozen=True)
class Outcome:
    """How a session ended: the exit code, why, and the last proposal if there is one."""

    exit_code: int
    reason: str
    proposal: str | None = None
    by_person: bool = False
    """It was asked to stop; nothing about the task follows from it."""


@dataclass(frozen=True)
class Setting:
    """What does not change while a session runs."""

    model: Model
    policy: Policy
    sparse_metric: str | None
    secret: bytes
    price: Price | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    """Set from outside: the session parks once what is under way is done."""


class Loop:
    """One session. Everything it knows is in the log, from which it also goes on; everything it does goes through the gate."""

    def __init__(self, setting: Setting, bench: Workbench, log: SessionLog, budget: Budget) -> None:
        self._setting = setting
        self._bench = bench
        self._log = log
        self._budget = budget
        self._spec = bench.collector.task.spec
        self._schemas = tools.schemas(self._spec.instruments)
        self._conversation = Conversation(log.blobs, setting.sparse_metric)
        self._watch, self._warned = Watch(), False
        past = [entry.event for entry in log.entries]
        self._actions = sum(isinstance(event, events.ActionProposed) for event in past)
        self._proposals = sum(isinstance(event, events.ProposalMade) for event in past)
        self._judged = [_outcome(event) for event in past if isinstance(event, events.VerdictGiven)]

    def run(self) -> Outcome:
        """Steps until the end. Always leaves a finished, readable log behind."""
        try:
            outcome = self._steps()
        except (BudgetError, ModelError) as error:
            outcome = Outcome(error.exit_code, str(error))
        except ParkError as error:
            outcome = Outcome(error.exit_code, "parked: it was asked to stop; infra-agent resume SESSION goes on", by_person=True)
        except KeyboardInterrupt:
            outcome = Outcome(130, "interrupted", by_person=True)
        except BaseException as error:
            code = error.exit_code if isinstance(error, InfraAgentError) else 1
            self._end(Outcome(code, f"{type(error).__name__}: {error}"))
            raise
        outcome = replace(outcome, reason=outcome.reason.replace("resume SESSION", f"resume {self._log.folder.name}"))
        self._end(outcome)
        return outcome

    def _end(self, outcome: Outcome) -> None:
        self._log.append(
            events.SessionEnded(
                reason=outcome.reason, exit_code=outcome.exit_code, secret=self._setting.secret.hex(), spent=self._budget.spent()
            )
        )

    def _steps(self) -> Outcome:
        silent = 0
        for asked, given in self._decided():
            outcome = self._go_on(asked, given)
            if outcome is not None:
                return outcome
        while True:
            reply = self._ask()
            if not reply.tool_calls:
                silent += 1
                if silent > _MOST_SILENT:
                    return self._given_up(f"the model stopped: {reply.text.strip()[:200] or 'it said nothing'}")
                self._log.append(events.Note(text=_NUDGE, to_model=True))
                continue
            silent = 0
            for call in reply.tool_calls:
                self._pause()
                outcome = self._act(call)
                if outcome is not None:
                    return outcome

    def _pause(self) -> None:
        """Where a session can be left and gone on with."""
        if self._setting.stop.is_set():
            raise ParkError

    def _given_up(self, why: str) -> Outcome:
        """The end without a person's or a limit's doing: the last proposal decides, if there is one."""
        last = self._judged[-1] if self._judged else Outcome(1, "no proposal was made")
        return replace(last, reason=f"{last.reason}; {why}")

    def _ask(self) -> Reply:
        """One model call; where the conversation is too long for it, again with less of it."""
        while True:
            self._pause()
            try:
                return self._ask_once()
            except ContextError as error:
                actions = self._conversation.elidable()
                if not actions:
                    raise
                self._log.append(events.ContextElided(actions=tuple(actions), reason=str(error)[:400]))

    def _ask_once(self) -> Reply:
        """Reserved in the budget, recorded before and after."""
        self._budget.reserve_step()
        model = self._setting.model
        self._conversation.read(self._log.entries)
        messages, digest = self._conversation.request()
        self._log.append(events.ModelRequested(model=model.name, digest=digest, messages=len(messages)))
        try:
            reply = model.complete(messages, self._schemas)
        except ModelError as error:
            self._budget.book(Usage(), error.waited_s)
            self._log.append(events.ModelFailed(request=digest, reason=str(error), waited_s=error.waited_s))
            raise
        usage = self._setting.price.of(reply.usage) if self._setting.price else reply.usage
        self._budget.book(usage, reply.waited_s)
        raw = self._log.blobs.put(redact_text(reply.raw.decode(errors="replace")).encode()) if reply.raw else None
        self._log.append(
            events.ModelReplied(
                request=digest, text=reply.text, tool_calls=reply.tool_calls, usage=usage, raw=raw, waited_s=reply.waited_s,
                reasoning=reply.reasoning,
            )
        )  # fmt: skip
        return reply

    def _act(self, call: ToolCall) -> Outcome | None:
        """One tool call: arguments, gate, execution, observation. Returns an outcome when it ends the session."""
        self._actions += 1
        action = f"a-{self._actions}"
        arguments, problem = tools.parse(call.name, call.arguments, self._spec.instruments)
        self._log.append(events.ActionProposed(action=action, call=call.id, tool=call.name, arguments=arguments, problem=problem))
        if problem:
            return self._observe(action, call.name, arguments, say(call.name, "fail", problem, kind="bad_arguments"))
        policy = self._setting.policy
        decision = policy.decide(describe(call.name, arguments, self._spec, frozenset(self._bench.base_tree), policy.detector))
        self._log.append(events.GateDecided(action=action, decision=decision.ruling, rule=decision.rule, reason=decision.reason))
        if decision.ruling != "allow":
            return self._refuse(action, call.name, arguments, decision)
        return self._carry_out(action, call.name, arguments)

    def _carry_out(self, action: str, tool: str, arguments: dict[str, Any]) -> Outcome | None:
        """An action that the policy, or a person, allows."""
        if tool == "propose":
            return self._propose(action, arguments)
        self._log.append(events.ExecStarted(action=action, program=tool, tree=self._bench.tree_digest, arguments=arguments))
        observation, records = self._bench.run(tool, arguments)
        self._log.append(events.ExecFinished(action=action, ended=observation.status, seconds=observation.cost_s))
        kept = {name: self._log.blobs.put(data) for name, data in records.items()}
        return self._observe(action, tool, arguments, observation, kept)

    def _decided(self) -> Iterator[tuple[events.ActionProposed, events.ApprovalGiven]]:
        """Actions that a person decided on while the session was parked, and of which nothing was done since."""
        past = [entry.event for entry in self._log.entries]
        begun = {e.action for e in past if isinstance(e, events.ExecStarted | events.ObservationMade | events.ProposalMade)}
        proposed = {e.action: e for e in past if isinstance(e, events.ActionProposed)}
        yield from [(proposed[e.action], e) for e in past if isinstance(e, events.ApprovalGiven) and e.action not in begun]

    def _go_on(self, asked: events.ActionProposed, given: events.ApprovalGiven) -> Outcome | None:
        """Carry out what was approved; of what was rejected the model is told so."""
        if given.decision == "approve":
            return self._carry_out(asked.action, asked.tool, asked.arguments)
        said = say(asked.tool, "fail", f"rejected by a person, {given.reviewer}: {given.reason}", kind="denied")
        return self._observe(asked.action, asked.tool, asked.arguments, said)

    def _observe(
        self, action: str, tool: str, arguments: dict[str, Any], observation: Observation, records: dict[str, str] | None = None
    ) -> Outcome | None:
        """Record what was seen. Who goes round in circles is told so once; the second time it is the end."""
        kind = instruments.load(observation.instrument).evidence if records else ""
        tree = self._bench.tree_digest
        self._log.append(
            events.ObservationMade(action=action, observation=observation, records=records or {}, evidence_kind=kind, tree=tree)
        )
        why = self._watch.see(tool, arguments, observation, tree)
        if why is None:
            return None
        if self._warned:
            return self._given_up(f"it was stuck: {why}")
        self._warned = True
        self._watch.forget()
        self._log.append(events.Note(text=f"{_STUCK}: {why}. Try something else, or propose what there is.", to_model=True))
        return None

    def _refuse(self, action: str, tool: str, arguments: dict[str, Any], decision: Decision) -> Outcome | None:
        """deny is an observation; abort ends the session; ask parks it."""
        if decision.ruling == "ask":
            self._log.append(events.ApprovalRequested(action=action, reason=decision.reason))
            how = f"infra-agent approve {self._log.folder.name}/{action} (or reject), then infra-agent resume {self._log.folder.name}"
            return Outcome(ParkError.exit_code, f"parked: {action} needs a person ({decision.rule}: {decision.reason}): {how}")
        said = say(tool, "fail", f"{decision.ruling} by rule {decision.rule}: {decision.reason}", kind="denied")
        outcome = self._observe(action, tool, arguments, said)
        return Outcome(1, f"aborted by rule {decision.rule}: {decision.reason}") if decision.ruling == "abort" else outcome

    def _finished(self, proposal: str) -> Callable[[Check], None]:
        """Record each check of ``proposal`` as it is done."""

        def record(check: Check) -> None:
            self._log.append(events.CheckFinished(proposal=proposal, name=check.name, status=check.status))

        return record

    def _propose(self, action: str, arguments: dict[str, Any]) -> Outcome | None:
        """Judge the workspace as it is. A pass ends the session; otherwise the model may try again, a few times."""
        patch, secret = self._bench.patch(), self._setting.secret
        kept = self._log.blobs.put(patch)
        made = events.ProposalMade(action=action, base=self._bench.base, patch=kept, **arguments)
        identity = proposal_id(self._log.append(made))
        self._proposals += 1
        self._log.append(events.CheckStarted(proposal=identity, secret_commitment=seeds.commitment(secret)))
        gate = ProposalGate(
            self._bench.collector, self._bench.repository, self._bench.base, self._log.blobs.put,
            self._finished(identity), self._setting.policy.isolation,
        )  # fmt: skip
        judged = gate.judge(patch)
        given = events.VerdictGiven(proposal=identity, patch=kept, verdict=judged.verdict, seconds=round(judged.seconds, 3))
        self._log.append(given)
        passed = [check for check in judged.verdict.checks if check.status == "pass"]
        headline = f"{judged.verdict.decision}: {len(passed)} of {len(judged.verdict.checks)} checks pass"
        body = _for_model(judged.verdict, self._setting.sparse_metric is not None)
        self._judged.append(_outcome(given))
        stuck = self._observe(action, "propose", arguments, say("propose", judged.verdict.decision, headline, body=body))
        return self._judged[-1] if judged.verdict.decision == "pass" or self._proposals >= MOST_PROPOSALS else stuck


def _outcome(given: events.VerdictGiven) -> Outcome:
    decision = given.verdict.decision
    return Outcome(EXIT[decision], f"proposal {given.proposal}: {decision}", given.proposal)


def _for_model(verdict: Verdict, sparse: bool) -> str:
    """The checks; of the held-out cases only their count, and in a sparse run only the statuses."""
    lines = []
    for check in verdict.checks:
        head = f"{check.name}: {check.status}{f' ({check.kind})' if check.kind else ''}"
        detail = check.figure if check.name == "held_out" else " ".join(check.message.split())
        lines.append(head if sparse and check.name != "held_out" else f"{head} — {detail}")
    return "\n".join(lines)
