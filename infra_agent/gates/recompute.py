"""A verdict asked again of its own records: what must follow, follows, or it is named.

Two readers need this: ``replay``, and an approval, which is worth something only for a verdict that holds.
"""

import json
from collections.abc import Callable, Mapping

from infra_agent import canonical
from infra_agent.gates import checks, own_work, policy, reading
from infra_agent.gates.proposal import expected_checks
from infra_agent.judge import builds
from infra_agent.judge.builds import BuildRecord
from infra_agent.judge.events import EventsRecord
from infra_agent.judge.records import DeterminismRecord, RanRecord, RepeatRecord
from infra_agent.judge.static import StaticRecord
from infra_agent.judge.suite import SuiteRecord
from infra_agent.judge.tensors import CompareRecord
from infra_agent.judge.timing import TimingRecord
from infra_agent.judge.verdict import decide
from infra_agent.session import events
from infra_agent.session.log import Blobs
from infra_agent.session.verdict import Check, Verdict
from infra_agent.task.patch import changes
from infra_agent.task.spec import Static, TaskSpec
from infra_agent.task.tree import with_protected

Records = Mapping[str, bytes]
_MEASURED = ("compare", "determinism", "perturbed", "repeat", "timing", "static", "events", "build")
"""What records of the files that ran are called, up to the first point; those of base's begin with ``base``."""
_CARRIED = {"applies", "isolation"}
"""``applies`` needs the repository: replay has none, a merge applies the patch itself. ``isolation`` has no record: it is asked apart."""


def _compares(records: Records) -> list[CompareRecord]:
    return [CompareRecord.model_validate_json(data) for _, data in sorted(records.items())]


def _repeats(records: Records) -> list[RepeatRecord]:
    return [RepeatRecord.model_validate_json(data) for data in records.values()]


def _timings(records: Records) -> list[TimingRecord]:
    return [TimingRecord.model_validate_json(data) for _, data in sorted(records.items())]


def _static(records: Records, spec: TaskSpec) -> Check:
    found, base = (StaticRecord.model_validate_json(records[name]) for name in ("static", "base.static"))
    return checks.static(found, base, spec.static or Static(case=""))


def _precision(records: Records, spec: TaskSpec) -> Check:
    compares = {name: data for name, data in records.items() if name != "static"}
    found = StaticRecord.model_validate_json(records["static"])
    return checks.precision(_compares(compares), found, spec.static.case if spec.static else "")


def _own_work(records: Records, spec: TaskSpec) -> Check:
    """Without ``integers`` or ``base``, as sessions of 2026 have them, it refuses more: leaving them out gains nothing."""
    needed = ("kernels", *(("products", "base_products") if spec.static else ()))
    present = [name for name in own_work.RECORDS if name in needed or own_work.RECORDS[name] in records]
    read = {name: CompareRecord.model_validate_json(records[own_work.RECORDS[name]]) for name in present}
    return own_work.judge(own_work.Perturbations(**read))


def _builds(records: Records, spec: TaskSpec) -> Check:
    found, base = (BuildRecord.model_validate_json(records[name]) for name in ("build", "base.build"))
    return checks.builds(found, base, builds.place(spec))


_AGAIN: dict[str, Callable[[Records, TaskSpec], Check]] = {
    "scope": lambda records, spec: reading.scope(records["patch"], spec, frozenset(json.loads(records["base_paths"]))),
    "builds": _builds,
    "secrets": lambda records, spec: reading.secrets(records["patch"]),
    "accuracy": lambda records, spec: checks.accuracy(_compares(records), False, spec.platform, spec.entry.modelled),
    "held_out": lambda records, spec: checks.accuracy(_compares(records), True, spec.platform, spec.entry.modelled),
    "modelled": lambda records, spec: checks.modelled(_compares(records), spec.entry.modelled),
    "growth": lambda records, spec: checks.growth(_compares(records), spec.growth, spec.platform),
    "own_work": _own_work,
    "ran": lambda records, spec: checks.ran(RanRecord.model_validate_json(records["ran"])),
    "determinism": lambda records, spec: checks.determinism(DeterminismRecord.model_validate_json(records["determinism"])),
    "repeat": lambda records, spec: checks.repeat(_repeats(records), spec.platform, spec.entry.modelled),
    "static": _static,
    "precision": _precision,
    "tests": lambda records, spec: checks.tests(SuiteRecord.model_validate_json(records["suite"])),
    "events": lambda records, spec: checks.events(EventsRecord.model_validate_json(records["events"])),
    "timing": lambda records, spec: checks.timing(_timings(records), spec),
    "plausibility": lambda records, spec: checks.plausibility(_timings(records), spec),
}


def again(check: Check, blobs: Blobs, spec: TaskSpec) -> Check | None:
    """The check computed from its records; None when it has none."""
    if not check.records or check.name not in _AGAIN:
        return None
    records = {name: blobs.get(digest) for name, digest in check.records.items()}
    try:
        return _AGAIN[check.name](records, spec)
    except KeyError:  # one of the records is not there
        return None


def faults(verdict: Verdict, made: events.ProposalMade, header: events.SessionStarted, blobs: Blobs) -> list[str]:
    """Everything in a verdict that does not follow; empty when it holds."""
    spec = TaskSpec.model_validate_json(blobs.get(header.spec))
    found = [fault for check in verdict.checks if (fault := _check_fault(check, blobs, spec, verdict.platform))]
    names = [check.name for check in verdict.checks]
    if names != expected_checks(spec, names) or len(set(names)) != len(names):
        found.append(f"checks are {', '.join(names)}; the task asks for {', '.join(expected_checks(spec, names))}")
    if decide(verdict.checks) != verdict.decision:
        found.append(f"decision {verdict.decision} does not follow from the checks")
    found += _isolation_faults(verdict, header, blobs)
    found += _timing_faults(verdict, spec, json.loads(blobs.get(header.cases))["public"])
    found += _patch_faults(verdict, made, header, blobs)
    return found


def _isolation_faults(verdict: Verdict, header: events.SessionStarted, blobs: Blobs) -> list[str]:
    """The isolation is the session's, and is ruled on by the session's policy."""
    if verdict.isolation != header.isolation:
        return [f"isolation {verdict.isolation}, but the session ran at {header.isolation}"]
    least = policy.pinned(blobs.get(header.policy)).isolation
    stated = next((check for check in verdict.checks if check.name == "isolation"), None)
    return [] if stated == checks.isolation(verdict.isolation, least) else ["check isolation does not follow from the isolation"]


def _timing_faults(verdict: Verdict, spec: TaskSpec, public: list[str]) -> list[str]:
    """A verdict that was not refused has timed every case that the task names: the slow one must not be left out."""
    check = next((check for check in verdict.checks if check.name == "timing"), None)
    if spec.timing is None or check is None or check.status in ("fail", "not_run"):
        return []
    asked = {f"timing.{name}" for name in (spec.timing.cases or public)}
    return [] if set(check.records) == asked else [f"check timing has {', '.join(sorted(check.records)) or 'no case'}"]


def _check_fault(check: Check, blobs: Blobs, spec: TaskSpec, platform: str) -> str | None:
    excused = spec.platforms[platform].may_not_run if platform in spec.platforms else {}
    if check.excused and check.name not in excused:
        return f"check {check.name}: excused, but the task does not excuse it on {platform}"
    if check.status == "not_run" and not check.records:
        return None
    if check.name in _CARRIED:
        return None
    computed = again(check, blobs, spec)
    if computed is None:
        return f"check {check.name}: {check.status} without a record to compute it from"
    if computed != check.model_copy(update={"records": {}, "excused": False}):
        return f"check {check.name} computed again differs from what is recorded"
    return None


def _patch_faults(verdict: Verdict, made: events.ProposalMade, header: events.SessionStarted, blobs: Blobs) -> list[str]:
    """The patch that was checked is the one proposed, on the base of the header, and the files that ran are what it makes."""
    base = json.loads(blobs.get(header.base_files))
    records = {check.name: check.records for check in verdict.checks}
    other = [name for name in ("scope", "secrets") if records.get(name, {}).get("patch", made.patch) != made.patch]
    found = [f"check {name} is of another patch" for name in other]
    if "base_paths" in records.get("scope", {}) and json.loads(blobs.get(records["scope"]["base_paths"])) != sorted(base):
        found.append("check scope is of another base")
    if "ran" not in records.get("ran", {}):
        return found
    ran = RanRecord.model_validate_json(blobs.get(records["ran"]["ran"]))
    expected, build = ran.expected, records.get("builds", {}).get("build")
    if ran.built != (BuildRecord.model_validate_json(blobs.get(build)).files if build else {}):
        found.append("the files that ran beside the sources are not those that the build left")
    touched = {path for path in base.keys() | expected.keys() if base.get(path) != expected.get(path)}
    if touched != {change.path for change in changes(blobs.get(made.patch))}:
        found.append("the files that ran are not base with the patch applied")
    trees = {"base": canonical.digest_of(base)} | dict.fromkeys(_MEASURED, canonical.digest_of(expected))
    protected = TaskSpec.model_validate_json(blobs.get(header.spec)).edit.protected
    suite = {"base": trees["base"], "candidate": canonical.digest_of(with_protected(expected, base, protected))}
    return found + _suite_faults(records.get("tests", {}), suite, blobs) + _record_faults(records, trees, header, blobs)


def _suite_faults(listed: Mapping[str, str], trees: Mapping[str, str], blobs: Blobs) -> list[str]:
    """The tests ran on base, and on what the patch makes with base's protected files."""
    if "suite" not in listed:
        return []
    said = json.loads(blobs.get(listed["suite"]))
    return [f"record suite has other files for {side}" for side, tree in trees.items() if said[side]["tree"] != tree]


def _record_faults(
    records: Mapping[str, Mapping[str, str]], trees: Mapping[str, str], header: events.SessionStarted, blobs: Blobs
) -> list[str]:
    """Every record is of the files that ran, or of base's, and of every case there is."""
    found = []
    for name, digest in ((n, d) for listed in records.values() for n, d in listed.items()):
        tree = trees.get(name.split(".")[0])
        if tree is not None and json.loads(blobs.get(digest))["tree"] != tree:
            found.append(f"record {name} is of other files than {'base' if name.startswith('base') else 'the patch makes'}")
    cases = json.loads(blobs.get(header.cases))
    for check, split in (("accuracy", "public"), ("modelled", "public"), ("growth", "public"), ("held_out", "held_out")):
        listed = records.get(check, {})
        if listed and set(listed) != {f"compare.{split}.{case}" for case in cases[split]}:
            found.append(f"check {check} does not have every {split} case")
    return found
