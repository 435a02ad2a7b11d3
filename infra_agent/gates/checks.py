"""The proposal gate's questions. Pure: from a patch or a judge-written record to a check, so that replay can ask again."""

from collections.abc import Sequence
from typing import Any

from infra_agent.judge import builds as builds_kind
from infra_agent.judge import events as events_kind
from infra_agent.judge import static as static_kind
from infra_agent.judge import suite as suite_kind
from infra_agent.judge import tensors
from infra_agent.judge import timing as timing_kind
from infra_agent.judge.builds import BuildRecord
from infra_agent.judge.events import EventsRecord
from infra_agent.judge.records import DeterminismRecord, RanRecord, RepeatRecord
from infra_agent.judge.static import StaticRecord
from infra_agent.judge.suite import SuiteRecord
from infra_agent.judge.tensors import CompareRecord
from infra_agent.judge.timing import TimingRecord
from infra_agent.session.observation import FileWhere, Finding, Isolation, TensorWhere, Trust
from infra_agent.session.verdict import Check
from infra_agent.task.spec import Growth, PlatformName, Static, TaskSpec, Timing

_LEVELS: tuple[Isolation, ...] = ("none", "partial", "full")


def accuracy_trust(platform: PlatformName) -> Trust:
    """The comparison is the judge's; where an emulator rounds the dots, it sits beside the candidate."""
    return "in-process" if platform == "cpu-emulated" else "judged"


def isolation(level: Isolation, least: Isolation) -> Check:
    """What ran was walled off as well as the policy asks; figures made in the open could have been written by anybody."""
    if _LEVELS.index(level) >= _LEVELS.index(least):
        return Check(name="isolation", status="pass", trust="judged", figure=level, message=f"the policy asks for {least} or better")
    message = f"isolation {level}; the policy asks for {least} or better, as --sandbox auto picks it where it can be had"
    return Check(name="isolation", status="inconclusive", trust="judged", figure=level, message=message)


def accuracy(records: Sequence[CompareRecord], held_out: bool, platform: PlatformName, modelled: Sequence[str] = ()) -> Check:
    """Every stage of every case within its limit; in public cases but those that are ``modelled``, which have a check of their own."""
    name = "held_out" if held_out else "accuracy"
    trust: Trust = "in-process" if held_out and modelled else accuracy_trust(platform)
    if not held_out:
        records = [_without(record, modelled) for record in records]
    assessed = [tensors.assess(record) for record in records]
    findings = sorted((f for _, _, fs in assessed for f in fs), key=lambda f: -f.magnitude)
    passed = sum(status == "pass" for status, _, _ in assessed)
    figure = f"{passed} of {len(records)} cases"
    if not records:
        return Check(name=name, status="not_run", trust=trust, figure=figure, message="the task has no such cases")
    if findings:
        worst = findings[0]
        message = f"held-out {passed} of {len(records)} pass" if held_out else f"{worst.where}: {worst.message}"
        return Check(
            name=name,
            status="fail",
            kind=worst.kind,
            trust=trust,
            figure=figure,
            where=worst.where,
            message=message,
            findings=tuple(findings),
        )
    return Check(
        name=name, status="pass", trust=trust, figure=figure, message=f"every stage within its limit; closest: {_closest(records)}"
    )


def modelled(records: Sequence[CompareRecord], stages: Sequence[str]) -> Check:
    """What the entry says of its own cost, by a virtual clock or a cost model, is near the best there is. Too good is wrong, too."""
    found = [_limited(record, stages) for record in records if record.ended == "ok"]
    known: dict[str, Any] = {"name": "modelled", "trust": "in-process", "figure": f"{', '.join(stages)} of {len(found)} cases"}
    if len(found) < len(records) or not found:
        return Check.model_validate({**known, "status": "not_run", "message": "a case did not run"})
    findings = sorted((f for record in found for f in tensors.assess(record)[2]), key=lambda f: -f.magnitude)
    if not findings:
        return Check.model_validate({**known, "status": "pass", "message": f"within limits; closest: {_closest(found)}"})
    over = tuple(f.model_copy(update={"kind": "over_limit"}) if f.kind == "incorrect" else f for f in findings)
    known |= {"status": "fail", "kind": over[0].kind, "where": over[0].where, "findings": over}
    return Check.model_validate({**known, "message": f"{over[0].where}: {over[0].message}"})


def _limited(record: CompareRecord, stages: Sequence[str]) -> CompareRecord:
    """The record as if the task had these stages alone."""
    return record.model_copy(update={"bounds": {stage: bound for stage, bound in record.bounds.items() if stage in stages}})


def _without(record: CompareRecord, stages: Sequence[str]) -> CompareRecord:
    return _limited(record, [stage for stage in record.bounds if stage not in stages])


def _closest(records: Sequence[CompareRecord]) -> str:
    """The stage that comes nearest to its limit."""
    shares = [
        (r.stages[s].error / bound.error, s, r.case, r.stages[s].error, bound.error) for r in records for s, bound in r.bounds.items()
    ]
    _, stage, case, error, limit = max(shares)
    return f"{stage} of {case}, {error:.1e} of {limit:.2g}"


def growth(records: Sequence[CompareRecord], limits: Sequence[Growth], platform: PlatformName) -> Check:
    """How a stage's error grows from a small case to a large one."""
    trust = accuracy_trust(platform)
    by_case = {record.case: record for record in records}
    worst, share = "", -1.0
    for limit in limits:
        small, large = by_case.get(limit.start), by_case.get(limit.to)
        value = tensors.growth(small, large, limit.stage) if small and large else None
        if value is None:
            message = f"stage {limit.stage}: {limit.start} or {limit.to} has no figure"
            return Check(name="growth", status="not_run", trust=trust, message=message)
        if value / limit.max > share:
            share, worst = value / limit.max, f"{limit.stage}: {value:.3g} times from {limit.start} to {limit.to}, {limit.max:g} allowed"
    if share > 1:
        return Check(name="growth", status="fail", kind="incorrect", trust=trust, figure=worst, message=f"error grows too fast: {worst}")
    return Check(name="growth", status="pass", trust=trust, figure=worst, message="error grows slower than the limit")


_ENDED = {"early": "tampered", "lost": "tampered", "moving": "contention", "timeout": "timeout"}
_RAISED = {"OverwrittenError": "incorrect", "HostWorkError": "not_own_work", "RaceError": "nondeterministic"}
"""What the cage raises when it sees it -> kind of failure."""


def repeat(records: Sequence[RepeatRecord], platform: PlatformName, modelled: Sequence[str] = ()) -> Check:
    """Calls that follow each other in one process are each right for their own inputs; ``modelled`` stages are not asked."""
    known: dict[str, Any] = {"name": "repeat", "trust": accuracy_trust(platform)}
    known["figure"] = ", ".join(f"{len(record.calls)} calls of {record.case}" for record in records)
    for record in records:
        if not record.calls and not record.ended:
            return Check.model_validate({**known, "status": "not_run", "message": f"no call of {record.case} was made"})
        if found := _repeat_fault(record, platform, modelled):
            return Check.model_validate({**known, "status": "fail", **found})
    return Check.model_validate({**known, "status": "pass", "message": "in one process every call is right for its own inputs"})


def _repeat_fault(record: RepeatRecord, platform: PlatformName, modelled: Sequence[str]) -> dict[str, Any] | None:
    """kind, message and, where there is one, place of what is wrong with the calls of one case."""
    if record.replayed:
        return {"kind": "replayed", "message": f"call {record.replayed[0] + 1} was answered with the result of an earlier one"}
    if record.ended:
        raised = next((kind for name, kind in _RAISED.items() if name in record.ending), None)
        return {"kind": raised or _ENDED.get(record.ended, "crashed"), "message": f"ended with {record.ended}: {record.ending}"}
    findings = [finding for call in record.calls for finding in tensors.assess(_without(call, modelled))[2]]
    if not findings:
        return None
    worst = max(findings, key=lambda finding: finding.magnitude)
    order = "; programs ran in the opposite order" if platform == "cpu-emulated" else ""
    return {"kind": worst.kind, "where": worst.where, "message": f"{worst.where}: {worst.message}{order}"}


def timing(records: Sequence[TimingRecord], spec: TaskSpec) -> Check:
    """Base and candidate on the judge's clock, case by case before any sum."""
    asked = spec.timing or Timing()
    found = {record.case: timing_kind.assess(record, asked, spec) for record in records}
    if len(found) != len(records) or not records:
        return Check(name="timing", status="not_run", trust="judged", message=f"{len(records)} records of {len(found)} cases")
    status, kind = timing_kind.aggregate(list(found.values()), asked)
    figure = ", ".join(f"{case} {case_found.credited:.3f}" for case, case_found in found.items())
    case, shown = min(found.items(), key=lambda item: (item[1].status != status, item[1].kind != kind))
    where = TensorWhere(case=case, stage="time")
    findings = tuple(
        Finding(kind=f.kind or f.status, where=TensorWhere(case=name, stage="time"), magnitude=1.0, message=f.message)
        for name, f in found.items()
    )
    return Check(
        name="timing", status=status, kind=kind, trust="judged", figure=f"times base's speed: {figure}", where=where,
        message=f"{case}: {shown.message}", findings=findings,
    )  # fmt: skip


def plausibility(records: Sequence[TimingRecord], spec: TaskSpec) -> Check:
    """No case is faster than its work can be done."""
    asked = spec.timing or Timing()
    found = {record.case: timing_kind.assess(record, asked, spec) for record in records}
    measured = {case: f for case, f in found.items() if f.interval is not None and f.floor_s is not None}
    base = {"name": "plausibility", "trust": "judged"}
    wrong = next(((case, f) for case, f in found.items() if f.kind == "implausible"), None)
    if wrong:
        where = TensorWhere(case=wrong[0], stage="time")
        return Check.model_validate(
            {**base, "status": "fail", "kind": "implausible", "where": where, "message": f"{wrong[0]}: {wrong[1].message}"}
        )
    if not measured:
        return Check.model_validate({**base, "status": "not_run", "message": "no case has both a time and a floor"})
    figure = ", ".join(f"{case} {f.candidate_s / f.floor_s:.3g} times its floor" for case, f in measured.items() if f.floor_s)
    return Check.model_validate({**base, "status": "pass", "figure": figure, "message": "no case is faster than its work can be done"})


def determinism(record: DeterminismRecord) -> Check:
    """The same bytes in, the same bytes out."""
    figure = f"{len(record.digests)} runs of {record.case}"
    if len(set(record.digests)) == 1 and len(record.digests[0]) == 64:
        return Check(name="determinism", status="pass", trust="judged", figure=figure, message="bitwise equal outputs")
    known: dict[str, Any] = {"name": "determinism", "status": "fail", "trust": "judged", "figure": figure}
    if crashed := next((d for d in record.digests if len(d) != 64), None):
        return Check.model_validate({**known, "kind": "crashed", "message": crashed})
    message = "equal inputs gave different outputs"
    findings = tuple(
        Finding(
            kind="nondeterministic", where=TensorWhere(case=record.case, stage=d.stage, index=d.index), magnitude=d.elements / d.of,
            message=f"{d.elements} of {d.of} elements of stage {d.stage} differ, the first at [{', '.join(map(str, d.index))}]",
        )
        for d in record.differences
    )  # fmt: skip
    if findings:
        known |= {"where": findings[0].where, "findings": findings}
        message += f": {findings[0].message}"
    return Check.model_validate({**known, "kind": "nondeterministic", "message": message})


def tests(record: SuiteRecord) -> Check:
    """The project's own tests: what passed at base passes."""
    status, kind, findings = suite_kind.assess(record)
    figure = str(suite_kind.summary(record)["headline"])
    worst = findings[0] if findings and status != "pass" else None
    message = f"{worst.where}: {worst.message}" if worst else "nothing that passed at base fails, is skipped or is gone"
    return Check(
        name="tests", status=status, kind=kind, trust="in-process", figure=figure, where=worst.where if worst else None,
        message=message[:600], findings=findings,
    )  # fmt: skip


def events(record: EventsRecord) -> Check:
    """The task's scenario under schedules that the judge drew: nothing unordered, no use after a free, nobody left waiting."""
    status, kind, findings = events_kind.assess(record)
    worst = findings[0] if findings and status != "pass" else None
    message = f"{worst.where}: {worst.message}" if worst else "nothing unordered"
    return Check(
        name="events", status=status, kind=kind, trust="in-process", figure=f"{len(record.seeds)} schedules",
        where=worst.where if worst else None, message=message[:600], findings=findings,
    )  # fmt: skip


def static(found: StaticRecord, base: StaticRecord, limits: Static) -> Check:
    """Compiled cost: tensor cores kept, registers, spills, shared memory."""
    status, kind, findings = static_kind.assess(found, base, limits)
    dots = [dot for kernel in found.kernels for dot in kernel.dots]
    figure = (
        f"{sum(d.unit == 'tensor_core' for d in dots)} of {len(dots)} dots on tensor cores, {sum(k.spilled for k in found.kernels)} spills"
    )
    where = findings[0].where if findings else None
    message = findings[0].message if findings else f"{len(found.kernels)} kernels compiled for {found.target} within their limits"
    message += "".join(f"; {note}" for note in found.notes)
    return Check(
        name="static", status=status, kind=kind, trust="in-process", figure=figure, where=where, message=message, findings=findings
    )


def precision(records: Sequence[CompareRecord], found: StaticRecord, case: str) -> Check:
    """What each dot multiplied under emulation, and how, is what the compiler was asked for: on ``case``, and on every other."""
    base = {"name": "precision", "trust": "in-process"}
    lines = {(dot.file, dot.line) for record in records for dot in record.dots}
    figure = f"{len(lines)} dot lines in {len(records)} cases"
    base["figure"] = figure
    if found.errors or any(record.ended != "ok" for record in records) or case not in {record.case for record in records}:
        return Check.model_validate({**base, "status": "not_run", "message": "the entry did not run or compile"})
    launches = [launch for record in records if record.case == case for launch in record.launches]
    if other := static_kind.other_kernels(launches, found):
        return Check.model_validate({**base, "status": "fail", "kind": "tampered", "message": other[0]})
    without = next((r for r in records if not r.dots), None) if any(kernel.dots for kernel in found.kernels) else None
    if without:
        named = without.case if without.split == "public" else "a held-out case"
        message = f"{named} ran without a product that {case} was compiled with: other code runs for other shapes"
        return Check.model_validate({**base, "status": "fail", "kind": "lost_tensor_cores", "message": message})
    for record in sorted(records, key=lambda r: (r.case != case, r.split, r.case)):
        findings = static_kind.precision_mismatch(record.dots, found, whole=record.case == case)
        if findings:
            worst = findings[0]
            failed = worst.kind == "tampered"
            message = f"{worst.where} in {record.case if record.split == 'public' else 'a held-out case'}: {worst.message}"
            status, kind = ("fail", worst.kind) if failed else ("inconclusive", None)
            return Check.model_validate({**base, "status": status, "kind": kind, "where": worst.where, "message": message})
    return Check.model_validate({**base, "status": "pass", "message": "emulated and compiled products agree on every line"})


def builds(record: BuildRecord, base: BuildRecord, path: str) -> Check:
    """The project's own build step ends well and leaves its files. Inconclusive when base's does not."""
    status, kind, findings = builds_kind.assess(record, path)
    known: dict[str, Any] = {"name": "builds", "trust": "in-process", "figure": f"{len(record.files)} files built"}
    if base.ended != "ok":
        message = f"base: the build ended with {base.ended}: {base.ending}"[:600]
        return Check.model_validate({**known, "status": "inconclusive", "kind": "no_yardstick", "message": message})
    if findings:
        known |= {"where": findings[0].where, "findings": findings}
    message = findings[0].message[:600] if findings else "the build ends well and leaves what it is to leave"
    return Check.model_validate({**known, "status": status, "kind": kind, "message": message})


def ran(record: RanRecord) -> Check:
    """What ran is what was changed: every imported file has the digest the host gave it."""
    figure = f"{len(record.loaded)} files imported"
    known = record.expected | record.built
    wrong = [path for path, digest in record.loaded.items() if known.get(path) != digest]
    if wrong:
        message = f"{wrong[0]}: what ran is not what the patch says"
        return Check(
            name="ran", status="fail", kind="tampered", trust="in-process", figure=figure, where=FileWhere(path=wrong[0]), message=message
        )
    if record.entry not in record.loaded:
        message = f"{record.entry} was not imported from the workspace"
        return Check(
            name="ran",
            status="fail",
            kind="stale_build",
            trust="in-process",
            figure=figure,
            where=FileWhere(path=record.entry),
            message=message,
        )
    return Check(
        name="ran", status="pass", trust="in-process", figure=figure, message="every imported file has the digest of the patched tree"
    )
