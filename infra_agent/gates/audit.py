"""Audit a task: run its controls and solutions through the whole gate, and ask its reference whether it makes sense."""

import time
import tomllib
from collections.abc import Callable
from pathlib import Path

from infra_agent.errors import UsageError
from infra_agent.frozen import Frozen, one_line
from infra_agent.gates.proposal import Judged, ProposalGate
from infra_agent.judge import controls as free
from infra_agent.judge import evidence, seeds, standing, timing
from infra_agent.judge.audit_record import AuditRecord, Trial
from infra_agent.judge.collector import Collector
from infra_agent.judge.verdict import first_failure
from infra_agent.task import repository
from infra_agent.task.load import Task
from infra_agent.task.tree import Tree

_BARELY = 1e-6
"""An input whose redraw changes no stage by more than this does not matter to the task."""


class Control(Frozen):
    """A tempting wrong patch: which check must refuse it, with which kind, and why it is wrong."""

    check: str
    kind: str
    why: str


def controls(task: Task) -> dict[str, Control]:
    """Controls by name, from ``controls/controls.toml``; every one has a patch of that name beside it."""
    path = task.folder / "controls" / "controls.toml"
    try:
        listed = {name: Control.model_validate(entry) for name, entry in tomllib.loads(path.read_text()).items()}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {one_line(error)}") from error
    missing = [name for name in listed if not (path.parent / f"{name}.patch").is_file()]
    if missing:
        raise UsageError(f"{path}: no patch for control {missing[0]}")
    return listed


def solutions(task: Task) -> list[Path]:
    """Patches that must be accepted."""
    return sorted((task.folder / "solutions").glob("*.patch"))


def audit(task: Task, home: Path, on_trial: Callable[[Trial], None]) -> AuditRecord:
    """Run the whole audit; minutes. Raises UsageError when the task lacks controls or solutions."""
    wanted, accepted = controls(task), solutions(task)
    if not wanted or not accepted:
        raise UsageError(f"{task.folder}: an audit needs controls/ and solutions/")
    repo, base = repository.for_task(task, home)
    with Collector(task, seeds.new_secret()) as collector:
        gate = ProposalGate(collector, repo, base, lambda data: "0" * 64)
        trials = []
        for name, control in wanted.items():
            judged = gate.judge((task.folder / "controls" / f"{name}.patch").read_bytes())
            trials.append(_control_trial(name, control, judged))
            on_trial(trials[-1])
        for path in accepted:
            judged = gate.judge(path.read_bytes())
            found = judged.verdict.decision if judged.verdict.decision == "pass" else _refusal(judged)
            trials.append(Trial(name=path.stem, expected="pass", found=found, ok=found == "pass", seconds=round(judged.seconds, 1)))
            on_trial(trials[-1])
        for trial in _free_controls(collector):
            trials.append(trial)
            on_trial(trial)
        problems = (*_reference_problems(collector), *_same_problems(collector, gate.base_tree()))
        return AuditRecord(
            task=task.spec.id,
            digest=task.digest,
            platform=collector.platform,
            isolation=collector.isolation,
            trials=tuple(trials),
            problems=problems,
        )


def _refusal(judged: Judged) -> str:
    failure = first_failure(judged.verdict.checks)
    return f"{failure.name}:{failure.kind or failure.status}" if failure else judged.verdict.decision


def _control_trial(name: str, control: Control, judged: Judged) -> Trial:
    """Right only when the gate refuses it and the named check is among those that fail, with the named kind."""
    expected = f"{control.check}:{control.kind}"
    failed = [f"{check.name}:{check.kind}" for check in judged.verdict.checks if check.status == "fail"]
    ok = judged.verdict.decision == "fail" and expected in failed
    return Trial(
        name=name,
        expected=expected,
        found=expected if ok else (", ".join(failed) or judged.verdict.decision),
        ok=ok,
        seconds=round(judged.seconds, 1),
    )


def _free_controls(collector: Collector) -> list[Trial]:
    """One trial for each free control, over every stage of the public cases that are cheap."""
    began = time.monotonic()
    spec = collector.task.spec
    tried: dict[str, list[str]] = {}
    for case in (c for c in collector.cases("public") if c.when == "always"):
        drawn, other = collector.reference.draws(case, [collector.seed("controls", case) for _ in range(2)])
        inputs = evidence.tensors(drawn.inputs, f"inputs of {case.name}")
        for control, stage, passed in free.accepted(case, drawn, other, inputs):
            found = "refused" if not passed else "on purpose" if free.excused(control, stage, spec) else f"{stage} of {case.name}"
            tried.setdefault(control, []).append(found)
    seconds = round(time.monotonic() - began, 1)
    return [
        Trial(name=f"free: {control}", expected="refused", found=_found(found), ok=set(found) <= {"refused", "on purpose"}, seconds=seconds)
        for control, found in sorted(tried.items())
    ]


def _found(found: list[str]) -> str:
    wrong = [place for place in found if place not in ("refused", "on purpose")]
    if wrong:
        return f"accepted as {', '.join(wrong)}"
    meant = f", accepted on purpose {found.count('on purpose')}" if "on purpose" in found else ""
    return f"refused {found.count('refused')} of {len(found)}{meant}"


def _same_problems(collector: Collector, base: Tree) -> tuple[str, ...]:
    """Base against itself must not be called faster or slower. Whether the machine is fit today is no fault of the task."""
    spec = collector.task.spec
    if spec.timing is None:
        return ()
    case = collector.public_case(spec.timing.cases[0]) if spec.timing.cases else collector.smallest_case()
    found = timing.assess(standing.timing(collector, base, base, case), spec.timing, spec)
    if found.claim in ("faster", "slower"):
        return (f"base against itself in {case.name}: {found.message}",)
    return (f"base in {case.name}: {found.message}",) if found.kind not in (None, "not_faster", "slower") else ()


def _reference_problems(collector: Collector) -> tuple[str, ...]:
    """The truth is finite, not constant, and every input matters to it in at least one public case, but no seed of an interleaving."""
    entry = collector.task.spec.entry
    problems: list[str] = []
    moved: dict[str, float] = {}
    for case in (c for c in collector.cases("public") if c.when == "always"):
        found = collector.sensitivity(case)
        if not found["finite"]:
            problems.append(f"truth of {case.name} is not finite")
        problems += [f"stage {stage} of {case.name} is constant" for stage in found["constant"] if stage not in entry.modelled]
        for name, change in found["changes"].items():
            moved[name] = max(change, moved.get(name, 0.0))
    told = {name: moved.get(name, 0.0) for name in entry.seeds}
    problems += [f"truth depends on seed {name} (largest change {change:.1e})" for name, change in told.items() if change >= _BARELY]
    barely = {name: change for name, change in moved.items() if name not in entry.seeds and change < _BARELY}
    problems += [f"input {name} does not matter (largest change {change:.1e})" for name, change in barely.items()]
    return tuple(problems)
