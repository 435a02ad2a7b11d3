"""The counter in a real cage, against counts worked out by hand."""

import io
import json
import tarfile
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from infra_agent.judge.counts import Left
from infra_agent.sandbox.cage import Cage

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n"


def left(cage: Cage, source: str, **inputs: np.ndarray) -> Left:
    """What the instrument leaves of ``work.run``, as the host reads it."""
    files = {"work.py": HEAD + source}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tree:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tree.addfile(entry, io.BytesIO(text.encode()))
    args = {"entry": {"module": "work", "callable": "run"}}
    result = cage.run("feedback.opcount", args, {"tree": packed.getvalue(), "inputs": save(inputs)})
    assert result.ok, result.text.decode()
    return Left.model_validate_json(result.report)


def figures(found: Left, source: str, mark: str) -> dict[str, Any]:
    """Counts of the line that holds ``mark``."""
    number = next(n for n, line in enumerate((HEAD + source).splitlines(), 1) if mark in line)
    (line,) = (line for line in found.lines if line.line == number)
    assert line.file == "work.py"
    return line.model_dump()


def at(found: Left, source: str, mark: str, *names: str) -> list[int]:
    """Some of them."""
    counted = figures(found, source, mark)
    return [counted[name] for name in names]


ELEMENTWISE = """
@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)  # loads
    b = a * 2.0 + 1.0  # two
    c = tl.exp(b) / a  # special
    d = tl.where(c > b, c, b).to(tl.float16).to(tl.float32)  # moves
    s = tl.sum(d, 0) + tl.max(d, 0)  # folds
    t = tl.cumsum(d, 0)  # scans
    tl.store(y + i, t + s, mask=i < n)  # stores


def run(x):
    y = torch.empty(x.shape[0], dtype=torch.float32)
    kernel[(2,)](x, y, x.shape[0], B=64)
    return {"y": y}
"""


def test_an_elementwise_kernel_is_counted_exactly(cage: Cage) -> None:
    found = left(cage, ELEMENTWISE, x=np.linspace(1, 2, 100, dtype=np.float32))
    assert at(found, ELEMENTWISE, "# loads", "times", "loaded", "fresh", "distinct", "stored", "flops") == [2, 400, 400, 400, 0, 0]
    assert at(found, ELEMENTWISE, "# two", "times", "flops", "special") == [2, 256, 0]
    assert at(found, ELEMENTWISE, "# special", "times", "flops", "special", "special_again") == [2, 0, 256, 0]
    assert not [line for line in found.lines if line.line == figures(found, ELEMENTWISE, "# special")["line"] + 1]  # a select, a cast
    assert at(found, ELEMENTWISE, "# folds", "flops") == [2 * (63 + 63 + 1)]
    assert at(found, ELEMENTWISE, "# scans", "flops") == [2 * 63]
    assert at(found, ELEMENTWISE, "# stores", "times", "loaded", "stored", "flops") == [2, 0, 400, 128]
    assert [kernel.model_dump() for kernel in found.kernels] == [{"name": "kernel", "launches": 1, "programs": 2, "touched": 800}]
    assert (found.not_covered, found.intact) == ((), True) and "work.py" in found.loaded


PRODUCT = """
@triton.jit
def kernel(x, y, K: tl.constexpr, B: tl.constexpr):
    i, j, k = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B), tl.arange(0, K)
    a = tl.load(x + i[:, None] * K + k[None, :])  # left
    b = tl.load(x + j[:, None] * K + k[None, :]).T  # right
    total = tl.zeros((B, B), tl.float32)
    for _ in range(3):
        total = tl.dot(a, b, total)  # dot
    tl.store(y + i[:, None] * 64 + j[None, :], total)


def run(x):
    y = torch.empty(64, 64)
    kernel[(2, 2)](x, y, K=16, B=32)
    return {"y": y}
"""


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dots_and_what_programs_share(cage: Cage, dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal((64, 16)).astype(dtype)
    found = left(cage, PRODUCT, x=x)
    assert at(found, PRODUCT, "# left", "loaded", "fresh", "distinct") == [2 * x.nbytes, 2 * x.nbytes, x.nbytes]
    each = 2 * 32 * 32 * 16
    assert at(found, PRODUCT, "# dot", "times", "flops", "dot_flops", "dot_again") == [12, 12 * each, 12 * each, 8 * each]
    assert found.kernels[0].touched == x.nbytes + 64 * 64 * 4


AGAIN = """
@triton.jit
def kernel(x, scratch, y, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    tl.store(scratch + i, total)
    for step in range(4):
        a = tl.load(x + i)  # again
        own = tl.load(scratch + i)  # renewed
        tl.store(scratch + i, own + a, mask=i < B // 2)
        one = tl.load(x + i * 0)  # one
        walk = tl.load(x + step * B // 4 + tl.arange(0, B // 4))  # walks
        e = tl.exp(a)  # same
        f = tl.exp(a + step)  # other
        total += e + f + own + one
    tl.store(y + i, total)


def run(x):
    y, scratch = torch.empty(64), torch.empty(64)
    kernel[(2,)](x, scratch, y, B=64)
    return {"y": y}
"""


def test_what_one_program_loads_and_computes_again(cage: Cage) -> None:
    found = left(cage, AGAIN, x=np.linspace(0, 1, 64, dtype=np.float32))
    names = ("times", "loaded", "fresh", "distinct")  # two programs that do the same: neither knows what the other had
    assert at(found, AGAIN, "# again", *names) == [8, 8 * 256, 2 * 256, 256]
    assert at(found, AGAIN, "# renewed", *names) == [8, 8 * 256, 2 * (4 * 128 + 128), 256]  # half was stored to in between
    assert at(found, AGAIN, "# one", *names) == [8, 8 * 4, 2 * 4, 4]
    assert at(found, AGAIN, "# walks", *names) == [8, 2 * 256, 2 * 256, 256]
    assert at(found, AGAIN, "# same", "special", "special_again") == [8 * 64, 6 * 64]
    assert at(found, AGAIN, "# other", "special", "special_again") == [8 * 64, 0]


OTHERS = """
@triton.jit
def helper(x, i):
    return tl.rsqrt(tl.load(x + i))  # helper


@triton.jit
def first(x, y, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(y + i % 2, helper(x, i), mask=i < 5)  # adds
    tl.atomic_cas(y + 8 + i, 0.0, 1.0)


@triton.jit
def second(x, y, B: tl.constexpr):
    d = tl.make_tensor_descriptor(x, [16, 16], [16, 1], [8, 8])
    tile = d.load([0, 8])  # descriptor
    tl.store(y + tl.arange(0, 8), tl.sum(helper(x, tl.arange(0, 8)) + tile, 1))


def run(x):
    y = torch.zeros(64) + 1.0
    x = x.clone()  # a descriptor needs an aligned base
    for kernel in (first, first, second):
        kernel[(2,)](x, y, B=16)
    return {"y": torch.cat([y, y]).view(2, 64)[0]}
"""


def test_helpers_atomics_descriptors_and_what_is_not_counted(cage: Cage) -> None:
    found = left(cage, OTHERS, x=np.linspace(1, 2, 256, dtype=np.float32).reshape(16, 16))
    number = next(n for n, line in enumerate((HEAD + OTHERS).splitlines(), 1) if "# helper" in line)
    by_kernel = {line.kernel: (line.times, line.special, line.loaded, line.distinct) for line in found.lines if line.line == number}
    assert by_kernel == {"first": (4, 64, 256, 128), "second": (2, 16, 64, 32)}
    assert at(found, OTHERS, "# adds", "loaded", "distinct", "stored", "flops") == [80, 80, 80, 20]
    assert at(found, OTHERS, "# descriptor", "loaded", "distinct") == [512, 256]
    assert {kernel.name: (kernel.launches, kernel.programs) for kernel in found.kernels} == {"first": (2, 4), "second": (1, 2)}
    assert [text.split(" on ")[0] for text in found.not_covered] == ["atomic_cas", "torch add", "torch cat", "torch clone", "torch zeros"]


FORGED = (
    ELEMENTWISE
    + """
    from triton.runtime.interpreter import InterpreterBuilder
    InterpreterBuilder.create_dot = lambda *_: None
    return {"y": y}
"""
)


def test_what_counts_must_not_be_replaced(cage: Cage) -> None:
    source = FORGED.replace('    return {"y": y}\n', "", 1)
    assert not left(cage, source, x=np.ones(100, np.float32)).intact


def test_an_entry_without_kernels_leaves_no_counts(cage: Cage) -> None:
    found = left(cage, 'def run(x):\n    return {"y": x * 2}\n', x=np.ones(4, np.float32))
    assert (found.lines, found.kernels) == ((), ())
    assert json.loads(found.model_dump_json())["not_covered"] == ["torch mul on the host"]
