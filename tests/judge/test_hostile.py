"""Candidates that attack the judge's own reading: each is a failure with a kind, never a crash and never a pass."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra_agent.gates.proposal import ProposalGate
from infra_agent.judge import seeds, tensors
from infra_agent.judge.collector import Collector
from infra_agent.sandbox.profile import load
from infra_agent.session.observation import TensorWhere
from infra_agent.session.verdict import Check
from infra_agent.task.load import Task
from infra_agent.task.repository import for_task
from infra_agent.task.tree import read_folder
from tests.support import RIGHT, patch_of, rows_task

FORGE = """
from sandboxes.runtime import request as _request
_write = _request.Request.write_report
def _forged(self, data):
    _write(self, {report})
_request.Request.write_report = _forged
"""
REPORTS = {
    "nan": b'{"entry_s": NaN}',
    "list": b"[]",
    "deep": b"[" * 200_000,
    "dots-number": b'{"dots": 5}',
    "dots-types": b'{"dots": [{"file": [], "line": "q", "precision": 3, "operand": null, "count": -1}]}',
    "huge-line": b'{"dots": [{"file": "a", "line": 1' + b"0" * 400 + b', "precision": "tf32", "operand": "fp32", "count": 1}]}',
    "loaded": b'{"loaded": {"rows/entry.py": "not a digest"}}',
    "bytes": bytes(range(256)),
    "extra": b'{"verdict": "pass"}',
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Task, Collector]]:
    task = rows_task(tmp_path_factory.mktemp("hostile"))
    with Collector(task, seeds.new_secret()) as collector:
        yield task, collector


def assessed(bench: tuple[Task, Collector], entry: str) -> tuple[str, str | None, str]:
    task, collector = bench
    tree = {**read_folder(task.workspace), "rows/entry.py": entry.encode()}
    record = collector.accuracy(tree, collector.public_case("small"))
    status, kind, findings = tensors.assess(record)
    return status, kind, findings[0].message if findings else ""


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
def test_a_forged_report_is_tampering(bench: tuple[Task, Collector], report: bytes) -> None:
    assert assessed(bench, RIGHT + FORGE.format(report=repr(report)))[:2] == ("fail", "tampered")


def test_an_impossible_report_length_is_tampering(bench: tuple[Task, Collector]) -> None:
    forge = """
from sandboxes.runtime import request as _request
def _forged(self, data):
    self.sink[self.report_at[0]:self.report_at[0] + 8] = (1 << 60).to_bytes(8, "little")
_request.Request.write_report = _forged
"""
    assert assessed(bench, RIGHT + forge)[:2] == ("fail", "tampered")


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("raise RuntimeError('broken')", "crashed", "broken"),
        ("import os; os._exit(0)", "tampered", "bad_report"),
        ("import os; os.kill(os.getpid(), 9)", "crashed", ""),
        ("return {'product': a @ b}", "incorrect", "not returned"),
        ("return {'product': (a @ b).double(), 'running': a}", "incorrect", "dtype"),
        ("return {'product': (a @ b)[:1], 'running': a}", "incorrect", "shape"),
        ("return [a, b]", "crashed", "a dict of tensors is expected"),
        ("return {'product': a.numpy(), 'running': a}", "crashed", "plain torch.Tensor"),
        ("import sys; sys.exit(0)", "tampered", "bad_report"),
    ],
)
def test_what_is_not_an_answer_is_a_failure(bench: tuple[Task, Collector], body: str, kind: str, said: str) -> None:
    status, found, message = assessed(bench, f"def run(a, b):\n    {body}\n")
    assert (status, found) == ("fail", kind) and said in message


def test_an_empty_report_is_tampering(bench: tuple[Task, Collector]) -> None:
    """Exiting early with the right bytes in place still says nothing of what ran."""
    forge = """
from sandboxes.runtime import request as _request
import os
_request.Request.write_report = lambda self, data: os._exit(0)
"""
    assert assessed(bench, RIGHT + forge)[:2] == ("fail", "tampered")


def gate(bench: tuple[Task, Collector], home: Path, entry: str) -> dict[str, Check]:
    task, collector = bench
    repository, base = for_task(task, home)
    judged = ProposalGate(collector, repository, base, lambda data: "0" * 64).judge(patch_of(task, home, rows__entry_py=entry))
    return {check.name: check for check in judged.verdict.checks}


def test_one_late_case_is_not_waited_for_again(bench: tuple[Task, Collector], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other case, and every other check, would be as late: they say so at once."""
    profile = load("triton-interpret")
    hasty = profile.model_copy(update={"limits": profile.limits.model_copy(update={"wall_s": 3.0})})
    task, _ = bench
    repository, base = for_task(task, home)
    with Collector(task, seeds.new_secret()) as collector:
        monkeypatch.setattr(collector.pool("triton-interpret"), "_profile", hasty)
        began = time.monotonic()
        endless = "def run(a, b):\n    while True:\n        pass\n"
        judged = ProposalGate(collector, repository, base, lambda data: "0" * 64).judge(patch_of(task, home, rows__entry_py=endless))
    found = {check.name: check for check in judged.verdict.checks}
    assert (found["accuracy"].kind, found["held_out"].kind, found["determinism"].status) == ("timeout", "timeout", "not_run")
    assert judged.verdict.decision == "fail" and time.monotonic() - began < 60


def test_nothing_of_a_held_out_call_reaches_a_later_one(bench: tuple[Task, Collector], home: Path) -> None:
    """A candidate hides what it saw wherever it can write, and looks for it in its next call."""
    hide = """
import glob, gc, mmap, os
def run(a, b):
    import torch
    maps = [o for o in gc.get_objects() if isinstance(o, mmap.mmap)]
    for m in maps:
        if len(m) < 1 << 20:
            continue  # its own inputs, a private copy: spoiling them would spoil the result
        try:
            if m[len(m) - 4096:len(m) - 4088] == b"held-out":
                raise RuntimeError("remembered")
            m[len(m) - 4096:len(m) - 4088] = b"held-out"
        except (TypeError, ValueError):
            continue
    for place in ("/tmp", "/ws", "/dev/shm"):
        if os.path.exists(place + "/mark"):
            raise RuntimeError("remembered")
        open(place + "/mark", "w").close()
    product = a @ b
    return {"product": product, "running": torch.cumsum(product, 0)}
"""
    found = gate(bench, home, hide)
    assert {name: found[name].status for name in ("accuracy", "held_out", "determinism")} == dict.fromkeys(
        ("accuracy", "held_out", "determinism"), "pass"
    )


def test_a_nondeterministic_candidate_is_refused(bench: tuple[Task, Collector], home: Path) -> None:
    shaky = RIGHT.replace("product = a @ b", "import os\n    product = a @ b * (1 + 1e-7 * os.urandom(1)[0])")
    assert gate(bench, home, shaky)["determinism"].kind == "nondeterministic"


def test_a_nondeterministic_place_is_named(bench: tuple[Task, Collector], home: Path) -> None:
    """A few elements that are never twice the same, all within their limit."""
    drawn = "product[1, 2:6] *= 1 + 1e-5 * torch.from_numpy(np.random.default_rng().random(4, np.float32))"
    shaky = RIGHT.replace("    return", f"    {drawn}\n    return").replace("import torch", "import numpy as np\nimport torch")
    check = gate(bench, home, shaky)["determinism"]
    assert (check.kind, check.status) == ("nondeterministic", "fail")
    (found,) = [finding for finding in check.findings if isinstance(finding.where, TensorWhere) and finding.where.stage == "product"]
    assert isinstance(found.where, TensorWhere) and found.where.index[0] == 1 and 2 <= found.where.index[1] < 6
    assert "of 64 elements of stage product differ" in check.message and int(found.message.split()[0]) <= 4


def test_a_module_from_elsewhere_is_not_what_was_changed(bench: tuple[Task, Collector], home: Path) -> None:
    swap = RIGHT + "\nopen('/ws/rows/entry.py', 'a').write('# other')\n"
    assert gate(bench, home, swap)["ran"].kind == "tampered"
