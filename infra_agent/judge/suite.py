"""Evidence kind ``tests``: the project's own tests, a candidate's outcomes beside base's of the same files. Trust: in-process.

Outcomes are written where the candidate runs. What the judge holds against that: the nonce, which the tests' process never sees, the
list of tests that base's run names, and an exit status that must follow from the outcomes. Reading and assessing are pure.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from infra_agent.frozen import Frozen, one_line
from infra_agent.session.observation import FileWhere, Finding, LineWhere, Metric, Status

Result = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"]
Id = Annotated[str, Field(min_length=1, max_length=1000)]
Text = Annotated[str, Field(max_length=400)]
_MOST = 50_000
_FACTOR, _SECONDS = 2.0, 0.5
_GRAVE = {"tampered": 1e6, "crashed": 1e5, "timeout": 1e5, "broken_test": 1e4, "new_test_fails": 5e3, "skipped_test": 2e3, "flaky": 1e3}
_FAILS = ("tampered", "timeout", "crashed", "broken_test", "new_test_fails", "skipped_test")


class Started(Frozen):
    """A test, and where it is defined: a path relative to the workspace and a line from 1."""

    id: Id
    path: Text
    line: int = Field(ge=0, le=2**31)


class Outcome(Started):
    """What became of a test."""

    outcome: Result
    seconds: float = Field(ge=0, le=1e7)
    """Setup, call and teardown together."""
    message: Text = ""

    @property
    def bad(self) -> bool:
        """Failed, or could not be set up or taken down."""
        return self.outcome in ("failed", "error")


class Broken(Frozen):
    """A file that could not be read as tests."""

    id: Annotated[str, Field(max_length=1000)]
    message: Text = ""


class _Said(Frozen):
    nonce: Annotated[str, Field(max_length=64)]
    code: int = Field(ge=-64, le=255)
    collected: Annotated[tuple[Id, ...], Field(max_length=_MOST)]
    broken: Annotated[tuple[Broken, ...], Field(max_length=_MOST)]
    tests: Annotated[tuple[Outcome, ...], Field(max_length=_MOST)]
    running: Annotated[tuple[Started, ...], Field(max_length=1)]


class SuiteRun(Frozen):
    """One run of the command on one tree."""

    tree: str
    """Digest of the files that ran."""
    ended: str
    """ok, or how the request ended; tampered when what it left is not what the runner writes."""
    ending: str = ""
    code: int = 0
    """Exit status of the command."""
    collected: tuple[str, ...] = ()
    broken: tuple[Broken, ...] = ()
    tests: tuple[Outcome, ...] = ()
    running: tuple[Started, ...] = ()
    """The test that began and did not end."""

    @property
    def by_id(self) -> dict[str, Outcome]:
        """Outcomes by test id."""
        return {test.id: test for test in self.tests}


class SuiteRecord(Frozen):
    """Base's run and the candidate's; ``again`` and ``base_again``: later runs, of all tests or of those that were in doubt."""

    base: SuiteRun
    candidate: SuiteRun
    again: tuple[SuiteRun, ...] = ()
    base_again: tuple[SuiteRun, ...] = ()
    configuration: tuple[str, ...] = ()
    """Files that say how tests run, and that the candidate added or changed."""


def read(report: bytes, nonce: str, tree: str, ending: str) -> SuiteRun:
    """A run from what the cage left. A report without the nonce, or of another shape, or with a test named twice, is ``tampered``."""
    try:
        said = _Said.model_validate_json(report)
    except ValueError as error:
        return SuiteRun(tree=tree, ended="tampered", ending=f"the report is not of the right shape: {one_line(error)}"[:2000])
    if said.nonce != nonce:
        return SuiteRun(tree=tree, ended="tampered", ending="the report does not hold the judge's nonce")
    if len({test.id for test in said.tests}) < len(said.tests):
        return SuiteRun(tree=tree, ended="tampered", ending="the report names a test twice")
    return SuiteRun(tree=tree, ended="ok", ending=ending, **said.model_dump(exclude={"nonce"}))


def doubtful(record: SuiteRecord) -> tuple[list[str], list[str]]:
    """Tests to run again: those that fail now and did not, and those that look slow."""
    base = record.base.by_id
    runs = [record.candidate, *record.again]
    failed = {test.id for run in runs for test in run.tests if test.bad and not (test.id in base and base[test.id].bad)}
    return sorted(failed), [test.id for test in record.candidate.tests if _slow(record, test.id) and test.id not in failed]


def _seconds(runs: list[SuiteRun], name: str) -> float:
    """The least of several runs: what else the machine does only adds. Infinite where the test did not pass."""
    return min((run.by_id[name].seconds for run in runs if name in run.by_id and not run.by_id[name].bad), default=float("inf"))


def _slow(record: SuiteRecord, name: str) -> bool:
    then, now = _seconds([record.base, *record.base_again], name), _seconds([record.candidate, *record.again], name)
    return now < float("inf") and now >= _FACTOR * then and now >= then + _SECONDS


def assess(record: SuiteRecord) -> tuple[Status, str | None, tuple[Finding, ...]]:
    """Pass while nothing that worked at base fails, is skipped or is gone; inconclusive where base's own run says nothing."""
    base = record.base
    if base.ended != "ok" or base.code not in (0, 1) or not base.tests:
        message = f"base's own run says nothing ({base.ended}, exit status {base.code}, {len(base.tests)} tests): {base.ending}"
        return "inconclusive", "no_yardstick", (_whole("no_yardstick", message),)
    findings = sorted([*_run(record), *_changes(record), *_facts(record)], key=lambda f: -f.magnitude)
    kinds = {finding.kind for finding in findings}
    for kind in _FAILS:
        if kind in kinds:
            return "fail", kind, tuple(findings)
    return ("inconclusive", "flaky", tuple(findings)) if "flaky" in kinds else ("pass", None, tuple(findings))


def _run(record: SuiteRecord) -> Iterator[Finding]:
    """Faults of the run as a whole: how it ended, and whether all of base's tests have an outcome."""
    run, base = record.candidate, record.base
    if run.ended != "ok":
        kind = run.ended if run.ended in _GRAVE else "crashed"
        yield _whole(kind, f"{run.ended}: {run.ending}")
        return
    files = tuple(broken.id for broken in run.broken)
    for broken in run.broken:
        lost = [test for test in base.tests if _inside(test.id, broken.id)]
        if lost:
            said = f"its file cannot be read as tests any more ({len(lost)} tests lost): {broken.message}"
            yield _at(lost[0], "broken_test", said)
    missing = [test for test in base.tests if test.id not in run.by_id and not any(_inside(test.id, file) for file in files)]
    stopped = run.code < 0 or run.code > 1
    where = run.running[0] if run.running else (missing[0] if missing else None)
    if stopped and where is not None and not files:
        yield _at(where, "crashed", f"the run ended here with exit status {run.code}; {len(missing)} tests have no outcome: {run.ending}")
    elif missing and not (stopped and files):
        said = f"{len(missing)} of base's tests have no outcome, and the exit status {run.code} does not say why"
        yield _at(where or missing[0], "tampered", said)
    elif _disagrees(run) and not _disagrees(base):
        yield _whole("tampered", f"exit status {run.code} does not follow from {sum(t.bad for t in run.tests)} failures")


def _disagrees(run: SuiteRun) -> bool:
    failed = any(test.bad for test in run.tests) or bool(run.broken)
    return (run.code == 0 and failed) or (run.code == 1 and not failed)


def _inside(test: str, file: str) -> bool:
    """Is the test of that file or folder? An id of '' or '.' is the whole session."""
    return file in ("", ".") or test == file or test.startswith((f"{file}::", f"{file}/"))


def _changes(record: SuiteRecord) -> Iterator[Finding]:
    """Test by test: what fails now and did not, what changes its mind, what is skipped."""
    base = record.base.by_id
    runs = [run.by_id for run in (record.candidate, *record.again)]
    for name in dict.fromkeys(test.id for run in runs for test in run.values()):
        seen = [run[name] for run in runs if name in run]
        worst, then = next((test for test in seen if test.bad), seen[0]), base.get(name)
        if then is not None and then.bad:
            continue
        if worst.bad and not all(test.bad for test in seen):
            failed = sum(test.bad for test in seen)
            yield _at(worst, "flaky", f"{name} failed {failed} of {len(seen)} times on the same files: {worst.message}")
        elif worst.bad:
            kind = "new_test_fails" if then is None else "broken_test"
            was = "base has no such test" if then is None else f"{then.outcome} at base"
            yield _at(worst, kind, f"{name} {worst.outcome}, {was}; {len(seen)} runs: {worst.message}")
        elif then is not None and then.outcome == "passed" and worst.outcome in ("skipped", "xfailed"):
            yield _at(worst, "skipped_test", f"{name} is {worst.outcome} and passed at base: {worst.message}")


def _facts(record: SuiteRecord) -> Iterator[Finding]:
    """What no verdict needs but a reader does."""
    base = record.base.by_id
    for test in record.candidate.tests:
        if test.id not in base:
            continue
        if _slow(record, test.id):
            then, now = _seconds([record.base, *record.base_again], test.id), _seconds([record.candidate, *record.again], test.id)
            message = f"{test.id} takes {now:.2f} s, {now / max(then, 1e-3):.1f} times base's {then:.2f} s"
            yield _at(test, "slow_test", message, 100 + now - then)
        elif base[test.id].bad and not test.bad:
            yield _at(test, "now_passes", f"{test.id} {test.outcome}, {base[test.id].outcome} at base", 1.0)
    for path in record.configuration:
        message = "says how tests run, and is not as at base: outcomes may differ for that reason"
        yield Finding(kind="test_configuration", where=FileWhere(path=path), magnitude=50.0, message=message)


def _at(test: Started, kind: str, message: str, magnitude: float | None = None) -> Finding:
    where = LineWhere(path=test.path, line=test.line)
    return Finding(kind=kind, where=where, magnitude=_GRAVE.get(kind, 0.0) if magnitude is None else magnitude, message=message[:600])


def _whole(kind: str, message: str) -> Finding:
    return Finding(kind=kind, where=FileWhere(path="workspace"), magnitude=_GRAVE.get(kind, 1e4), message=message[:600])


def summary(record: SuiteRecord) -> dict[str, Any]:
    """Headline and metrics of an observation."""
    run, base = record.candidate, record.base
    counts = {
        name: (sum(t.outcome == name for t in run.tests), sum(t.outcome == name for t in base.tests)) for name in ("passed", "failed")
    }
    looks = 1 + len(record.again)
    headline = f"{counts['passed'][0]} of {len(run.tests)} tests pass, {counts['passed'][1]} of {len(base.tests)} at base; {looks} runs"
    metrics = [Metric(name=name, value=now, base=then) for name, (now, then) in counts.items()]
    spent = Metric(name="tests_s", value=sum(t.seconds for t in run.tests), unit="s", base=sum(t.seconds for t in base.tests))
    return {"headline": headline, "metrics": (*metrics, spent)}
