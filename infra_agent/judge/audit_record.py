"""Whether a task may be trusted: its controls refused for the reason they name, its solutions accepted, its truth sound."""

import json
from pathlib import Path

from pydantic import ValidationError

from infra_agent.errors import UsageError
from infra_agent.frozen import Frozen, one_line
from infra_agent.session.observation import Isolation
from infra_agent.task.load import Task

FILE = "audit.json"


class Trial(Frozen):
    """A patch of the task and what the gate said of it."""

    name: str
    expected: str
    """``pass``, or ``check:kind`` that must refuse it."""
    found: str
    ok: bool
    seconds: float


class AuditRecord(Frozen):
    """What an audit found, for one version of a task."""

    task: str
    digest: str
    platform: str
    isolation: Isolation
    trials: tuple[Trial, ...]
    problems: tuple[str, ...]

    @property
    def green(self) -> bool:
        """True when everything was as expected, and there was something to expect."""
        return bool(self.trials) and not self.problems and all(trial.ok for trial in self.trials)


def _places(task: Task, home: Path) -> tuple[Path, Path]:
    """A record made here comes before the one the task ships."""
    return home / "audit" / f"{task.digest}.json", task.folder / FILE


def find(task: Task, home: Path) -> AuditRecord | None:
    """The record of exactly this version of the task; None when there is none."""
    for path in _places(task, home):
        if path.is_file():
            try:
                record = AuditRecord.model_validate_json(path.read_bytes())
            except ValidationError as error:
                raise UsageError(f"{path}: not an audit record: {one_line(error)}; run: infra-agent audit {task.folder}") from error
            if record.digest == task.digest:
                return record
    return None


def passed(task: Task, home: Path) -> bool:
    """True when this version of the task has a green audit."""
    record = find(task, home)
    return record is not None and record.green


def require(task: Task, home: Path) -> None:
    """Raise UsageError when the task has a judge and no green audit of this version."""
    record = find(task, home)
    if record is None:
        raise UsageError(f"{task.folder}: this version of the task was never audited; run: infra-agent audit {task.folder}")
    if not record.green:
        bad = [trial.name for trial in record.trials if not trial.ok] + list(record.problems)
        raise UsageError(
            f"{task.folder}: its audit is not green ({', '.join(bad)}); mend the task and run: infra-agent audit {task.folder}"
        )


def save(record: AuditRecord, path: Path) -> None:
    """Write a record, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(record.model_dump(mode="json"), indent=1) + "\n")
    scratch.replace(path)
