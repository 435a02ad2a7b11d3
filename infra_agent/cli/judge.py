"""``measure``, ``gate``, ``audit``: the judge by hand, no agent."""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra_agent.cli.output import Sandbox, answer, document, progress
from infra_agent.errors import UsageError

if TYPE_CHECKING:
    from infra_agent.judge.audit_record import Trial
    from infra_agent.session.verdict import Check

TaskArgument = Annotated[str, typer.Argument(help="task folder, task.toml or task id")]
_DIGEST = re.compile("[0-9a-f]{64}")
Json = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]


def _read_patch(path: Path) -> bytes:
    """A file, or a blob of a session: SESSION/DIGEST, as observations name it on every machine alike."""
    if not path.exists() and _DIGEST.fullmatch(path.name) and path.parent.name == str(path.parent):
        from infra_agent.proposal.store import session_folder
        from infra_agent.session.log import Blobs

        return Blobs(session_folder(path.parent.name) / "blobs").get(path.name)
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"--patch {path}: {error.strerror}") from error


def measure(
    task: TaskArgument,
    instrument: Annotated[str, typer.Argument(help="see: infra-agent instruments")],
    patch: Annotated[
        Path | None,
        typer.Option(help="measure the workspace with this patch applied: a file, or SESSION/DIGEST as an observation names it"),
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE, an argument of the instrument")] = None,
    keep: Annotated[Path | None, typer.Option(help="folder for the files that the instrument leaves, such as a trace")] = None,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Run one instrument by hand. Exit 1 when it says fail, 3 when it could not decide."""
    from infra_agent.agent.tools import parse
    from infra_agent.canonical import encode
    from infra_agent.judge import measure as judge
    from infra_agent.judge import seeds
    from infra_agent.judge.collector import Collector
    from infra_agent.share import home
    from infra_agent.task import repository
    from infra_agent.task.load import load

    loaded = load(task)
    if instrument not in loaded.spec.instruments:
        raise UsageError(f"task {loaded.spec.id} does not use instrument '{instrument}'; it uses: {', '.join(loaded.spec.instruments)}")
    pairs = [item.partition("=") for item in set_ or []]
    if bare := next((key for key, sign, _ in pairs if not sign), None):
        raise UsageError(f"--set {bare}: expected KEY=VALUE")
    arguments, problem = parse(instrument, encode({key: value for key, _, value in pairs}).decode(), loaded.spec.instruments)
    if problem:
        raise UsageError(f"{instrument}: {problem}")
    repo, base = repository.for_task(loaded, home())
    tree = base_tree = repo.read_tree(base)
    if patch is not None:
        tree = repo.read_tree(repo.apply(base, _read_patch(patch)))
    reproduce = (
        "infra-agent",
        "measure",
        task,
        instrument,
        *(["--patch", str(patch)] if patch else []),
        *(f"--set={p[0]}={p[2]}" for p in pairs),
    )
    with Collector(loaded, seeds.new_secret(), sandbox) as collector:
        observation, records = judge.measure(collector, instrument, tree, base_tree, arguments, reproduce)
    if keep is not None:
        _keep(keep, {name.removeprefix(judge.ARTEFACT): data for name, data in records.items() if name.startswith(judge.ARTEFACT)})
    document(observation.model_dump(mode="json")) if as_json else answer(observation.for_model())
    raise typer.Exit({"pass": 0, "fail": 1}.get(observation.status, 3))


def _keep(folder: Path, files: dict[str, bytes]) -> None:
    """Write an instrument's files; raises UsageError where that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise UsageError(f"--keep {folder}: {error.strerror}") from error


def gate(
    task: TaskArgument,
    patch: Annotated[Path, typer.Option(help="a patch against the task's workspace")],
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Judge any patch with every check of the gate. Exit 0 pass, 1 fail, 3 inconclusive."""
    from infra_agent.agent.loop import EXIT
    from infra_agent.gates import policy
    from infra_agent.gates.proposal import ProposalGate
    from infra_agent.judge import seeds
    from infra_agent.judge.collector import Collector
    from infra_agent.proposal.review import check_line
    from infra_agent.share import home
    from infra_agent.task import repository
    from infra_agent.task.load import load

    loaded = load(task)
    data = _read_patch(patch)
    repo, base = repository.for_task(loaded, home())
    with Collector(loaded, seeds.new_secret(), sandbox) as collector:
        began = time.monotonic()
        told = None if as_json else lambda check: progress(check_line(check))
        proposal_gate = ProposalGate(collector, repo, base, lambda record: "", told, policy.for_task(loaded.folder).isolation)
        judged = proposal_gate.judge(data)
    verdict = judged.verdict
    if as_json:
        about = verdict.model_dump(include={"level", "isolation", "platform", "decision"})
        elapsed = round(time.monotonic() - began, 3)
        document(
            {"task": loaded.spec.id, "patch": str(patch), **about, "checks": [_check(c) for c in verdict.checks], "elapsed_s": elapsed}
        )
    else:
        answer(f"{verdict.decision}   {verdict.basis}, {judged.seconds:.1f} s")
    raise typer.Exit(EXIT[verdict.decision])


def _check(check: "Check") -> dict[str, object]:
    where = check.where.model_dump(mode="json") if check.where else None
    return {
        "name": check.name, "status": check.status, "kind": check.kind, "trust": check.trust, "figure": check.figure,
        "where": where, "message": check.message, "excused": check.excused,
    }  # fmt: skip


def audit(
    task: TaskArgument,
    write: Annotated[bool, typer.Option("--write", help="keep the record in the task's own folder, to ship it")] = False,
    as_json: Json = False,
) -> None:
    """Run a task's controls and solutions through the gate and test its reference; minutes. Exit 1 when not green."""
    from infra_agent.gates.audit import audit as run_audit
    from infra_agent.judge.audit_record import FILE, save
    from infra_agent.share import home
    from infra_agent.task.load import load

    loaded = load(task)
    record = run_audit(loaded, home(), lambda trial: progress(_trial(trial)))
    save(record, home() / "audit" / f"{loaded.digest}.json")
    if write:
        save(record, loaded.folder / FILE)
    if as_json:
        document({"green": record.green, **record.model_dump(mode="json")})
    else:
        held = sum(trial.ok for trial in record.trials)
        problems = "".join(f"\nproblem: {problem}" for problem in record.problems)
        colour = "green" if record.green else "NOT green"
        answer(f"audit of {record.task}: {colour}, {held} of {len(record.trials)} trials as expected{problems}")
    raise typer.Exit(0 if record.green else 1)


def _trial(trial: "Trial") -> str:
    return f"{'ok ' if trial.ok else 'BAD'} {trial.name:<24} expected {trial.expected:<28} found {trial.found} ({trial.seconds:.1f} s)"
