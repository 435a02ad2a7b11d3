"""A task whose code is C: its own build step, in real cages with a real compiler."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra_agent.errors import UsageError
from infra_agent.gates.proposal import ProposalGate, expected_checks
from infra_agent.gates.recompute import again
from infra_agent.judge import builds, seeds
from infra_agent.judge.collector import Collector
from infra_agent.judge.measure import Context, measure, observe
from infra_agent.session.log import Blobs
from infra_agent.session.verdict import Verdict
from infra_agent.task.load import Task, load
from infra_agent.task.repository import for_task
from infra_agent.task.tree import read_folder
from tests.support import patch_of

TASK = """
id = "doubler"
title = "Double in C"
goal = "Double, do not triple."
platform = "cpu"

[entry]
module = "doubler.entry"
callable = "run"
stages = ["doubled"]

[edit]
allow = ["doubler/**", "src/**"]
protected = ["build.py"]

[metric]
stage = "doubled"
case = "some"

[commands]
build = ["python", "build.py"]
built = ["doubler/_c.so"]

[platforms.cpu.may_not_run]
timing = "not what this is about"
"""
C = """#include <Python.h>

static PyObject *twice(PyObject *self, PyObject *number) {
    return PyLong_FromLong(3 * PyLong_AsLong(number));
}

static PyMethodDef methods[] = {{"twice", twice, METH_O, "Twice a number."}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_c", NULL, -1, methods};

PyMODINIT_FUNC PyInit__c(void) { return PyModule_Create(&module); }
"""
RIGHT = C.replace("3 *", "2 *")
BUILD = """import subprocess
import sysconfig

include = sysconfig.get_paths()["include"]
subprocess.run(["gcc", "-shared", "-fPIC", "-O1", f"-I{include}", "src/c.c", "-o", "doubler/_c.so"], check=True)
"""
ENTRY = '''"""Doubling, in C."""

import torch

from doubler import _c


def run(numbers: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"doubled": torch.tensor([_c.twice(int(n)) for n in numbers])}
'''
JUDGE = """import numpy as np


def cases(split):
    return [{"name": "some" if split == "public" else "others", "size": 9, "when": "always"}]


def inputs(case, seed):
    return {"numbers": np.random.default_rng(seed).integers(1, 1000, 9)}


def truth(inputs):
    return {"doubled": 2.0 * inputs["numbers"]}


def reference(inputs):
    return {"doubled": 2 * inputs["numbers"]}


def bounds(case):
    return {"doubled": {"error": 1e-9, "ratio": 10.0}}
"""


def make(folder: Path, text: str = TASK) -> Task:
    files = {
        "task.toml": text, "judge/task.py": JUDGE, "workspace/build.py": BUILD, "workspace/src/c.c": C,
        "workspace/doubler/__init__.py": "", "workspace/doubler/entry.py": ENTRY,
    }  # fmt: skip
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    return load(str(folder))


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return make(tmp_path / "doubler")


@pytest.fixture
def collector(task: Task) -> Iterator[Collector]:
    with Collector(task, seeds.new_secret()) as made:
        yield made


def judged(collector: Collector, home: Path, blobs: Blobs, **files: str) -> Verdict:
    repository, base = for_task(collector.task, home)
    patch = patch_of(collector.task, home, **files)
    return ProposalGate(collector, repository, base, blobs.put).judge(patch).verdict


def of_c(collector: Collector, text: str) -> dict[str, bytes]:
    return {**read_folder(collector.task.workspace), "src/c.c": text.encode()}


def test_what_is_judged_is_built_of_the_patch_and_follows_from_the_records(collector: Collector, home: Path, tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    repository, base = for_task(collector.task, home)
    patch = repository.diff(base, repository.write_tree({**repository.read_tree(base), "src/c.c": RIGHT.encode()}))
    verdict = ProposalGate(collector, repository, base, blobs.put).judge(patch).verdict
    found = {check.name: check for check in verdict.checks}
    assert verdict.decision == "pass" and (found["builds"].status, found["builds"].trust) == ("pass", "in-process")
    assert found["ran"].figure == "3 files imported", "the extension is one of them"
    for name in ("builds", "ran"):
        assert again(found[name], blobs, collector.task.spec) == found[name].model_copy(update={"records": {}})


def test_a_base_that_triples_builds_and_is_wrong(collector: Collector, home: Path, tmp_path: Path) -> None:
    verdict = judged(collector, home, Blobs(tmp_path / "blobs"), doubler__entry_py=ENTRY + "\n")
    failed = {check.name: check.kind for check in verdict.checks if check.status == "fail"}
    assert failed["accuracy"] == "incorrect" and "builds" not in failed


def test_what_does_not_compile_is_told_by_the_compilers_words_and_not_run(collector: Collector, home: Path, tmp_path: Path) -> None:
    repository, base = for_task(collector.task, home)
    broken = RIGHT.replace("PyLong_AsLong(number));", "PyLong_AsLong(number))")
    patch = repository.diff(base, repository.write_tree({**repository.read_tree(base), "src/c.c": broken.encode()}))
    blobs = Blobs(tmp_path / "blobs")
    found = {c.name: c for c in ProposalGate(collector, repository, base, blobs.put).judge(patch).verdict.checks}
    assert (found["builds"].status, found["builds"].kind) == ("fail", "build_failed") and "src/c.c:4" in found["builds"].message
    assert found["accuracy"].status == "not_run" and again(found["builds"], blobs, collector.task.spec) is not None
    seen, records = measure(collector, "accuracy", of_c(collector, broken), of_c(collector, C), {"cases": "", "shrink": False}, ())
    assert (seen.status, seen.kind) == ("fail", "build_failed") and "src/c.c:4" in seen.for_model()
    about = Context(seen.instrument, "tensors", seen.trust, seen.platform, seen.isolation, seen.reproduce, seen.cost_s, seen.evidence)
    assert observe(records, collector.task.spec, about) == seen


def test_a_file_that_lies_there_is_not_one_that_was_built(collector: Collector) -> None:
    tree = of_c(collector, RIGHT)
    left = collector.builds.record(tree).files["doubler/_c.so"]
    planted = {**tree, "doubler/_c.so": b"\x7fELF planted"}
    assert collector.builds.record(planted).files["doubler/_c.so"] == left
    nothing = {**planted, "build.py": b"pass\n"}
    assert collector.builds.record(nothing).ended == "missing"


def test_a_build_that_never_ends_is_late(tmp_path: Path) -> None:
    task = make(tmp_path / "slow", TASK.replace('built = ["doubler', 'build_s = 2.0\nbuilt = ["doubler'))
    with Collector(task, seeds.new_secret()) as collector:
        record = collector.builds.record({**of_c(collector, C), "build.py": b"import time\ntime.sleep(60)\n"})
    assert builds.assess(record, "build.py")[:2] == ("fail", "timeout")


def test_a_task_is_asked_for_its_build_and_says_what_it_leaves(task: Task, tmp_path: Path) -> None:
    assert "builds" in expected_checks(task.spec, [])
    with pytest.raises(UsageError, match="build and built go together"):
        make(tmp_path / "half", TASK.replace('built = ["doubler/_c.so"]', ""))
