"""What ``numerics`` covers, against float64 of numpy's or torch's, and that it names everything that it does not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from triton.runtime.interpreter import InterpreterBuilder

from feedback.numerics import operations
from infra_agent.sandbox.cage import Cage
from tests.feedback.test_numerics import Array, pack

WORK = (Path(__file__).parent / "kernels_numerics" / "work.py").read_text()
NAMES = ("bitcast", "sort", "atomic_max", "atomic_cas", "fp8e4b15", "arithmetic in fp8e5", "dot_scaled")
REFUSED_BY_TRITON = ("inline_asm", "atomic_xchg", "bf16 sum")
SOURCE = WORK + f"\n\nNAMES = {NAMES + REFUSED_BY_TRITON!r}\n"


def report(cage: Cage, name: str, inputs: dict[str, Array], **args: Any) -> dict[str, Any]:
    """The instrument's whole report on an entry of SOURCE; float32 inputs."""
    import json

    arrays = {key: np.ascontiguousarray(value, np.float32) for key, value in inputs.items()}
    request = {"entry": {"module": "cover", "callable": name}, **args}
    result = cage.run("feedback.numerics", request, {"tree": pack({"cover.py": SOURCE.encode()}), "inputs": save(arrays)})
    assert result.ok, result.text.decode()
    found: dict[str, Any] = json.loads(result.report)
    return found


def outputs(cage: Cage, name: str, inputs: dict[str, Array], shapes: dict[str, tuple[int, ...]]) -> dict[str, Array]:
    """What the entry returns, by the instrument that leaves bytes: float64 copies."""
    arrays = {key: np.ascontiguousarray(value, np.float32) for key, value in inputs.items()}
    sections = {"tree": pack({"cover.py": SOURCE.encode()}), "inputs": save(arrays)}
    slots = {stage: ("F32", shape) for stage, shape in shapes.items()}
    result = cage.run("feedback.accuracy", {"entry": {"module": "cover", "callable": name}}, sections, slots)
    assert result.ok, result.text.decode()
    return {
        stage: np.frombuffer(result.output, np.float32, int(np.prod(shape)), result.layout.slots[stage].offset).reshape(shape).astype(float)
        for stage, shape in shapes.items()
    }


def line_of(mark: str) -> int:
    return SOURCE[: SOURCE.index(f"# {mark}")].count("\n") + 1


def relative(value: Array, truth: Array) -> float:
    return float(np.linalg.norm(value - truth) / np.linalg.norm(truth))


def agrees(cage: Cage, name: str, inputs: dict[str, Array], truths: dict[str, Array], rel: float = 0.02) -> dict[str, Any]:
    """The stages' errors against shadows are those against ``truths``; the report's data."""
    found: dict[str, Any] = report(cage, name, inputs)["data"]
    left = outputs(cage, name, inputs, {stage: truth.shape for stage, truth in truths.items()})
    for stage, truth in truths.items():
        assert found["stages"][stage] == pytest.approx(relative(left[stage], truth), rel=rel), stage
    return found


def single(x: Array) -> Array:
    """What float32 inputs hold, float64."""
    return x.astype(np.float32).astype(np.float64)


def test_scans_by_a_function_of_the_kernels_own(cage: Cage) -> None:
    rng = np.random.default_rng(0)
    a, b = single(rng.uniform(0.7, 0.9, (2, 64))), single(rng.standard_normal((2, 64)))
    factor = a * float(np.float32(1.1))

    def run(order: range) -> Array:
        s, truth = np.zeros(2), np.zeros((2, 64))
        for t in order:
            s = truth[:, t] = factor[:, t] * s + b[:, t]
        return truth

    found = agrees(cage, "scans", {"a": a, "b": b}, {"forth": run(range(64)), "back": run(range(63, -1, -1))})
    assert found["not_covered"] == []
    assert all(1e-9 < error < 1e-6 for error in found["stages"].values())
    assert {row["op"] for row in found["lines"] if row["line"] == line_of("SCAN")} == {"associative_scan"}


def test_reductions_by_a_function_of_the_kernels_own_and_by_tritons(cage: Cage) -> None:
    """``wide`` rounds to fp16 at each step: its float64 truth does not."""
    x = single(np.random.default_rng(1).uniform(0.5, 1.0, (16, 16)))
    y = x * float(np.float32(1.1))
    found = agrees(cage, "reduces", {"x": x}, {"o": y.sum(1), "top": y.max(1), "total": y.sum(1) + y.max(1)})
    assert found["not_covered"] == []
    assert 1e-5 < found["stages"]["o"] < 5e-3 < 1e-2
    (row,) = [row for row in found["lines"] if row["line"] == line_of("REDUCE") and row["op"] == "reduce"]
    assert row["introduced"] > 1e-5


def test_atomic_sums_and_what_they_return(cage: Cage) -> None:
    rng = np.random.default_rng(2)
    x, where = single(rng.standard_normal(128)), rng.integers(0, 8, 128)
    total, old = np.zeros(8), np.zeros(128)
    for i in range(128):
        if x.astype(np.float16)[i] > -1.0:
            old[i] = total[where[i]]
            total[where[i]] += x[i]
    found = agrees(cage, "adds", {"x": x, "where": where}, {"total": total, "old": old})
    assert found["not_covered"] == []
    (row,) = [row for row in found["lines"] if row["line"] == line_of("ATOMIC") and row["op"] == "atomic_add"]
    assert row["operand"] == "fp32" and row["count"] == 4
    assert row["introduced"] < 1e-6 < 1e-5 < row["carried_max"]


def test_history_goes_through_memory_in_every_narrow_format(cage: Cage) -> None:
    x = single(np.random.default_rng(3).choice([0.25, 0.5, 1.0, 2.0], 256) * np.random.default_rng(4).uniform(1.0, 2.0, 256))
    names = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16")
    found = agrees(cage, "formats", {"x": x}, dict.fromkeys(names, x))
    assert found["not_covered"] == []
    for name, bits in zip(names, (3, 2, 10, 7), strict=True):
        assert 2.0 ** -(bits + 3) < found["stages"][name] < 2.0 ** -(bits + 1)


def test_each_cast_is_told_apart_by_what_it_leaves_alone(cage: Cage) -> None:
    x = single(np.random.default_rng(4).uniform(0.5, 1.0, 256))
    whole = report(cage, "two_casts", {"x": x})
    coarse, slight = whole["data"]["casts"]
    assert (coarse["line"], coarse["to"], slight["line"], slight["to"]) == (line_of("COARSE"), "bf16", line_of("SLIGHT"), "fp16")
    y = torch.from_numpy(x * 3)
    alone = relative((y.float().bfloat16().double() + 1).numpy(), (y + 1).numpy())
    assert coarse["stages"]["o"] == pytest.approx(alone, rel=0.05)
    assert slight["stages"]["o"] < 0.2 * coarse["stages"]["o"]
    (said,) = [f for f in whole["findings"] if f["kind"] == "cast_alone"]
    assert said["where"] == {"type": "line", "path": "cover.py", "line": line_of("COARSE")}


def test_a_bf16_attention_loses_what_torchs_own_does(cage: Cage) -> None:
    rng = np.random.default_rng(5)
    q, k, v = (torch.from_numpy(rng.standard_normal((256, 64))).bfloat16() for _ in range(3))
    function = torch.nn.functional.scaled_dot_product_attention
    truth = function(*(x.double()[None, None] for x in (q, k, v))).numpy()
    torchs = relative(function(*(x[None, None] for x in (q, k, v))).double().numpy(), truth)
    inputs = {name: x.float().numpy() for name, x in {"q": q, "k": k, "v": v}.items()}
    found = agrees(cage, "attention", inputs, {"o": truth[0, 0]})
    assert found["not_covered"] == []
    assert torchs / 1.5 < found["stages"]["o"] < torchs * 1.5
    assert {cast["line"] for cast in found["casts"]} == {line_of("PROBABILITIES"), line_of("OUTPUT")}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_covered_is_named_with_its_line(cage: Cage, name: str) -> None:
    x = np.random.default_rng(6).uniform(0.5, 1.0, 1024)
    whole = report(cage, "uncovered", {"x": x, "what": np.full(1, NAMES.index(name))})
    assert name in whole["data"]["not_covered"]
    (said,) = [f for f in whole["findings"] if f["kind"] == "not_covered" and f["message"].startswith(f"{name}:")]
    assert said["where"]["path"] == "cover.py"
    spelled = name.rsplit(" ", maxsplit=1)[-1] if "fp8" in name else name.split(" ", maxsplit=1)[0]
    spelled = {"fp8e4b15": "float8e4b15", "fp8e5": "float8e5"}.get(spelled, spelled)
    assert spelled in SOURCE.splitlines()[said["where"]["line"] - 1]


def test_descriptor_rows_and_host_code_are_named(cage: Cage) -> None:
    found = report(cage, "gathers", {"x": np.random.default_rng(7).standard_normal((32, 32))})["data"]
    assert {"gather", "scatter"} <= set(found["not_covered"]) or {"descriptor_gather", "descriptor_scatter"} <= set(found["not_covered"])
    found = report(cage, "host", {"x": np.ones(64)})["data"]
    assert found["not_covered"] == ["stage o, which no tl.store wrote"] and found["stages"] == {}


def test_casts_to_fp8_round_as_torch_does_where_a_significand_carries_too(cage: Cage) -> None:
    x = torch.linspace(0.25, 2.0, 256)
    names = {"float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}
    left = outputs(cage, "formats", {"x": x.numpy()}, dict.fromkeys(names, (256,)))
    for name, kind in names.items():
        assert (torch.from_numpy(left[name]) == x.to(kind).double()).all(), name
    assert report(cage, "formats", {"x": x.numpy()})["data"]["not_covered"] == []


@pytest.mark.parametrize("name", REFUSED_BY_TRITON)
def test_what_the_interpreter_cannot_run_is_not_run(cage: Cage, name: str) -> None:
    x = np.random.default_rng(6).uniform(0.5, 1.0, 1024)
    whole = report(cage, "uncovered", {"x": x, "what": np.full(1, (NAMES + REFUSED_BY_TRITON).index(name))})
    assert whole["status"] == "not_run" and whole["findings"] == []
    assert "Triton's interpreter cannot run this kernel: " in whole["headline"]


THROUGH_OTHERS = {
    "load": "masked_load", "store": "masked_store", "clampf": "binary_op, ternary_op", "atomic_load": "masked_load",
    "atomic_store": "masked_store", "descriptor_store": "masked_store",
    **dict.fromkeys(("si_to_fp", "ui_to_fp", "fp_to_si", "fp_to_ui", "fp_ext", "fp_trunc", "int_cast"), "cast_impl"),
}  # fmt: skip
"""Operations that the interpreter makes of others, which are wrapped."""
NO_FLOATS = {
    "get_program_id", "get_num_programs", "make_range", "addptr", "histogram", "idiv", "ashr", "umulhi", "sdiv", "udiv", "atomic_poll",
    "make_tensor_descriptor", "int_to_ptr", "ptr_to_int", "print", "assert", "assume", "barrier",
}  # fmt: skip
"""Addresses, integers, and what has no result."""
REFUSED = {"extern_elementwise", "inline_asm"}
"""The interpreter raises."""


def test_every_operation_of_the_interpreter_is_covered_or_named() -> None:
    """A later Triton that brings another fails here, before a shadow is lost in silence."""
    wrapped = {name.removeprefix("create_") for name in operations.WRAPPED}
    known = wrapped | set(THROUGH_OTHERS) | NO_FLOATS | REFUSED
    unknown = []
    for name, value in vars(InterpreterBuilder).items():
        if not name.startswith("create_") or name.removeprefix("create_") in known:
            continue
        names = set(value.__code__.co_names) if hasattr(value, "__code__") else set()
        if not names & {"unary_op", "binary_op", "ternary_op"}:
            unknown.append(name)
    assert unknown == []
