"""One instrument on one tree: an observation for a reader, and the records it can be computed from again.

``observe`` is pure: the loop calls it after a measurement, ``replay`` calls it on the stored records.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra_agent import canonical, instruments
from infra_agent.errors import UsageError
from infra_agent.frozen import Frozen
from infra_agent.instruments import Instrument
from infra_agent.judge import accesses, builds, commands, counts, events, figures, shrink, standing, static, suite, tensors, timing
from infra_agent.judge.builds import BuildError, BuildRecord
from infra_agent.judge.collector import Collector
from infra_agent.judge.counts import CountsRecord
from infra_agent.judge.events import EventsRecord
from infra_agent.judge.figures import FiguresRecord
from infra_agent.judge.reference import Case
from infra_agent.judge.report import ReportRecord
from infra_agent.judge.shrink import ShrunkRecord
from infra_agent.judge.static import StaticRecord
from infra_agent.judge.suite import SuiteRecord
from infra_agent.judge.tensors import CompareRecord
from infra_agent.judge.timing import TimingRecord
from infra_agent.session.observation import Finding, Isolation, Observation, TensorWhere, Trust
from infra_agent.task.spec import Figures, Static, TaskSpec, Timing
from infra_agent.task.tree import Tree

Records = dict[str, bytes]
"""Name -> canonical JSON of a judge-written record; ``artefact.NAME`` -> a file that an instrument left: nothing follows from it."""
ARTEFACT = "artefact."
_BUILD = "build"


@dataclass(frozen=True)
class Context:
    """What an observation carries besides what follows from its records."""

    instrument: str
    evidence_kind: str
    trust: Trust
    platform: str
    isolation: Isolation
    reproduce: tuple[str, ...]
    cost_s: float = 0.0
    evidence: dict[str, str] = field(default_factory=dict)


def measure(
    collector: Collector, name: str, tree: Tree, base: Tree, arguments: dict[str, Any], reproduce: tuple[str, ...]
) -> tuple[Observation, Records]:
    """Run instrument ``name``. ``arguments`` are complete and valid: ``agent.tools.parse`` made them."""
    instrument = instruments.load(name)
    began = time.monotonic()
    try:
        records = _collect(collector, instrument, tree, base, arguments)
    except BuildError as error:
        records = {_BUILD: encode(error.record)}
    evidence = {key: canonical.digest(value) for key, value in records.items()}
    about = Context(
        name,
        instrument.evidence,
        instrument.trust,
        collector.platform,
        collector.isolation,
        reproduce,
        round(time.monotonic() - began, 3),
        evidence,
    )
    return observe(records, collector.task.spec, about), records


def _collect(collector: Collector, instrument: Instrument, tree: Tree, base: Tree, arguments: dict[str, Any]) -> Records:
    if instrument.evidence == "tensors":
        cases = [collector.public_case(name) for name in _listed(arguments["cases"])] or [
            c for c in collector.cases("public") if c.when == "always"
        ]
        compared = collector.accuracies(tree, cases)
        shrunk = _shrunk(collector, tree, cases, compared) if arguments.get("shrink") else {}
        return {f"compare.{r.case}": encode(r) for r in compared} | shrunk
    if instrument.evidence == "timing":
        spec = collector.task.spec
        asked = _listed(arguments["cases"]) or (list(spec.timing.cases) if spec.timing else [])
        timed = [collector.public_case(name) for name in asked] or collector.cases("public")
        return {f"timing.{case.name}": encode(standing.timing(collector, tree, base, case)) for case in timed}
    if instrument.evidence == "static":
        more = {name: str(arguments[name]) for name in ("shapes", "cubin") if arguments.get(name)}
        found, then = collector.static_pair(tree, base, str(arguments["target"]), more, kept=True)
        return {"base.static": encode(then), "static": encode(found)}
    if instrument.evidence == "events":
        return {"events": encode(standing.events(collector, tree, int(arguments["schedules"])))}
    if instrument.evidence == "counts":
        counted, at_base = collector.counts_pair(instrument, tree, base, _case(collector, arguments))
        return {"base.counts": encode(at_base), "counts": encode(counted)}
    if instrument.evidence == "tests":
        return {"suite": encode(commands.tests(collector, tree, base, int(arguments["runs"])))}
    if instrument.evidence == "figures":
        return {"figures": encode(commands.bench(collector, tree, base, int(arguments["runs"])))}
    if instrument.evidence == "report":
        kept: dict[str, bytes] = {}
        said = encode(collector.report(instrument, tree, _case(collector, arguments), arguments, base, kept))
        return {"report": said} | {f"{ARTEFACT}{name}": data for name, data in kept.items()}
    raise UsageError(f"{instrument.name}: evidence of kind '{instrument.evidence}' comes with a later release")


def _shrunk(collector: Collector, tree: Tree, cases: list[Case], found: list[CompareRecord]) -> Records:
    """The smallest of the cases that fail, shrunk; nothing when all pass."""
    failing = [(case, record) for case, record in zip(cases, found, strict=True) if shrink.signature(record)]
    if not failing:
        return {}
    case, record = min(failing, key=lambda pair: pair[0].size)
    return {"shrunk": encode(shrink.shrink(case, record, collector.reference.smaller, lambda version: collector.accuracy(tree, version)))}


def _case(collector: Collector, arguments: dict[str, Any]) -> Case:
    """The case that is asked for, or the smallest."""
    named = str(arguments.get("case", ""))
    return collector.public_case(named) if named else collector.smallest_case()


def _listed(names: object) -> list[str]:
    return [name.strip() for name in str(names).split(",") if name.strip()]


def encode(record: Frozen) -> bytes:
    """Canonical JSON of a record."""
    return canonical.encode(record.model_dump(mode="json"))


def observe(records: Mapping[str, bytes], spec: TaskSpec, about: Context) -> Observation:
    """The observation that follows from the records; pure."""
    if set(records) == {_BUILD}:
        return _not_built(records, spec, about)
    make = {
        "tensors": _tensors, "timing": _timing, "static": _static, "events": _events, "counts": _counts, "report": _report, "tests": _suite,
        "figures": _figures,
    }[about.evidence_kind]  # fmt: skip
    return make(records, spec, about)


def _not_built(records: Mapping[str, bytes], spec: TaskSpec, about: Context) -> Observation:
    """Nothing was measured: the sources, or base's, cannot be built."""
    record = BuildRecord.model_validate_json(records[_BUILD])
    status, kind, findings = builds.assess(record, builds.place(spec))
    said = f"not measured: the build ended with {record.ended}"
    return Observation(**_common(about), status=status, kind=kind, headline=said, body=record.ending, findings=findings)


def _common(about: Context) -> dict[str, Any]:
    return {
        "instrument": about.instrument, "trust": about.trust, "platform": about.platform, "isolation": about.isolation,
        "cost_s": about.cost_s, "reproduce": about.reproduce, "evidence": about.evidence,
    }  # fmt: skip


def _tensors(records: Mapping[str, bytes], spec: TaskSpec, about: Context) -> Observation:
    found = [CompareRecord.model_validate_json(data) for name, data in sorted(records.items()) if name != "shrunk"]
    assessed = [tensors.assess(record) for record in found]
    findings = tuple(sorted((f for _, _, fs in assessed for f in fs), key=lambda f: -f.magnitude))
    failed = [record.case for record, (status, _, _) in zip(found, assessed, strict=True) if status == "fail"]
    headline = f"{len(failed)} of {len(found)} cases fail: {', '.join(failed)}" if failed else f"all {len(found)} cases within their limits"
    if "shrunk" in records:
        shrunk = ShrunkRecord.model_validate_json(records["shrunk"])
        of_case = [f.magnitude for record, (_, _, fs) in zip(found, assessed, strict=True) if record.case == shrunk.started for f in fs]
        findings = tuple(sorted((*findings, shrink.finding(shrunk, max(of_case, default=0.0))), key=lambda f: -f.magnitude))
        headline += f"; smallest that fails: {shrink.numbers(shrunk.case)}" if shrunk.compare else ""
    return Observation(
        **_common(about),
        status="fail" if failed else "pass",
        kind=findings[0].kind if findings else None,
        headline=headline,
        metrics=tuple(metric for record in found for metric in tensors.metrics(record)),
        findings=findings,
    )


def _timing(records: Mapping[str, bytes], spec: TaskSpec, about: Context) -> Observation:
    asked = spec.timing or Timing()
    found = {r.case: timing.assess(r, asked, spec) for r in (TimingRecord.model_validate_json(data) for _, data in sorted(records.items()))}
    status, kind = timing.aggregate(list(found.values()), asked)
    findings = tuple(
        Finding(kind=f.kind or f.status, where=TensorWhere(case=case, stage="time"), magnitude=float(f.status == "fail"), message=f.message)
        for case, f in found.items()
        if f.status != "pass"
    )
    headline = f"{timing.overall(list(found.values())):.3f} times base's speed may be quoted, over {len(found)} cases"
    metrics = tuple(metric for case, f in found.items() for metric in timing.metrics(case, f))
    return Observation(**_common(about), status=status, kind=kind, headline=headline, metrics=metrics, findings=findings)


def _static(records: Mapping[str, bytes], spec: TaskSpec, about: Context) -> Observation:
    base, found = (StaticRecord.model_validate_json(records[name]) for name in ("base.static", "static"))
    if found.cubin and not found.errors:
        metrics, findings = accesses.of_binaries(found.binaries, found.cubin)
        said = f"{len(found.binaries)} functions in {found.cubin}; nothing was compiled, the entry was not called"
        return Observation(**_common(about), status="pass", headline=said, metrics=metrics, findings=findings)
    status, kind, findings = static.assess(found, base, spec.static or Static(case=""))
    findings += accesses.advice(found, base)
    dots = [dot for kernel in found.kernels for dot in kernel.dots]
    on_cores = sum(dot.unit == "tensor_core" for dot in dots)
    headline = f"{len(found.kernels)} kernels compiled for {found.target}; {on_cores} of {len(dots)} dots on tensor cores"
    headline += "".join(f"; {note}" for note in found.notes)
    metrics = (*static.metrics(found, base), *accesses.metrics(found, base))
    return Observation(**_common(about), status=status, kind=kind, headline=headline, metrics=metrics, findings=findings)


def _events(records: Mapping[str, bytes], spec: TaskSpec, about: Context) -> Observation:
    record = EventsRecord.model_validate_json(records["events"])
    status, kind, findings = events.assess(record)
    looked = f"{len(record.seeds)} schedules, {len(record.log)} events in the last"
    shown = f"seed {record.seeds[-1]}, the last of {looked}" if record.seeds else record.ended
    said = f"{shown}, shows {len(findings)} faults" if findings else f"nothing unordered in {looked}"
    return Observation(**_common(about), status=status, kind=kind, headline=said, findings=findings)


def _counts(records: Mapping[str, bytes], spec: TaskSpec, about: Context) -> Observation:
    base, found = (CountsRecord.model_validate_json(records[name]) for name in ("base.counts", "counts"))
    status, kind, findings = counts.assess(found, base, spec.roofline)
    metrics = counts.metrics(found, base, spec.roofline)
    said = counts.headline(found, spec.roofline)
    return Observation(**_common(about), status=status, kind=kind, headline=said, metrics=metrics, findings=findings)


def _suite(records: Mapping[str, bytes], spec: TaskSpec, about: Context) -> Observation:
    record = SuiteRecord.model_validate_json(records["suite"])
    status, kind, findings = suite.assess(record)
    return Observation(**_common(about), status=status, kind=kind, findings=findings, **suite.summary(record))


def _figures(records: Mapping[str, bytes], spec: TaskSpec, about: Context) -> Observation:
    record = FiguresRecord.model_validate_json(records["figures"])
    asked = (spec.commands.figures if spec.commands else None) or Figures(format="json")
    status, kind, findings = figures.assess(record, asked)
    said, metrics = figures.headline(record, findings), figures.metrics(record, asked)
    return Observation(**_common(about), status=status, kind=kind, headline=said, metrics=metrics, findings=findings)


def _report(records: Mapping[str, bytes], spec: TaskSpec, about: Context) -> Observation:
    said = ReportRecord.model_validate_json(records["report"])
    kind = "crashed" if said.status == "fail" else None
    body = str(said.data["ending"]) if "ending" in said.data else None
    return Observation(
        **_common(about), status=said.status, kind=kind, headline=said.headline, metrics=said.metrics, findings=said.findings, body=body
    )
