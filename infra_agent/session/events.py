"""Every event a session can record. Frozen; a line of the log is an envelope around one of these."""

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from infra_agent.frozen import Frozen
from infra_agent.session.observation import Isolation, Observation
from infra_agent.session.origin import Imported, Origin
from infra_agent.session.verdict import Verdict

VERSION = 1


class SessionStarted(Frozen):
    """The header: everything a run depended on."""

    type: Literal["session.started"] = "session.started"
    session: str
    task: str
    task_digest: str
    base: str
    """Commit of the task's repository."""
    base_files: str
    """Digest of the blob with path -> SHA-256 of every file at base."""
    cases: str
    """Digest of the blob with the names of the public and held-out cases; no message shows it."""
    driver: str
    """person | model:<name> | playbook | unknown."""
    model: str = ""
    """The model as the command line names it, to go on with."""
    base_url: str = ""
    operator: str = ""
    """The account that ran it."""
    parent: Origin | None = None
    imported: Imported | None = None
    feedback: Literal["dense", "sparse"]
    level: Literal["L0", "L1", "L2"]
    isolation: Isolation
    not_held: tuple[str, ...] = ()
    """What this isolation does not hold."""
    platform: str
    audited: bool
    spec: str
    """Digest of the blob with the task file as JSON."""
    policy: str
    """Digest of the blob with the policy: every layer put together."""
    system_prompt: str
    brief: str
    """Digest of the blob with the task as the model is told it."""
    tools: str
    secret_commitment: str
    """SHA-256 of the session's secret, which ``session.ended`` reveals."""
    versions: dict[str, str]
    machine: dict[str, str]
    limits: dict[str, float | int | None]


class SessionResumed(Frozen):
    """The session went on after a crash, a limit or a park."""

    type: Literal["session.resumed"] = "session.resumed"
    dropped_bytes: int
    """Of a last line that was cut off."""
    last_seq: int
    secret_commitment: str
    """Of the secret that decides every seed from here on: the earlier one may be known, or lost."""
    limits: dict[str, float | int | None]
    driver: str


class SessionEnded(Frozen):
    """Why it ended, and the secret that decided every seed."""

    type: Literal["session.ended"] = "session.ended"
    reason: str
    exit_code: int
    secret: str
    """Hex; every seed of the session follows from it."""
    spent: dict[str, float | int | None]


class ModelRequested(Frozen):
    """``digest`` is the last link of the chain of message digests."""

    type: Literal["model.requested"] = "model.requested"
    model: str
    digest: str
    messages: int


class ToolCall(Frozen):
    """A call the model asked for; ``arguments`` is what it wrote, not yet parsed."""

    id: str
    name: str
    arguments: str


class Usage(Frozen):
    """Tokens of one reply; None where the provider did not say."""

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


class ModelReplied(Frozen):
    """What the model answered."""

    type: Literal["model.replied"] = "model.replied"
    request: str
    """Digest of the request it answers."""
    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    raw: str | None = None
    """Digest of the blob with the provider's own reply."""
    waited_s: float = 0.0
    reasoning: str = ""
    """What it thought aloud, where the provider shows it; not sent back."""


class ModelFailed(Frozen):
    """A request that was given up."""

    type: Literal["model.failed"] = "model.failed"
    request: str
    reason: str
    waited_s: float


class ContextElided(Frozen):
    """From here on the model is shown only the headlines of these actions' observations; ``recall`` shows them whole."""

    type: Literal["context.elided"] = "context.elided"
    actions: tuple[str, ...]
    reason: str


class ActionProposed(Frozen):
    """A tool call as the host understood it."""

    type: Literal["action.proposed"] = "action.proposed"
    action: str
    call: str
    tool: str
    arguments: dict[str, Any]
    problem: str | None = None
    """Why the arguments are not usable; the gate then never sees the action."""


class GateDecided(Frozen):
    """What the policy says of an action."""

    type: Literal["gate.decided"] = "gate.decided"
    action: str
    decision: Literal["allow", "ask", "deny", "abort"]
    rule: str
    reason: str


class ApprovalRequested(Frozen):
    """An action waits for a person."""

    type: Literal["approval.requested"] = "approval.requested"
    action: str
    reason: str


class ApprovalGiven(Frozen):
    """A person decided on a waiting action."""

    type: Literal["approval.given"] = "approval.given"
    action: str
    decision: Literal["approve", "reject"]
    reviewer: str
    reason: str
    minutes: float = 0.0
    """What it took of the reviewer's time, as the reviewer says."""


class ExecStarted(Frozen):
    """Something runs in a cage. ``tree`` is the digest of the files it runs on."""

    type: Literal["exec.started"] = "exec.started"
    action: str
    program: str
    tree: str
    arguments: dict[str, Any]


class ExecFinished(Frozen):
    """It ended; ``seconds`` is what it cost."""

    type: Literal["exec.finished"] = "exec.finished"
    action: str
    ended: str
    seconds: float


class ObservationMade(Frozen):
    """``records``: name -> digest of a judge-written record, from which the status can be computed again."""

    type: Literal["observation.made"] = "observation.made"
    action: str
    observation: Observation
    records: dict[str, str] = Field(default_factory=dict)
    evidence_kind: str = ""
    """Kind of evidence the records are; empty for a tool that measures nothing."""
    tree: str
    """Digest of the files after this action."""


class HypothesisStated(Frozen):
    """A claim, what it predicts, and the check that will tell."""

    type: Literal["hypothesis.stated"] = "hypothesis.stated"
    hypothesis: str
    claim: str
    prediction: str
    check: str


class HypothesisSettled(Frozen):
    """How a hypothesis ended, and by which observation."""

    type: Literal["hypothesis.settled"] = "hypothesis.settled"
    hypothesis: str
    outcome: Literal["confirmed", "refuted"]
    observation: str
    """The action whose observation settles it."""
    note: str = ""


class ProposalMade(Frozen):
    """A change put before the gate. Its id is ``p-`` and the first 12 digits of this event's hash."""

    type: Literal["proposal.made"] = "proposal.made"
    action: str
    base: str
    patch: str
    """Digest of the blob with the patch's bytes."""
    title: str
    summary: str
    risk: str = ""
    """The model's own estimate of the tier, which can only raise the detectors'."""


class CheckStarted(Frozen):
    """The gate starts; ``secret_commitment`` names the secret its seeds come from."""

    type: Literal["check.started"] = "check.started"
    proposal: str
    secret_commitment: str


class CheckFinished(Frozen):
    """One check of the gate is done; the whole of it stands in the verdict."""

    type: Literal["check.finished"] = "check.finished"
    proposal: str
    name: str
    status: str


class VerdictGiven(Frozen):
    """What the gate decided on a proposal."""

    type: Literal["verdict.given"] = "verdict.given"
    proposal: str
    patch: str
    verdict: Verdict
    seconds: float


class ReviewDecided(Frozen):
    """An approval is worth something only while ``binding`` can be computed again from what it binds to."""

    type: Literal["review.decided"] = "review.decided"
    proposal: str
    decision: Literal["approve", "reject"]
    reviewer: str
    reason: str
    binding: str
    overrides: tuple[str, ...] = ()
    """Checks that did not pass and that the reviewer answers for."""
    minutes: float = 0.0
    """What the review took of the reviewer's time, as the reviewer says."""
    account: str = ""


class MergeChecked(Frozen):
    """The branch had moved: the gate ran again on the merged files, which nobody had judged."""

    type: Literal["merge.checked"] = "merge.checked"
    proposal: str
    head: str
    """The commit that the branch pointed at; the base of this verdict."""
    files: str
    """Digest of the blob with path -> SHA-256 of every file of ``head``."""
    patch: str
    """Digest of the blob with the patch from ``head`` to the merged files."""
    verdict: Verdict
    seconds: float
    secret: str
    """Hex; drawn for this run alone, every seed of it follows from it."""


class Merged(Frozen):
    """The proposal is a commit."""

    type: Literal["merged"] = "merged"
    proposal: str
    commit: str
    branch: str
    checked: str = ""
    """Hash of the ``merge.checked`` by which the merged files passed; empty where they are base with the patch, as it was judged."""


class Pushed(Frozen):
    """The proposal is a branch of somebody's repository. ``remote`` holds no credentials."""

    type: Literal["pushed"] = "pushed"
    proposal: str
    remote: str
    branch: str
    commit: str
    pull_request: str = ""
    """Address of the pull request; empty where there is none."""


class Note(Frozen):
    """A remark of the host; with ``to_model`` it is said to the model too."""

    type: Literal["note"] = "note"
    text: str
    to_model: bool = False


Event = Annotated[
    SessionStarted | SessionResumed | SessionEnded | ModelRequested | ModelReplied | ModelFailed | ContextElided | ActionProposed
    | GateDecided | ApprovalRequested | ApprovalGiven | ExecStarted | ExecFinished | ObservationMade | HypothesisStated | HypothesisSettled
    | ProposalMade | CheckStarted | CheckFinished | VerdictGiven | ReviewDecided | MergeChecked | Merged | Pushed | Note,
    Field(discriminator="type"),
]  # fmt: skip
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
OUTSIDE_EFFECTS = ("model.", "exec.", "approval.", "merge", "pushed", "proposal.", "verdict.", "review.", "session.")
"""Prefixes of events that are on disk before and after what they speak of happens."""
