"""The instrument ``numerics`` in a real cage, on kernels whose errors are known from an H200 or from algebra."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from infra_agent.sandbox.cage import Cage

Array = np.ndarray
KDA = Path(__file__).parents[2] / "tasks" / "kda-cp-tf32" / "workspace"
N = 64
DRAWS = 12

WORK = """
import torch
import triton
import triton.language as tl


@triton.jit
def chain_kernel(m_ptr, h_ptr, s_ptr, T, N: tl.constexpr):
    r = tl.arange(0, N)
    tile = r[:, None] * N + r[None, :]
    m = tl.load(m_ptr + tile)
    s = tl.zeros((N, N), dtype=tl.float32)
    for t in range(T):
        s = tl.dot(m, s, acc=tl.load(h_ptr + t * N * N + tile))  # RECURRENT
    tl.store(s_ptr + tile, s)


def chain(m, h):
    s = torch.empty_like(m)
    chain_kernel[(1,)](m, h, s, h.shape[0], N=m.shape[0])
    return {"s": s}


@triton.jit
def products_kernel(m_ptr, k_ptr, v_ptr, s_ptr, T, N: tl.constexpr):
    r = tl.arange(0, N)
    tile = r[:, None] * N + r[None, :]
    m = tl.load(m_ptr + tile)
    s = tl.zeros((N, N), dtype=tl.float32)
    for t in range(T):
        h = tl.dot(tl.load(k_ptr + t * N * N + tile), tl.load(v_ptr + t * N * N + tile))  # PRODUCT
        s = tl.dot(m, s) + h * 0.1  # STATE
    tl.store(s_ptr + tile, s)


def products(m, k, v):
    s = torch.empty_like(m)
    products_kernel[(1,)](m, k, v, s, k.shape[0], N=m.shape[0])
    k.zero_()
    return {"s": s}


@triton.jit
def covered_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i) * 0.1
    y = tl.cumsum(x, 0, reverse=True)
    z = tl.cumprod(1 + x * 0.001, 0)
    both = tl.reshape(tl.join(y, z).T, (2 * N,))
    tl.store(o_ptr + tl.arange(0, 2 * N), both)


def covered(x):
    o = torch.empty(2, x.numel())
    covered_kernel[(1,)](x, o, N=x.numel())
    return {"y": o[0], "z": o[1]}


@triton.jit
def halve_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i).to(tl.float16).to(tl.float32))


@triton.jit
def copy_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < N // 2, other=0.0))


@triton.jit
def describe_kernel(x_ptr, o_ptr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, shape=[4, N // 4], strides=[N // 4, 1], block_shape=[4, N // 4])
    target = tl.make_tensor_descriptor(o_ptr, shape=[4, N // 4], strides=[N // 4, 1], block_shape=[4, N // 4])
    target.store([0, 0], source.load([0, 0]))


def launches(x):
    n = x.numel()
    half, described, copied, rewritten, fresh = (torch.empty_like(x) for _ in range(5))
    halve_kernel[(1,)](x, half, N=n)
    describe_kernel[(1,)](half, described, N=n)
    copy_kernel[(1,)](half, copied, N=n)
    half[0:8] = 3.0
    copy_kernel[(1,)](half, rewritten, N=n)
    copy_kernel[(1,)](copied + 0.0, fresh, N=n)
    return {"described": described, "copied": copied, "rewritten": rewritten, "fresh": fresh, "host": copied * 2}


@triton.jit
def extremes_kernel(x_ptr, o_ptr, n_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, (x * 1e30).to(tl.float16).to(tl.float32))
    tl.store(n_ptr + i, tl.log(x - 2.0))


def extremes(x):
    big, nan = torch.empty_like(x), torch.empty_like(x)
    extremes_kernel[(1,)](x, big, nan, N=x.numel())
    x.zero_()
    return {"big": big, "nan": nan}
"""


def pack(files: dict[str, bytes]) -> bytes:
    """A workspace as the tar that a request carries."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def report(cage: Cage, entry: str, inputs: dict[str, Array], **args: Any) -> dict[str, Any]:
    """The instrument's report on one entry; ``work`` holds the kernels above, ``kda`` the task's."""
    module, _, name = entry.rpartition(".")
    files = {"work.py": WORK.encode()} if module == "work" else {str(p.relative_to(KDA)): p.read_bytes() for p in KDA.glob("kda/*.py")}
    request = {"entry": {"module": module, "callable": name}, **args}
    arrays = {key: np.ascontiguousarray(value, np.float32) for key, value in inputs.items()}
    result = cage.run("feedback.numerics", request, {"tree": pack(files), "inputs": save(arrays)})
    assert result.ok, result.text.decode()
    whole = json.loads(result.report, parse_constant=lambda name: pytest.fail(f"{name} in the report"))
    found: dict[str, Any] = whole["data"]
    return found


def line_of(mark: str) -> int:
    """Number of the line of WORK that carries a comment."""
    return WORK[: WORK.index(f"# {mark}")].count("\n") + 1


def rows(found: dict[str, Any], mark: str, op: str) -> list[dict[str, Any]]:
    return [row for row in found["lines"] if row["line"] == line_of(mark) and row["op"] == op]


def orthogonal(rng: np.random.Generator, scale: float) -> Array:
    return (np.linalg.qr(rng.standard_normal((N, N)))[0] * scale).astype(np.float32)


@pytest.mark.parametrize(("steps", "on_h200"), [(8, 3.013e-3), (64, 2.534e-2), (256, 9.404e-2)])
def test_the_error_of_a_chain_is_what_an_h200_has(cage: Cage, steps: int, on_h200: float) -> None:
    """One draw differs from the next by 1 % of the error (standard deviation over draws), so the mean of twelve is compared."""
    errors = []
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        m, h = orthogonal(rng, 0.9995), rng.standard_normal((steps, N, N)).astype(np.float32)
        found = report(cage, "work.chain", {"m": m, "h": h}, budget_s=0)
        errors.append(found["stages"]["s"])
    assert np.mean(errors) == pytest.approx(on_h200, rel=0.01)
    assert errors == pytest.approx([on_h200] * DRAWS, rel=0.05)
    (dot,) = rows(found, "RECURRENT", "dot")
    assert (dot["precision"], dot["operand"], dot["count"], dot["file"]) == ("tf32", "fp32", steps, "work.py")
    assert dot["introduced"] < 1e-3 < dot["carried"]
    assert dot["carried"] == pytest.approx(dot["carried_max"], rel=0.05)
    assert found["not_covered"] == []


def test_the_error_of_a_stage_is_the_error_against_float64(cage: Cage) -> None:
    """The output bytes, which only the instrument ``accuracy`` leaves, against a float64 chain of numpy's."""
    rng = np.random.default_rng(0)
    m, h = orthogonal(rng, 0.9995), rng.standard_normal((64, N, N)).astype(np.float32)
    truth = np.zeros((N, N))
    for step in h.astype(np.float64):
        truth = m.astype(np.float64) @ truth + step
    request = {"entry": {"module": "work", "callable": "chain"}}
    sections = {"tree": pack({"work.py": WORK.encode()}), "inputs": save({"m": m, "h": h})}
    result = cage.run("feedback.accuracy", request, sections, {"s": ("F32", (N, N))})
    output = np.frombuffer(result.output, np.float32, N * N, result.layout.slots["s"].offset).reshape(N, N)
    error = np.linalg.norm(output - truth) / np.linalg.norm(truth)
    assert report(cage, "work.chain", {"m": m, "h": h})["stages"]["s"] == pytest.approx(error, rel=1e-9)


def test_the_what_if_names_the_dot_that_matters(cage: Cage) -> None:
    rng = np.random.default_rng(0)
    inputs = {"m": orthogonal(rng, 1.0), "k": rng.standard_normal((64, N, N)), "v": rng.standard_normal((64, N, N)) / 8}
    found = report(cage, "work.products", inputs)
    (state,), (product,) = rows(found, "STATE", "dot"), rows(found, "PRODUCT", "dot")
    assert state["introduced"] == pytest.approx(product["introduced"], rel=0.5)
    first, second = found["what_if"]
    assert (first["line"], second["line"]) == (line_of("STATE"), line_of("PRODUCT"))
    assert (first["from"], first["to"], first["file"]) == ("tf32", "ieee", "work.py")
    assert found["stages"]["s"] == pytest.approx(2.63e-2, rel=0.05)
    assert second["stages"]["s"] == pytest.approx(2.57e-2, rel=0.05)
    assert first["stages"]["s"] == pytest.approx(7.7e-4, rel=0.1)
    assert first["gain"] == pytest.approx(found["stages"]["s"] / first["stages"]["s"])


def test_promoting_to_tf32x3_and_its_candidates(cage: Cage) -> None:
    rng = np.random.default_rng(1)
    inputs = {"m": orthogonal(rng, 0.9995), "h": rng.standard_normal((8, N, N))}
    found = report(cage, "work.chain", inputs, promote_to="tf32x3")
    (result,) = found["what_if"]
    assert result["to"] == "tf32x3"
    assert 1e-7 < result["stages"]["s"] < 2e-6


def test_the_budget_ends_the_what_if_runs(cage: Cage) -> None:
    rng = np.random.default_rng(1)
    found = report(cage, "work.chain", {"m": orthogonal(rng, 1.0), "h": rng.standard_normal((8, N, N))}, budget_s=0)
    assert found["what_if"] == []
    assert found["not_tried"] == [{"file": "work.py", "line": line_of("RECURRENT")}]
    assert found["stages"]["s"] > 1e-3


def test_scans_joins_and_reshapes_are_covered(cage: Cage) -> None:
    x = np.random.default_rng(3).standard_normal(256)
    found = report(cage, "work.covered", {"x": x})
    assert found["not_covered"] == []
    assert {"cumsum", "cumprod", "multiply"} <= {row["op"] for row in found["lines"]}
    for name in ("y", "z"):
        assert 1e-8 < found["stages"][name] < 1e-5


def test_history_goes_from_launch_to_launch_through_memory_that_still_holds_it(cage: Cage) -> None:
    x = np.random.default_rng(4).standard_normal(64).astype(np.float32)
    found = report(cage, "work.launches", {"x": x})
    rounded = x.astype(np.float16).astype(np.float64)
    assert found["stages"]["described"] == pytest.approx(np.linalg.norm(rounded - x) / np.linalg.norm(x), rel=1e-6)
    x[32:] = rounded[32:] = 0.0
    assert found["stages"]["copied"] == pytest.approx(np.linalg.norm(rounded - x) / np.linalg.norm(x), rel=1e-6)
    x[:8] = rounded[:8] = 3.0
    assert found["stages"]["rewritten"] == pytest.approx(np.linalg.norm(rounded - x) / np.linalg.norm(x), rel=1e-6)
    assert found["stages"]["fresh"] == 0.0
    assert found["not_covered"] == ["stage host, which no tl.store wrote"]


def test_infinity_and_nan_become_finite_figures(cage: Cage) -> None:
    """An overflow in fp16 is an error without bound; NaN where float64 has NaN too is none. Inputs may be worked on in place."""
    found = report(cage, "work.extremes", {"x": np.ones(64)})
    assert found["stages"] == {"big": 1e30, "nan": 0.0}


def to_tf32(x: Array) -> Array:
    """Rounded to what a tf32 operand can hold, as activations of a model trained in bf16 nearly are."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def kda_inputs(rng: np.random.Generator, chunks: int) -> dict[str, Array]:
    """One rank of the task: keys of rank 16, w and u solved within each chunk so that transitions keep a norm near one."""
    shape = (1, chunks, N, N)
    k = rng.standard_normal((chunks, N, 16)) @ np.linalg.qr(rng.standard_normal((N, N)))[0][:16]
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    beta = rng.uniform(0, 1, (chunks, N, 1))
    inside = np.linalg.inv(np.eye(N) + np.tril(beta * (k @ k.swapaxes(-1, -2)), -1))
    u = inside @ (beta * rng.standard_normal((chunks, N, N)))
    inputs = {"q": rng.standard_normal(shape) / 8, "k": k[None], "w": (inside @ (beta * k))[None], "u": u[None]}
    inputs = {name: to_tf32(x) for name, x in inputs.items()} | {"do": rng.standard_normal(shape)}
    inputs |= {"decay": rng.uniform(0.9995, 1, (1, chunks, N)), "s0": rng.standard_normal((N, N)), "ds_end": rng.standard_normal((N, N))}
    return inputs


def test_the_chain_dots_of_kda_have_by_far_the_largest_gain(cage: Cage) -> None:
    found = report(cage, "kda.context_parallel.context_parallel", kda_inputs(np.random.default_rng(5), 16))
    source = (KDA / "kda" / "kernels.py").read_text().splitlines()
    chain = {n for n, line in enumerate(source, 1) if line.strip() == "m = tl.dot(step, m)"}
    assert len(chain) == 2
    assert {result["line"] for result in found["what_if"][:2]} == chain
    assert found["what_if"][1]["gain"] > 100 * found["what_if"][2]["gain"]
    assert len(found["what_if"]) == 13
    assert set(found["stages"]) == {"M", "H", "M_bwd", "H_bwd", "S", "dS", "out"}
    assert found["stages"]["S"] == 0.0
    assert "kda/kernels.py" in found["loaded"]
    assert len(found["lines"]) <= 40
    carried = [row["carried_max"] for row in found["lines"]]
    assert carried == sorted(carried, reverse=True)
