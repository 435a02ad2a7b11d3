"""A trajectory of another program as a session that can be read: shown, verified, compared, exported, and nothing else.

The log is an ordinary one. Its header says whose run it was; what a header pins of a run of ours is empty in it: no policy, no files, no
secret. Nothing ran here, so there are no executions and no decisions of a gate, only what was said and what was seen.
"""

import json
import secrets
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra_agent import canonical
from infra_agent.errors import UsageError
from infra_agent.gates.policy import Policy
from infra_agent.judge import seeds
from infra_agent.replay.formats import mini_swe
from infra_agent.replay.formats.mini_swe import Moment, Said, Seen, Told, Trajectory
from infra_agent.session import events
from infra_agent.session.budget import Limits
from infra_agent.session.context import Conversation
from infra_agent.session.log import Blobs, SessionLog
from infra_agent.session.observation import Observation, Status
from infra_agent.session.origin import Imported
from infra_agent.session.redaction import redact, redact_text
from infra_agent.task.spec import Edit, Entry, Metric, TaskSpec

PROGRAMS: dict[str, Callable[[bytes], Trajectory]] = {"mini-swe-agent": mini_swe.parse}
TASK = "imported"
_EXIT = {"Submitted": 0, "LimitsExceeded": 4, "TimeExceeded": 4}
_NO_SECRET = b""
_UNKNOWN = "unknown"
_SHELL = {
    "name": mini_swe.TOOL,
    "description": "Execute a command.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}


def import_file(program: str, path: Path, home: Path) -> Path:
    """Write the session of a trajectory; returns its folder. Nothing is left behind when it fails.

    Raises UsageError for a program that is not known, and for a file that is not one of its trajectories, with the place of the fault.
    """
    if program not in PROGRAMS:
        raise UsageError(f"cannot import from '{program}'; there are: {', '.join(PROGRAMS)}")
    with open(path, "rb") as file:
        data = file.read(mini_swe.MOST_BYTES + 1)
    try:
        trajectory = PROGRAMS[program](data)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    now = datetime.now(UTC)
    folder = home / "sessions" / f"{now:%Y%m%d-%H%M%S}-{TASK}-{secrets.token_hex(2)}"
    try:
        with SessionLog(folder) as log:
            _write(program, trajectory, log, now)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _write(program: str, run: Trajectory, log: SessionLog, now: datetime) -> None:
    writer = _Writer(log, run.model or _UNKNOWN, now.isoformat() if run.began is None else _iso(run.began))
    writer.add(_header(program, run, log.folder.name, log.blobs))
    for moment in run.moments:
        writer.take(moment)
    if run.exit_status:
        spent: dict[str, float | int | None] = {"steps": run.calls, "usd": run.usd}
        code = _EXIT.get(run.exit_status, 1)
        writer.add(events.SessionEnded(reason=run.exit_status, exit_code=code, secret=_NO_SECRET.hex(), spent=spent))


def _iso(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat()


def _header(program: str, run: Trajectory, name: str, blobs: Blobs) -> events.SessionStarted:
    def kept(value: Any) -> str:
        return blobs.put(canonical.encode(value))

    came = Imported(program=program, version=run.version, format=run.format, document=kept(redact(run.document)))
    return events.SessionStarted(
        session=name,
        task=TASK,
        task_digest="",
        base="",
        base_files=kept({}),
        cases=kept({}),
        driver=f"model:{run.model}" if run.model else _UNKNOWN,
        imported=came,
        feedback="dense",
        level="L0",
        isolation="none",
        not_held=("how it was walled off is not known",),
        platform=_UNKNOWN,
        audited=False,
        spec=kept(redact(_spec(run).model_dump(mode="json"))),
        policy=blobs.put(Policy().encoded()),
        system_prompt=blobs.put(redact_text(run.system).encode()),
        brief=blobs.put(redact_text(run.brief).encode()),
        tools=kept([_SHELL]),
        secret_commitment=seeds.commitment(_NO_SECRET),
        versions={program: run.version or _UNKNOWN},
        machine={},
        limits=Limits().as_dict(),
    )


def _spec(run: Trajectory) -> TaskSpec:
    """A task that nothing can be run with: readers want one, and a trajectory has only a goal."""
    entry = Entry(module=_UNKNOWN, callable=_UNKNOWN, stages=(_UNKNOWN,))
    return TaskSpec(
        id=TASK, title="Imported run", goal=run.brief, entry=entry, edit=Edit(allow=("**",)), metric=Metric(case=_UNKNOWN), platform="cpu"
    )


class _Writer:
    """Writes moments as events. What has no time of its own happened when the last thing did."""

    def __init__(self, log: SessionLog, model: str, began: str) -> None:
        self._log = log
        self._model = model
        self._time = began
        self._conversation = Conversation(log.blobs, None)
        self._actions = 0
        self._open: list[tuple[str, str]] = []
        """Action and id of calls of the last reply of which nothing was seen yet."""

    def add(self, event: events.Event) -> None:
        """Write one event, at the time that it is by now."""
        self._log.append(event, self._time)

    def take(self, moment: Moment) -> None:
        """Write what happened next."""
        match moment:
            case Said():
                self._say(moment)
            case Seen():
                self._passed(moment.time)
                self._see(moment)
            case Told():
                self._passed(moment.time)
                self.add(events.Note(text=moment.text, to_model=moment.to_model))

    def _passed(self, time: float | None) -> None:
        self._time = self._time if time is None else _iso(time)

    def _say(self, said: Said) -> None:
        """The request went out when the last thing had happened."""
        self._conversation.read(self._log.entries)
        messages, digest = self._conversation.request()
        self.add(events.ModelRequested(model=self._model, digest=digest, messages=len(messages)))
        self._passed(said.time)
        self.add(
            events.ModelReplied(request=digest, text=said.text, tool_calls=said.calls, usage=said.usage, reasoning=said.reasoning),
        )
        self._open = []
        for call in said.calls if said.carried_out else ():
            self._actions += 1
            action = f"a-{self._actions}"
            arguments, problem = _arguments(call.arguments)
            self.add(events.ActionProposed(action=action, call=call.id, tool=call.name, arguments=arguments, problem=problem))
            self._open.append((action, call.id))

    def _see(self, seen: Seen) -> None:
        """An answer to a call that is not open is something that the model was told."""
        found = next((item for item in self._open if seen.call is None or item[1] == seen.call), None)
        if found is None:
            self.add(events.Note(text=seen.text, to_model=True))
            return
        self._open.remove(found)
        self.add(events.ObservationMade(action=found[0], observation=_observation(seen), tree=""))


def _observation(seen: Seen) -> Observation:
    """Without an exit status it is not known whether it went well."""
    status: Status = "inconclusive" if seen.code is None else "fail" if seen.code else "pass"
    headline = "its exit status is not recorded" if seen.code is None else f"exit status {seen.code}"
    if seen.fault:
        headline = f"{headline}: {' '.join(seen.fault.split())[:200]}"
    kind = "failed" if status == "fail" else None
    return Observation(
        instrument=mini_swe.TOOL, status=status, kind=kind, headline=headline, body=seen.text or None, platform=_UNKNOWN, trust="advice"
    )


def _arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """Arguments as data, or what is wrong with them."""
    try:
        found = json.loads(text or "{}")
        canonical.encode(found)
    except (ValueError, RecursionError) as error:
        return {}, f"arguments are not JSON ({type(error).__name__})"
    return (found, None) if isinstance(found, dict) else ({}, "arguments are not a JSON object")
