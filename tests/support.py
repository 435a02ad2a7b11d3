"""A small task that needs no kernel: out = a @ b, and a running sum of its rows. Seconds, not minutes."""

import json
from pathlib import Path

from infra_agent.judge.audit_record import AuditRecord, Trial, save
from infra_agent.task.load import Task, load
from infra_agent.task.repository import for_task

TASK = """
id = "rows"
title = "Product and running sum"
goal = "Make both stages right."
instruments = ["accuracy"]
max_steps = 20

[entry]
module = "rows.entry"
callable = "run"
stages = ["product", "running"]

[edit]
allow = ["rows/**", "tests/**"]
protected = ["tests/**"]

[metric]
stage = "running"
case = "small"

[platforms.cpu-emulated.may_not_run]
timing = "no time is judged here"
"""
ENTRY = '''"""Product and running sum of rows."""

import torch


def run(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    product = a @ b
    return {"product": product, "running": torch.cumsum(product, 1)}
'''
SUITE = """
[commands]
test = ["env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
wall_s = 60.0
"""
SUITE_TEST = """import torch

from rows import entry


def test_an_empty_product_is_empty() -> None:
    assert entry.run(torch.zeros(0, 0), torch.zeros(0, 0))["product"].shape == (0, 0)
"""
RIGHT = ENTRY.replace("torch.cumsum(product, 1)", "torch.cumsum(product, 0)")
JUDGE = '''"""Truth of the rows task."""

import numpy as np

CASES = {
    "public": [{"name": "small", "n": 8, "size": 64, "when": "always"}, {"name": "large", "n": 24, "size": 576, "when": "gate"}],
    "held_out": [{"name": "hidden", "n": 13, "size": 169, "when": "gate"}],
}


def cases(split):
    return CASES[split]


def bounds(case):
    return {stage: {"error": 1e-5, "ratio": 1000.0} for stage in ("product", "running")}


def inputs(case, seed):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((case["n"], case["n"])).astype(np.float32) for name in ("a", "b")}


def _compute(x):
    product = x["a"] @ x["b"]
    return {"product": product, "running": np.cumsum(product, 0)}


def truth(x):
    return _compute({name: value.astype(np.float64) for name, value in x.items()})


def reference(x):
    return _compute(x)
'''


def rows_task(folder: Path, entry: str = ENTRY) -> Task:
    """Write the task; its base sums along the wrong axis."""
    root = folder / "rows"
    for path, text in {
        "task.toml": TASK,
        "judge/task.py": JUDGE,
        "workspace/rows/__init__.py": "",
        "workspace/rows/entry.py": entry,
        "workspace/tests/test_rows.py": "def test_nothing() -> None:\n    assert 1 + 1 == 2\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return load(str(root))


def suite_task(folder: Path) -> Task:
    """The same with a test suite that a gate asks: the product is held by it."""
    task = rows_task(folder)
    with open(task.folder / "task.toml", "a") as spec:
        spec.write(SUITE)
    (task.workspace / "tests" / "test_rows.py").write_text(SUITE_TEST)
    return load(str(task.folder))


def mark_audited(task: Task, home: Path) -> None:
    """Give the task a green record, as an audit that this test does not run would have."""
    trial = Trial(name="assumed by this test", expected="pass", found="pass", ok=True, seconds=0.0)
    record = AuditRecord(task=task.spec.id, digest=task.digest, platform="cpu-emulated", isolation="full", trials=(trial,), problems=())
    save(record, home / "audit" / f"{task.digest}.json")


def patch_of(task: Task, home: Path, **files: str) -> bytes:
    """The patch that gives files of the workspace other text; ``__`` in a name is a slash, ``_py`` its ending."""
    repository, base = for_task(task, home)
    changed = {name.replace("__", "/").replace("_py", ".py"): text.encode() for name, text in files.items()}
    return repository.diff(base, repository.write_tree({**repository.read_tree(base), **changed}))


def call(name: str, **arguments: object) -> tuple[str, str]:
    """A tool call as (name, JSON)."""
    return name, json.dumps(arguments)
