"""Exchange base and candidate, one place at a time, in a copy of the source: some test of ``test_labels.py`` must go red."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

COPIED = ("infra_agent", "sandboxes", "feedback", "tests", "pyproject.toml")
PURE = "not slow"
SWAPS = {
    "effect": ("judge/timing.py", 'effect(restart, "base", "candidate")', 'effect(restart, "candidate", "base")', PURE),
    "ratio": ("judge/restart.py", "_net(a, relay) / _net(b, relay)", "_net(b, relay) / _net(a, relay)", PURE),
    "seconds": (
        "judge/timing.py",
        'seconds(seen, "base"),\n        seconds(seen, "candidate")',
        'seconds(seen, "candidate"),\n        seconds(seen, "base")',
        PURE,
    ),
    "faults": ("judge/timing.py", 'fault.role == "candidate"', 'fault.role == "base"', PURE),
    "ended": ("judge/timing.py", 'record.ended_role == "candidate"', 'record.ended_role == "base"', PURE),
    "claim": ("judge/statistics.py", "if interval.low > edge:", "if interval.high < -edge:", PURE),
    "truth": ("judge/tensors.py", "_stage(value, truth[stage], reference[stage]", "_stage(value, reference[stage], truth[stage]", PURE),
    "static": ("gates/checks.py", "static_kind.assess(found, base, limits)", "static_kind.assess(base, found, limits)", PURE),
    "floor": ("judge/suspicion.py", 'set_s(restart, "candidate")', 'set_s(restart, "base")', PURE),
    "late": ("judge/suspicion.py", '= ("base", "again")', '= ("candidate",)', PURE),
    "builds": ("gates/checks.py", "builds_kind.assess(record, path)", "builds_kind.assess(base, path)", PURE),
    "own work": (
        "gates/own_work.py",
        "if found.products and stage in right(found.products)",
        "if stage in right(found.base_products)",
        PURE,
    ),
    "dots": ("gates/own_work.py", "_differs(found.base, found.base_products, stage)", "_differs(found.base, found.products, stage)", PURE),
    "trees": (
        "judge/standing.py",
        '"base": of_base, "candidate": collector.builds.packed(tree)',
        '"base": collector.builds.packed(tree), "candidate": of_base',
        "",
    ),
    "digests": ("judge/standing.py", "tree=digest(tree), base_tree=digest(base)", "tree=digest(base), base_tree=digest(tree)", ""),
    "gate": (
        "gates/proposal.py",
        "standing.timing(self._collector, tree, base_tree,",
        "standing.timing(self._collector, base_tree, tree,",
        "",
    ),
    "instrument": ("judge/measure.py", "standing.timing(collector, tree, base, case)", "standing.timing(collector, base, tree, case)", ""),
    "cages": (
        "judge/crossover.py",
        "zip(ROLES, arrangement, strict=True)",
        'zip(("candidate", "base", "again"), arrangement, strict=True)',
        "",
    ),
}
HARMLESS = {"cages"}
"""Exchanged cages with their names exchanged too: the walk begins elsewhere, and nothing may go red."""


def sentinels(folder: Path, marks: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", marks, "tests/judge/test_labels.py"]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(folder)})


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in COPIED:
        source, target = ROOT / name, tmp_path / "copy" / name
        target.parent.mkdir(exist_ok=True)
        leave = shutil.ignore_patterns("__pycache__", "zoo", "blind")
        shutil.copytree(source, target, ignore=leave) if source.is_dir() else shutil.copy(source, target)
    return tmp_path / "copy"


def exchange(folder: Path, name: str) -> None:
    path, old, new, _ = SWAPS[name]
    file = folder / "infra_agent" / path
    text = file.read_text()
    assert text.count(old) == 1, f"{path}: the place to exchange was not found: {old}"
    file.write_text(text.replace(old, new))


def ends(name: str, copy: Path) -> None:
    exchange(copy, name)
    done = sentinels(copy, SWAPS[name][3])
    assert done.returncode == (0 if name in HARMLESS else 1), done.stdout[-2000:]


@pytest.mark.parametrize("name", [name for name, swap in SWAPS.items() if swap[3] == PURE])
def test_an_exchange_goes_red(name: str, copy: Path) -> None:
    ends(name, copy)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, swap in SWAPS.items() if swap[3] != PURE])
def test_an_exchange_on_the_way_to_the_cages_goes_red(name: str, copy: Path) -> None:
    ends(name, copy)


def test_the_sentinels_are_green_as_they_are(copy: Path) -> None:
    assert sentinels(copy, PURE).returncode == 0
