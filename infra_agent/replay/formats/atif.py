"""Agent Trajectory Interchange Format (ATIF), version 1.8.

The fields are those of RFC 0001 of the Harbor project (github.com/harbor-framework/harbor, rfcs/0001-trajectory-format.md), as the package
``harbor`` 0.26.0 checks them. ``extra`` of the document, of steps, calls and results holds what the format has no field for: all events
of the log can be told from it again. What a blob holds besides the prompts and the tools' schemas stays out; its digest is there.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from infra_agent import canonical
from infra_agent.proposal.store import Session
from infra_agent.replay.formats.turns import Call, Failed, Opening, Step, Told, Turn, plain, sparse_metric, steps_of
from infra_agent.session import events
from infra_agent.session.events import Usage
from infra_agent.session.log import BrokenLogError, Entry

VERSION = "ATIF-v1.8"
_NOTES = (
    "Exported from the log of an infra-agent session. extra.header is its first event, extra.log its end; extra of steps, calls, results "
    "holds the numbers, times and fields of events that ATIF has no place for. Digests name blobs that are not part of this document."
)
_FIGURES: dict[str, Callable[[Usage], float | None]] = {
    "prompt_tokens": lambda usage: usage.input_tokens,
    "completion_tokens": lambda usage: usage.output_tokens,
    "cached_tokens": lambda usage: usage.cached_tokens,
    "cost_usd": lambda usage: usage.cost_usd,
}


def encode(session: Session) -> bytes:
    """The session as one ATIF document, JSON in ASCII. Raises BrokenLogError when a blob of its header is missing or is not what it was."""
    return json.dumps(document(session), indent=1, allow_nan=False).encode() + b"\n"


def document(session: Session) -> dict[str, Any]:
    """The same as data."""
    header, found = session.header, steps_of(session)
    turns = [step for step in found if isinstance(step, Turn)]
    steps = [shown for step in found for shown in _steps(session, step)]
    for number, step in enumerate(steps, 1):
        step["step_id"] = number
    return {
        "schema_version": VERSION,
        "session_id": header.session,
        "agent": _agent(session, turns),
        "steps": steps,
        "notes": _NOTES,
        "final_metrics": _final(session, turns, len(steps)),
        "extra": {"header": plain(session.entries[0]), "log": {"seq": session.entries[-1].seq, "hash": session.entries[-1].hash}},
    }


def _agent(session: Session, turns: Sequence[Turn]) -> dict[str, Any]:
    header = session.header
    ours = ("infra-agent", header.versions.get("infra-agent", "unknown"))
    name, version = (header.imported.program, header.imported.version or "unknown") if header.imported else ours
    models = [model for turn in turns if (model := _model(turn))]
    return {
        "name": name,
        "version": version,
        **({"model_name": models[0]} if models else {}),
        "tool_definitions": _tools(session),
        "extra": {"driver": header.driver, "versions": header.versions, "machine": header.machine},
    }


def _tools(session: Session) -> list[dict[str, Any]]:
    try:
        return [{"type": "function", "function": tool} for tool in json.loads(session.blobs.get(session.header.tools))]
    except ValueError as error:
        raise BrokenLogError(f"{session.folder}: the tools' schemas are not JSON ({error})") from error


def _model(turn: Turn) -> str | None:
    return turn.requested.event.model if turn.requested and isinstance(turn.requested.event, events.ModelRequested) else None


def _steps(session: Session, step: Step) -> list[dict[str, Any]]:
    match step:
        case Opening():
            header = session.header
            system, brief = (session.blobs.get(digest).decode(errors="replace") for digest in (header.system_prompt, header.brief))
            return [_step(session, step.entry, "system", system), _step(session, step.entry, "user", brief, _rest(step.rest))]
        case Turn():
            return [_turn(session, step)]
        case Told():
            return [_step(session, step.entry, "user", step.note.text, {"seq": step.entry.seq, **_rest(step.rest)})]
        case Failed():
            extra = {**plain(step.entry), **_requested(step.requested), **_rest(step.rest)}
            return [_step(session, step.entry, "system", f"The request was given up: {step.failure.reason}", extra)]


def _step(session: Session, entry: Entry, source: str, message: str, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """What every step has. What a fork took from its parent is copied context."""
    parent = session.header.parent
    copied = {"is_copied_context": True} if parent and entry.seq <= parent.at else {}
    shown = {"step_id": 0, "timestamp": entry.time, "source": source, "message": message, **copied}
    return {**shown, "extra": extra} if extra else shown


def _rest(rest: Sequence[Entry]) -> dict[str, Any]:
    return {"events": [plain(entry) for entry in rest]} if rest else {}


def _requested(entry: Entry | None) -> dict[str, Any]:
    return {"requested": plain(entry)} if entry else {}


def _turn(session: Session, turn: Turn) -> dict[str, Any]:
    reply, metric = turn.reply, sparse_metric(session)
    kept = reply.model_dump(mode="json", include={"request", "raw", "waited_s"}, exclude_none=True)
    extra = {"seq": turn.entry.seq, "t": turn.entry.time, **kept, **_requested(turn.requested), **_rest(turn.rest)}
    model, metrics = _model(turn), _metrics(reply.usage)
    results = [result for call in turn.calls if (result := _result(call, metric))]
    return {
        **_step(session, turn.entry, "agent", reply.text, extra),
        **({"model_name": model} if model else {}),
        **({"reasoning_content": reply.reasoning} if reply.reasoning else {}),
        **({"tool_calls": [_call(call) for call in turn.calls]} if turn.calls else {}),
        **({"observation": {"results": results}} if results else {}),
        **({"metrics": metrics} if metrics else {}),
        "llm_call_count": 1,
    }


def _metrics(usage: Usage) -> dict[str, float]:
    """What the provider said; what it did not say is absent."""
    return {name: value for name, figure in _FIGURES.items() if (value := figure(usage)) is not None}


def _identity(call: Call) -> str:
    if call.sent:
        return call.sent.id
    return call.action.action if call.action else ""


def _call(call: Call) -> dict[str, Any]:
    proposed = {"proposed": plain(call.proposed)} if call.proposed else {}
    written = {"written": call.written.model_dump(mode="json")} if call.written else {}
    if call.sent:
        name, arguments = call.sent.name, _arguments(call.sent.arguments)
    else:
        name, arguments = (call.action.tool, call.action.arguments) if call.action else ("", {})
    return {"tool_call_id": _identity(call), "function_name": name, "arguments": arguments, "extra": {**written, **proposed}}


def _arguments(text: str) -> dict[str, Any]:
    """Python reads NaN and infinities that JSON does not have."""
    found: dict[str, Any] = json.loads(text)
    try:
        canonical.encode(found)
    except ValueError:
        return {"malformed": text}
    return found


def _result(call: Call, metric: str | None) -> dict[str, Any] | None:
    if call.seen is None or call.made is None:
        return None
    text = f"[{call.made.action}] {call.made.observation.for_model(metric)}"
    return {"source_call_id": _identity(call), "content": text, "extra": {"made": plain(call.seen)}}


def _final(session: Session, turns: Sequence[Turn], steps: int) -> dict[str, Any]:
    """Sums, each only where every reply said its part: a sum of some of them would read as the whole."""
    totals: dict[str, float] = {}
    known: dict[str, dict[str, float]] = {}
    for name, figure in _FIGURES.items():
        said = [value for turn in turns if (value := figure(turn.reply.usage)) is not None]
        if said and len(said) == len(turns):
            totals[f"total_{name}"] = sum(said)
        elif said:
            known[name] = {"sum": sum(said), "replies": len(said)}
    spent = [entry.event.spent for entry in session.entries if isinstance(entry.event, events.SessionEnded)]
    extra = {"replies": len(turns), **({"known_only": known} if known else {}), **({"spent": spent[-1]} if spent else {})}
    return {**totals, "total_steps": steps, "extra": extra}
