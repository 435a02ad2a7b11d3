"""Compiled cost against limits; records built by hand, the instrument has tests of its own."""

from typing import Any

import pytest

from infra_agent.judge.accesses import advice
from infra_agent.judge.static import (
    AtShapes,
    Dot,
    Kernel,
    KernelError,
    Spill,
    StaticRecord,
    Used,
    Width,
    assess,
    metrics,
    precision_mismatch,
)
from infra_agent.judge.tensors import EmulatedDot
from infra_agent.task.spec import Static

LIMITS = Static(case="c", max_spills=4)


def kernel(**changes: Any) -> Kernel:
    base: dict[str, Any] = {
        "name": "k", "file": "a.py", "line": 3, "constexprs": {}, "signature": {}, "num_warps": 4, "num_stages": 3, "shared_bytes": 1024,
        "registers": 100, "stack_bytes": 0, "spill_stores": 0, "spill_loads": 0, "tensor_core_instructions": 8, "fma_instructions": 10,
        "dots": (dot("tf32"),), "spills": (), "ptx_sha256": "0", "cubin_sha256": "0",
    }  # fmt: skip
    return Kernel(**{**base, **changes})


def dot(precision: str, unit: str = "tensor_core", line: int = 9) -> Dot:
    return Dot(file="a.py", line=line, precision=precision, operand="fp32", unit=unit)


def record(*kernels: Kernel, errors: tuple[KernelError, ...] = ()) -> StaticRecord:
    return StaticRecord(target="sm_90", kernels=kernels, errors=errors)


BASE = record(kernel())


def test_the_same_kernels_pass() -> None:
    assert assess(BASE, BASE, LIMITS) == ("pass", None, ())
    assert assess(record(kernel(dots=(dot("tf32x3"),), tensor_core_instructions=21)), BASE, LIMITS)[0] == "pass"


@pytest.mark.parametrize(
    ("found", "kind", "where"),
    [
        (record(kernel(dots=(dot("ieee", "fma"),), tensor_core_instructions=8, fma_instructions=1024)), "lost_tensor_cores", "a.py:9"),
        (record(kernel(dots=(), tensor_core_instructions=0)), "lost_tensor_cores", "a.py:3"),
        (record(kernel(tensor_core_instructions=3)), "lost_tensor_cores", "a.py:3"),
        (record(kernel(tensor_core_instructions=3), kernel(name="other", tensor_core_instructions=99)), "lost_tensor_cores", "a.py:3"),
        (record(kernel(name="renamed", tensor_core_instructions=3)), "lost_tensor_cores", "workspace"),
        (record(kernel(dots=(), num_warps=8)), "lost_tensor_cores", "a.py:3"),
        (record(), "lost_tensor_cores", "workspace"),
        (record(kernel(registers=256)), "slower", "a.py:3"),
        (record(kernel(spill_stores=3, spill_loads=2, spills=(Spill(file="a.py", line=7, stores=3, loads=2),))), "slower", "a.py:7"),
        (record(kernel(shared_bytes=232_449)), "crashed", "a.py:3"),
        (record(errors=(KernelError(kernel="k", message="ptxas fatal"),)), "crashed", "k"),
    ],
)
def test_lost_cost_is_refused_with_its_place(found: StaticRecord, kind: str, where: str) -> None:
    status, got, findings = assess(found, BASE, LIMITS)
    assert (status, got, str(findings[0].where)) == ("fail", kind, where)


def test_base_and_candidate_exchanged_is_noticed() -> None:
    """Label swap: a candidate that lost its tensor cores must not pass because the two were exchanged."""
    lost = record(kernel(dots=(dot("ieee", "fma"),), tensor_core_instructions=0, fma_instructions=1024))
    assert assess(lost, BASE, LIMITS)[0] == "fail"
    assert assess(BASE, lost, LIMITS)[0] == "pass"


def test_metrics_show_base_where_it_differs() -> None:
    found = {m.name: m for m in metrics(record(kernel(registers=120)), BASE)}
    assert (found["registers.k"].value, found["registers.k"].base) == (120, 100)
    assert found["tensor_core_instructions.k"].base is None


def test_specialisations_of_one_kernel_are_told_apart() -> None:
    twice = record(kernel(constexprs={"R": False, "K": 64}), kernel(constexprs={"R": True, "K": 64}, registers=90))
    names = {m.name: m for m in metrics(twice, twice)}
    assert names["registers.k[R=True]"].value == 90 and names["registers.k[R=False]"].base is None


def emulated(precision: str, line: int = 9) -> EmulatedDot:
    return EmulatedDot(file="a.py", line=line, precision=precision, operand="fp32", count=1)


def test_precision_must_agree_line_by_line() -> None:
    assert precision_mismatch((emulated("tf32"),), BASE, whole=True) == []
    assert str(precision_mismatch((emulated("tf32x3"),), BASE, whole=True)[0].where) == "a.py:9"
    assert precision_mismatch((), BASE, whole=True)[0].message == "compiled as fp32 tf32, emulated as nothing"
    assert len(precision_mismatch((emulated("tf32", line=10),), BASE, whole=True)) == 2


def test_precision_may_not_depend_on_the_case() -> None:
    """What is compiled for one case must be what runs in every other; a line never compiled is open, not forged."""
    assert precision_mismatch((), BASE, whole=False) == []
    assert precision_mismatch((emulated("ieee"),), BASE, whole=False)[0].kind == "tampered"
    assert precision_mismatch((emulated("tf32", line=10),), BASE, whole=False)[0].kind == "stale_build"
    wide = EmulatedDot(file="a.py", line=9, precision="ieee", operand="fp64", count=1)
    assert precision_mismatch((wide,), BASE, whole=False)[0].kind == "tampered"


def used(**changes: Any) -> Used:
    base: dict[str, Any] = {
        "file": "a.py", "line": 5, "kind": "load", "pointer": "x", "largest": 99, "unbounded": (), "narrow": False, "computed_file": "",
        "computed_line": 0, "bits": 0, "reaches": 0, "elements": 128, "allows_wide": False,
    }  # fmt: skip
    return Used(**{**base, **changes})


def width(widest: int, line: int = 5) -> Width:
    return Width(file="a.py", line=line, kind="load", widest=widest, narrowest=widest, instructions=2)


def moving(widest: int, **changes: Any) -> StaticRecord:
    return record(kernel(widths=(width(widest),), accesses=(used(**changes),)))


def test_narrow_where_base_or_the_addresses_allow_more() -> None:
    (finding,) = advice(moving(4), moving(16))
    assert (finding.kind, str(finding.where), finding.magnitude) == ("narrow_access", "a.py:5", 4.0)
    assert finding.message == "k: each load of x moves 4 bytes per thread in 2 instructions; base moves 16"
    assert advice(moving(2, allows_wide=True), moving(2))[0].message.endswith("the addresses as launched allow 16")


def test_narrow_is_not_said_without_a_reason() -> None:
    assert advice(moving(4), moving(4)) == () == advice(moving(8), moving(16))
    assert advice(moving(4, elements=1), moving(16)) == (), "a scalar"
    assert advice(moving(4, pointer="z"), moving(16)) == (), "another pointer"
    twice = record(kernel(widths=(width(16), width(4, line=6)), accesses=(used(), used(line=6))))
    assert advice(twice, twice) == (), "a line that base has too, beside a wide one of the same pointer"


def test_an_offset_that_overflows_is_named_where_it_is_made() -> None:
    far = {"computed_file": "b.py", "computed_line": 2, "bits": 32, "reaches": 2**32}
    found = record(kernel(accesses=(used(**far), used(line=8, **(far | {"reaches": 2**33})))))
    (finding,) = advice(found, BASE)
    assert (finding.kind, str(finding.where), finding.magnitude) == ("offset_overflow", "b.py:2", 2.0**33)
    assert "the load of x at a.py:8 may reach 8589934592 as launched" in finding.message
    later = record(kernel()).model_copy(update={"at_shapes": (AtShapes(name="k", accesses=(used(**far),)),)})
    assert "at the shapes asked for" in advice(later, BASE)[0].message
    assert (
        advice(record(kernel(accesses=(used(narrow=True, largest=None, unbounded=("argument n",)),))), BASE)[0].kind == "offset_unbounded"
    )
    assert advice(record(kernel(accesses=(used(largest=None, unbounded=("argument n",)),))), BASE) == ()


def test_advice_is_no_verdict() -> None:
    assert assess(moving(4, allows_wide=True), moving(16), LIMITS)[0] == "pass"


def test_shared_memory_of_the_target_that_was_asked_for() -> None:
    found = record(kernel(shared_bytes=200_000))
    assert assess(found, BASE, LIMITS)[0] == "pass"
    small = found.model_copy(update={"target": "sm_80", "max_shared_bytes": 166_912})
    status, kind, findings = assess(small, BASE, LIMITS)
    assert (status, kind) == ("fail", "crashed") and findings[0].message.endswith("166912 exist on sm_80")
    boasted = record(kernel(shared_bytes=240_000)).model_copy(update={"max_shared_bytes": 2**30})
    assert assess(boasted, BASE, LIMITS)[0] == "fail", "a report cannot widen the task's limit"
