"""Collect evidence of the project's own commands: its test suite, its benchmark. They run in a cage; the judge keeps the clock."""

import secrets
import time
from pathlib import PurePosixPath

from infra_agent import instruments
from infra_agent.errors import UsageError
from infra_agent.judge import figures, suite
from infra_agent.judge.collector import Collector, ended, tail
from infra_agent.judge.figures import BenchRun, FiguresRecord
from infra_agent.judge.suite import SuiteRecord, SuiteRun
from infra_agent.sandbox.base import Result
from infra_agent.task.spec import Commands
from infra_agent.task.tree import Tree, digest, with_protected

_AGAIN = 2
_CONFIGURATION = {
    "conftest.py", "pytest.ini", "pytest.toml", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "sitecustomize.py",
    "usercustomize.py",
}  # fmt: skip


def asked(collector: Collector, what: str) -> Commands:
    """The task's [commands]; raises UsageError where it does not say how to ``what``: test | bench."""
    commands = collector.task.spec.commands
    if commands is None or not getattr(commands, what):
        raise UsageError(f"{collector.task.folder}: [commands] {what} is missing: say which command the project has for that")
    return commands


def _run(collector: Collector, name: str, tree: Tree, args: dict[str, object], wall_s: float) -> tuple[Result, float]:
    """One request, and its seconds by the judge's clock."""
    instrument = instruments.load(name)
    with collector.cages(instrument).cage() as cage:
        packed = collector.builds.packed(tree)
        began = time.monotonic()
        result = cage.run(instrument.program, dict(args), {"tree": packed}, timeout_s=wall_s)
        return result, time.monotonic() - began


def _tested(collector: Collector, tree: Tree, commands: Commands, only: list[str]) -> SuiteRun:
    nonce = secrets.token_hex(16)
    args: dict[str, object] = {"argv": list(commands.test), "only": only, "nonce": nonce}
    result, _ = _run(collector, "tests", tree, args, commands.wall_s)
    if not result.ok:
        return SuiteRun(tree=digest(tree), ended=ended(result), ending=tail(result)[:2000])
    return suite.read(result.report, nonce, digest(tree), tail(result)[:2000])


def tests(collector: Collector, tree: Tree, base: Tree, runs: int) -> SuiteRecord:
    """The suite on base, on the candidate ``runs`` times, then again what was in doubt. Raises UsageError without a command."""
    commands = asked(collector, "test")
    whole = with_protected(tree, base, collector.task.spec.edit.protected)
    record = SuiteRecord(
        base=_tested(collector, base, commands, []),
        candidate=_tested(collector, whole, commands, []),
        again=tuple(_tested(collector, whole, commands, []) for _ in range(min(runs, 50) - 1)),
        configuration=tuple(sorted(p for p in whole if PurePosixPath(p).name in _CONFIGURATION and base.get(p) != whole[p])),
    )
    if record.base.ended != "ok" or record.candidate.ended != "ok":
        return record
    failing, slow = suite.doubtful(record)
    again, base_again = list(record.again), list(record.base_again)
    again += [_tested(collector, whole, commands, failing) for _ in range(_AGAIN if failing else 0)]
    if slow:
        again.append(_tested(collector, whole, commands, slow))
        base_again.append(_tested(collector, base, commands, slow))
    return record.model_copy(update={"again": tuple(again), "base_again": tuple(base_again)})


def bench(collector: Collector, tree: Tree, base: Tree, runs: int) -> FiguresRecord:
    """Base and candidate ``runs`` times each, in turns; who begins changes from turn to turn. Raises UsageError without a command."""
    commands = asked(collector, "bench")
    sides = {"base": base, "candidate": with_protected(tree, base, collector.task.spec.edit.protected)}
    done: dict[str, list[BenchRun]] = {"base": [], "candidate": []}
    for turn in range(max(2, min(runs, 100))):
        for side in sorted(sides, reverse=turn % 2 == 1):
            done[side].append(_benched(collector, sides[side], commands))
            if done[side][-1].ended != "ok":
                return _figures(done, sides, commands)
    return _figures(done, sides, commands)


def _figures(done: dict[str, list[BenchRun]], sides: dict[str, Tree], commands: Commands) -> FiguresRecord:
    program = next((part for part in commands.bench if part in sides["base"]), "workspace")
    trees = {"tree": digest(sides["candidate"]), "base_tree": digest(sides["base"])}
    return FiguresRecord(base=tuple(done["base"]), candidate=tuple(done["candidate"]), program=program, **trees)


def _benched(collector: Collector, tree: Tree, commands: Commands) -> BenchRun:
    nonce = secrets.token_hex(16)
    file = commands.figures.file if commands.figures else ""
    args: dict[str, object] = {"argv": list(commands.bench), "file": file, "nonce": nonce}
    result, wall_s = _run(collector, "bench", tree, args, commands.wall_s)
    if not result.ok:
        return BenchRun(ended=ended(result), ending=tail(result)[:2000], wall_s=wall_s)
    return figures.read(result.report, nonce, wall_s, commands.figures)
