"""What a watched call of interpreted kernels cannot hide: programs that meet in memory, work done outside of kernels, dots for show."""

import json

import numpy as np
import pytest
from safetensors.numpy import save

from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.mapping import GUARD
from infra_agent.task.tree import pack

CALLS, ACCURACY = "sandboxes.runtime.calls", "feedback.accuracy"
ENTRY = {"entry": {"module": "work", "callable": "run"}}
SIDE = 16
HEAD = """
import ctypes, numpy as np, torch, triton, triton.language as tl
SIDE = 16
"""
DOT = """
@triton.jit
def dot(x, y, out, SHOW: tl.constexpr):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    a, b = tl.load(x + at), tl.load(y + at)
    product = tl.dot(a, b, input_precision="ieee")
    if SHOW:
        product = tl.sum(a[:, :, None] * b[None, :, :], 1) + product * 1e-30
    tl.store(out + at, product)

def empty():
    return torch.empty(16, 16)
"""
PARTS = """
@triton.jit
def parts(x, out, MODE: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, 16)
    if MODE == "apart":
        tl.store(out + p * 16 + i, tl.load(x + p * 16 + i))
    elif MODE == "overheard":
        tl.store(out + i, tl.load(out + i) + tl.load(x + p * 16 + i))
    elif MODE == "overwritten":
        tl.store(out + i, tl.load(x + p * 16 + i))
    elif MODE == "same":
        tl.store(out + i, i * 1.0)
    elif MODE == "atomic":
        tl.atomic_add(out + i, tl.load(x + p * 16 + i))

def run(x, y):
    out = torch.zeros(16, 16)
    parts[(16,)](x, out, MODE=%r)
    return {"out": out}
"""
ENTRIES = {
    "kernel": "out = empty(); dot[(1,)](x, y, out, SHOW=False)",
    "library": "out = x @ y",
    "numpy": "out = torch.from_numpy(x.numpy() @ y.numpy())",
    "asarray": "out = torch.from_numpy(np.asarray(x) @ np.asarray(y))",
    "dlpack": "out = torch.from_numpy(np.from_dlpack(x) @ np.from_dlpack(y))",
    "storage": "out = torch.tensor(x.untyped_storage().tolist()[:0] or 0.0) + x",
    "address": "out = x + float((ctypes.c_float * 256).from_address(x.data_ptr())[0])",
    "aligned": "assert x.data_ptr() % 4 == 0; out = empty(); dot[(1,)](x, y, out, SHOW=False)",
}


def inputs() -> bytes:
    rng = np.random.default_rng(3)
    return save({name: rng.standard_normal((SIDE, SIDE), dtype=np.float32) for name in ("x", "y")})


def watched(cage: Cage, source: str) -> tuple[str, str]:
    """(status, what it printed) of a watched call."""
    sections = {"tree": pack({"work.py": (HEAD + source).encode()}), "inputs.0": inputs()}
    started = cage.start(CALLS, {**ENTRY, "watched": True, "own_work": True}, sections, {"0/out": ("F32", (SIDE, SIDE))})
    assert started.status == "ok"
    status = cage.call().status
    return status, cage.stop().text.decode()


@pytest.mark.parametrize("mode", ["apart", "same", "atomic"])
def test_programs_that_need_no_order_pass(cage: Cage, mode: str) -> None:
    status, text = watched(cage, PARTS % mode)
    assert status == "ok", text


@pytest.mark.parametrize(("mode", "said"), [("overheard", "loads what program"), ("overwritten", "store different values at one address")])
def test_programs_that_meet_in_memory_are_named_with_their_line(cage: Cage, mode: str, said: str) -> None:
    status, text = watched(cage, PARTS % mode)
    source = HEAD + PARTS % mode
    line = next(n for n, row in enumerate(source.splitlines(), 1) if f'"{mode}"' in row) + 1
    assert status == "error"
    assert "RaceError: parts: " in text
    assert f"work.py:{line}: " in text
    assert said in text


@pytest.mark.parametrize("name", ["kernel", "aligned"])
def test_an_entry_that_computes_in_kernels_passes(cage: Cage, name: str) -> None:
    status, text = watched(cage, f"{DOT}\ndef run(x, y):\n    {ENTRIES[name]}\n    return {{'out': out}}\n")
    assert status == "ok", text


@pytest.mark.parametrize("name", ["library", "numpy", "asarray", "dlpack", "storage"])
def test_work_outside_of_kernels_is_an_error(cage: Cage, name: str) -> None:
    status, text = watched(cage, f"{DOT}\ndef run(x, y):\n    {ENTRIES[name]}\n    return {{'out': out}}\n")
    assert status == "error"
    assert "HostWorkError" in text


def test_an_address_cannot_be_read(cage: Cage) -> None:
    status, _ = watched(cage, f"{DOT}\ndef run(x, y):\n    {ENTRIES['address']}\n    return {{'out': out}}\n")
    assert status == "ended"


@pytest.mark.parametrize(("what", "show", "right"), [("products", False, False), ("products", True, True), ("kernels", True, False)])
def test_what_is_put_off_tells_a_dot_that_counts_from_one_for_show(cage: Cage, what: str, show: bool, right: bool) -> None:
    source = f"{HEAD}{DOT}\ndef run(x, y):\n    out = empty(); dot[(1,)](x, y, out, SHOW={show})\n    return {{'out': out}}\n"
    args = {**ENTRY, "perturbed": {"what": what, "share": 1e-3}}
    result = cage.run(ACCURACY, args, {"tree": pack({"work.py": source.encode()}), "inputs": inputs()}, {"out": ("F32", (SIDE, SIDE))})
    assert result.ok, result.text
    x, y = np.random.default_rng(3).standard_normal((2, SIDE, SIDE), dtype=np.float32).astype(np.float64)
    made = np.frombuffer(result.output, np.float32, SIDE * SIDE, GUARD).reshape(SIDE, SIDE)
    error = float(np.linalg.norm(made - x @ y) / np.linalg.norm(x @ y))
    assert (error < 1e-6) is right
    assert right or 2e-4 < error < 5e-3


WHOLE = """
@triton.jit
def codes(x, out, sums):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    value = (tl.load(x + at) * 40).to(tl.int8)
    tl.store(out + at, value)
    tl.store(sums + at, tl.dot(value, tl.trans(value), out_dtype=tl.int32))

def run(x, y):
    out, sums = torch.zeros(16, 16, dtype=torch.int8), torch.zeros(16, 16, dtype=torch.int32)
    codes[(1,)](x, out, sums)
    return {"out": out, "sums": sums}
"""


@pytest.mark.parametrize(
    ("what", "codes_right", "sums_right"), [("kernels", True, True), ("integers", False, False), ("products", True, False)]
)
def test_whole_numbers_are_put_off_by_changing_places(cage: Cage, what: str, codes_right: bool, sums_right: bool) -> None:
    args = {**ENTRY, "perturbed": {"what": what, "share": 1e-3}}
    shapes = {"out": ("I8", (SIDE, SIDE)), "sums": ("I32", (SIDE, SIDE))}
    result = cage.run(ACCURACY, args, {"tree": pack({"work.py": (HEAD + WHOLE).encode()}), "inputs": inputs()}, shapes)
    assert result.ok, result.text
    x = np.random.default_rng(3).standard_normal((SIDE, SIDE), dtype=np.float32)
    codes = (x * np.float32(40)).astype(np.int8)
    sums = codes.astype(np.int32) @ codes.astype(np.int32).T
    made, total = (
        np.frombuffer(result.output, kind, SIDE * SIDE, result.layout.slots[name].offset).reshape(SIDE, SIDE)
        for name, kind in (("out", np.int8), ("sums", np.int32))
    )
    assert ((made == codes).all(), (total == sums).all()) == (codes_right, sums_right)
    assert sorted(made.flat) == sorted(codes.flat)


def test_an_emulator_that_is_changed_and_put_back_is_not_intact(cage: Cage) -> None:
    swap = (
        "from sandboxes.runtime import interpreter; stock = interpreter.multiply; interpreter.multiply = lambda a, b, p: a @ b; "
        "out = empty(); dot[(1,)](x, y, out, SHOW=False); interpreter.multiply = stock"
    )
    for body, intact in ((swap, False), (ENTRIES["kernel"], True)):
        source = f"{HEAD}{DOT}\ndef run(x, y):\n    {body}\n    return {{'out': out}}\n"
        sections = {"tree": pack({"work.py": source.encode()}), "inputs": inputs()}
        result = cage.run(ACCURACY, ENTRY, sections, {"out": ("F32", (SIDE, SIDE))})
        assert result.ok, result.text
        assert json.loads(result.report)["intact"] is intact
