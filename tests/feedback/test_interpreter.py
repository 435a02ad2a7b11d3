"""The repaired Triton interpreter in a real cage: bf16 and fp16 against torch, dot precisions against their definition.

Each entry returns what a kernel made and what torch made of the same values; both leave the cage as raw bytes.
"""

import io
import json
import tarfile
from collections.abc import Mapping

import numpy as np
import pytest
from safetensors.numpy import save

from infra_agent.sandbox.cage import Cage, Result

Array = np.ndarray
N = 64

WORK = """
import torch
import triton
import triton.language as tl


@triton.jit
def apply_kernel(x_ptr, y_ptr, o_ptr, N: tl.constexpr, OP: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x_ptr + i), tl.load(y_ptr + i)
    if OP == "add":
        r = a + b
    elif OP == "subtract":
        r = a - b
    elif OP == "multiply":
        r = a * b
    elif OP == "divide":
        r = a / b
    elif OP == "negate":
        r = -a
    elif OP == "scale":
        r = a * 0.1
    elif OP == "abs":
        r = tl.abs(a)
    elif OP == "maximum":
        r = tl.maximum(a, b)
    elif OP == "clamp":
        r = tl.clamp(a, b * 0 - 1, b * 0 + 1)
    elif OP == "fma":
        r = tl.fma(a, b, a)
    elif OP == "greater":
        r = (a > b).to(tl.float32)
    elif OP == "where":
        r = tl.where(a > b, a, b)
    elif OP == "sort":
        r = tl.sort(a)
    elif OP == "max":
        r = tl.max(a, 0) + a * 0
    elif OP == "argmax":
        r = tl.argmax(a, 0) + i
    elif OP == "sum":
        r = tl.sum(a, 0) + a * 0
    elif OP == "cumsum":
        r = tl.cumsum(a, 0)
    tl.store(o_ptr + i, r)


TORCH = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a.float() / b.float(),
    "negate": lambda a, b: -a,
    "scale": lambda a, b: a * torch.tensor(0.1).to(a.dtype),
    "abs": lambda a, b: a.abs(),
    "maximum": torch.maximum,
    "clamp": lambda a, b: a.clamp(-1, 1),
    "fma": lambda a, b: (a.double() * b.double() + a.double()).to(a.dtype),
    "greater": lambda a, b: a > b,
    "where": lambda a, b: torch.where(a > b, a, b),
    "sort": lambda a, b: a.sort()[0],
    "max": lambda a, b: a.max().expand(a.shape),
    "argmax": lambda a, b: a.argmax() + torch.arange(a.numel()),
    "sum": lambda a, b: a.sum().expand(a.shape),
    "cumsum": lambda a, b: a.cumsum(0),
}
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "fp64": torch.float64, "int32": torch.int32}


def arithmetic(x, y, op, dtype):
    x, y = x.to(TYPES[dtype]), y.to(TYPES[dtype])
    o = torch.empty(x.shape)
    apply_kernel[(1,)](x, y, o, N=x.numel(), OP=op)
    return {"kernel": o, "torch": TORCH[op](x, y).float()}


@triton.jit
def cast_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i).to(o_ptr.dtype.element_ty))


def cast(bits, source, target):
    x = bits.view(torch.float32).to(TYPES[source])
    o = torch.empty(x.shape, dtype=TYPES[target])
    cast_kernel[(x.numel() // 1024,)](x, o, N=1024)
    return {"kernel": o.float(), "torch": x.to(TYPES[target]).float()}


@triton.jit
def dot_kernel(a_ptr, b_ptr, o_ptr, N: tl.constexpr, PRECISION: tl.constexpr):
    r = tl.arange(0, N)
    tile = r[:, None] * N + r[None, :]
    a, b = tl.load(a_ptr + tile), tl.load(b_ptr + tile)
    tl.store(o_ptr + tile, tl.dot(a, b, input_precision=PRECISION))


def dot(a, b, dtype, precision):
    a, b = a.to(TYPES[dtype]), b.to(TYPES[dtype])
    o = torch.empty(a.shape)
    dot_kernel[(1,)](a, b, o, N=a.shape[0], PRECISION=precision)
    return {"kernel": o, "torch": a.float() @ b.float(), "rounded": (a @ b).float()}


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, o_ptr, T, D: tl.constexpr, B: tl.constexpr):
    r, d = tl.arange(0, B), tl.arange(0, D)
    q = tl.load(q_ptr + (tl.program_id(0) * B + r)[:, None] * D + d[None, :])
    top = tl.full((B,), float("-inf"), tl.float32)
    total = tl.zeros((B,), tl.float32)
    acc = tl.zeros((B, D), tl.float32)
    for start in range(0, T, B):
        k = tl.load(k_ptr + (start + r)[:, None] * D + d[None, :])
        v = tl.load(v_ptr + (start + r)[:, None] * D + d[None, :])
        x = tl.dot(q, k.T) * 0.125
        higher = tl.maximum(top, tl.max(x, 1))  # TOP
        p = tl.exp(x - higher[:, None])
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v)  # VALUES
        top = higher
    tl.store(o_ptr + (tl.program_id(0) * B + r)[:, None] * D + d[None, :], acc / total[:, None])


def attention(q, k, v, dtype):
    q, k, v = (t.to(TYPES[dtype]) for t in (q, k, v))
    o = torch.empty(q.shape)
    attention_kernel[(q.shape[0] // 32,)](q, k, v, o, k.shape[0], D=q.shape[1], B=32)
    wide = torch.softmax(q.double() @ k.double().T * 0.125, -1) @ v.double()
    return {"kernel": o, "torch": (torch.softmax(q @ k.T * 0.125, -1) @ v).float(), "truth": wide.float()}
"""


def send(cage: Cage, call: str, inputs: dict[str, Array], shapes: Mapping[str, tuple[int, ...]], program: str = "accuracy") -> Result:
    """Run ``lambda **inputs: <call>`` of the module above; every output is float32."""
    source = f"{WORK}\n\ndef entry({', '.join(inputs)}):\n    return {call}\n".encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("work.py")
        member.size = len(source)
        archive.addfile(member, io.BytesIO(source))
    request = {"entry": {"module": "work", "callable": "entry"}}
    sections = {"tree": buffer.getvalue(), "inputs": save(inputs)}
    result = cage.run(f"feedback.{program}", request, sections, {name: ("F32", shape) for name, shape in shapes.items()})
    assert result.ok, result.text.decode()
    assert not json.loads(result.report).get("problems")
    return result


def outputs(result: Result) -> dict[str, Array]:
    slots = result.layout.slots
    return {n: np.frombuffer(result.output, np.float32, s.nbytes // 4, s.offset).reshape(s.shape) for n, s in slots.items()}


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


OPERATIONS = (
    "add", "subtract", "multiply", "divide", "negate", "scale", "abs", "maximum", "clamp", "fma", "greater", "where", "sort",
    "max", "argmax",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("op", OPERATIONS)
def test_sixteen_bit_operations_are_torchs(cage: Cage, op: str, dtype: str) -> None:
    inputs = {"x": normal(1, N), "y": normal(2, N)}
    got = outputs(send(cage, f"arithmetic(x, y, {op!r}, {dtype!r})", inputs, {"kernel": (N,), "torch": (N,)}))
    assert np.unique(got["torch"]).size > 1 or op == "max"
    np.testing.assert_array_equal(got["kernel"], got["torch"])


@pytest.mark.parametrize(("dtype", "unit"), [("bf16", 2.0**-8), ("fp16", 2.0**-11)])
@pytest.mark.parametrize("op", ["sum", "cumsum"])
def test_sixteen_bit_sums_are_torchs_to_the_last_places(cage: Cage, op: str, dtype: str, unit: float) -> None:
    """torch sums in float32, numpy's fp16 sum rounds in between: positive terms keep the difference to a few roundings."""
    inputs = {"x": np.abs(normal(3, N)), "y": normal(4, N)}
    got = outputs(send(cage, f"arithmetic(x, y, {op!r}, {dtype!r})", inputs, {"kernel": (N,), "torch": (N,)}))
    np.testing.assert_allclose(got["kernel"], got["torch"], rtol=4 * unit)


def every_kind_of_float() -> Array:
    """19 x 1024 bit patterns: every sign and exponent, with mantissas at and around the ties of bf16, and random ones."""
    head = np.arange(1 << 9, dtype=np.uint32) << np.uint32(23)
    near = [(high << 16) + low for high in (0x00, 0x01, 0x7E, 0x7F) for low in (0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    tails = np.array([*near, 0x400000, 0x000100], dtype=np.uint32)
    others = np.random.default_rng(5).integers(0, 1 << 23, (head.size, 12), dtype=np.uint32)
    return np.concatenate([(head[:, None] | tails).ravel(), (head[:, None] | others).ravel()])


@pytest.mark.parametrize(
    ("source", "target"),
    [("fp32", "bf16"), ("fp64", "bf16"), ("fp16", "bf16"), ("bf16", "fp32"), ("bf16", "fp64"), ("bf16", "fp16"), ("fp32", "fp16")],
)
def test_casts_are_torchs_for_every_kind_of_float(cage: Cage, source: str, target: str) -> None:
    bits = every_kind_of_float()
    shapes = {"kernel": bits.shape, "torch": bits.shape}
    got = outputs(send(cage, f"cast(bits, {source!r}, {target!r})", {"bits": bits.view(np.int32)}, shapes))
    assert 0 < np.isnan(got["torch"]).sum() < bits.size // 50
    np.testing.assert_array_equal(got["kernel"], got["torch"])


@pytest.mark.parametrize(("source", "target"), [("int32", "bf16"), ("bf16", "int32")])
def test_casts_between_bf16_and_integers_are_torchs(cage: Cage, source: str, target: str) -> None:
    values = np.random.default_rng(6).integers(-(1 << 20), 1 << 20, 1024).astype(np.float32)
    shapes = {"kernel": values.shape, "torch": values.shape}
    got = outputs(send(cage, f"cast(x, {source!r}, {target!r})", {"x": values}, shapes))
    np.testing.assert_array_equal(got["kernel"], got["torch"])


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_sixteen_bit_dots_multiply_values(cage: Cage, dtype: str) -> None:
    shapes = dict.fromkeys(("kernel", "torch", "rounded"), (N, N))
    got = outputs(send(cage, f"dot(a, b, {dtype!r}, 'tf32')", {"a": normal(7, N, N), "b": normal(8, N, N)}, shapes))
    np.testing.assert_allclose(got["kernel"], got["torch"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got["kernel"], got["rounded"], rtol=2.0**-8, atol=1e-5)


@pytest.mark.parametrize(
    ("precision", "low", "high"),
    [("ieee", 1e-8, 3e-7), ("tf32", 4e-4, 8e-4), ("tf32x3", 1e-8, 1e-6), ("bf16x3", 1e-6, 2e-5), ("bf16x6", 1e-8, 1e-6)],
)
def test_a_float32_dot_errs_as_its_precision_says(cage: Cage, precision: str, low: float, high: float) -> None:
    a, b = normal(9, N, N), normal(10, N, N)
    result = send(cage, f"dot(a, b, 'fp32', {precision!r})", {"a": a, "b": b}, dict.fromkeys(("kernel", "torch", "rounded"), (N, N)))
    truth = a.astype(np.float64) @ b.astype(np.float64)
    error = np.linalg.norm(outputs(result)["kernel"] - truth) / np.linalg.norm(truth)
    assert low < error < high
    (dot,) = json.loads(result.report)["dots"]
    assert (dot["file"], dot["precision"], dot["operand"], dot["count"]) == ("work.py", precision, "fp32", 1)


def test_a_plain_tf32_dot_drops_thirteen_bits(cage: Cage) -> None:
    a = np.full((N, N), 1 + 2.0**-11, np.float32)
    shapes = dict.fromkeys(("kernel", "torch", "rounded"), (N, N))
    got = outputs(send(cage, "dot(a, b, 'fp32', 'tf32')", {"a": a, "b": np.eye(N, dtype=np.float32)}, shapes))
    np.testing.assert_array_equal(got["kernel"], np.ones((N, N)))


@pytest.mark.parametrize("precision", ["tf32", "tf32x3", "bf16x3", "bf16x6", "ieee"])
def test_an_infinite_operand_stays_infinite(cage: Cage, precision: str) -> None:
    a, b = np.ones((N, N), np.float32), np.ones((N, N), np.float32)
    a[3, 5] = np.inf
    shapes = dict.fromkeys(("kernel", "torch", "rounded"), (N, N))
    got = outputs(send(cage, f"dot(a, b, 'fp32', {precision!r})", {"a": a, "b": b}, shapes))
    np.testing.assert_array_equal(got["kernel"], got["torch"])


def relative(value: Array, truth: Array) -> float:
    return float(np.linalg.norm(value - truth) / np.linalg.norm(truth))


@pytest.mark.parametrize(("dtype", "unit"), [("bf16", 2.0**-8), ("fp16", 2.0**-11)])
def test_attention_in_sixteen_bits_errs_no_more_than_torchs(cage: Cage, dtype: str, unit: float) -> None:
    """The instrument ``numerics`` finds the same error, and that rounding the weights makes it."""
    inputs, call = {name: normal(seed, 128, 64) for seed, name in enumerate("qkv", 11)}, f"attention(q, k, v, {dtype!r})"
    got = outputs(send(cage, call, inputs, dict.fromkeys(("kernel", "torch", "truth"), (128, 64))))
    error = relative(got["kernel"], got["truth"])
    assert unit / 8 < error <= relative(got["torch"], got["truth"])
    found = json.loads(send(cage, call, inputs, {}, "numerics").report)["data"]
    assert found["stages"]["kernel"] == pytest.approx(error, rel=1e-3)
    top, values = (WORK[: WORK.index(mark)].count("\n") + 1 for mark in ("# TOP", "# VALUES"))
    rows = {(row["line"], row["op"]): row for row in found["lines"]}
    assert rows[top, "max"]["introduced_max"] == 0.0 < rows[top, "max"]["carried"] < 1e-6
    assert (rows[values, "dot"]["operand"], rows[values, "dot"]["precision"]) == (dtype, "")
    assert unit / 8 < rows[values, f"cast to {dtype}"]["introduced"] < unit
    assert found["what_if"] == []
