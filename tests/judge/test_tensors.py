"""The comparison: what it must see, each seen to fail."""

import math

import numpy as np
import pytest

from infra_agent.judge.tensors import Bound, CompareRecord, assess, compare, growth, metrics
from infra_agent.sandbox.mapping import POISON, plan

SHAPE = (2, 32, 48)
RNG = np.random.default_rng(3)
TRUTH = RNG.standard_normal(SHAPE)
REFERENCE = TRUTH.astype(np.float32)


def judged(value: np.ndarray | None, spoil: int | None = None, bound: float = 1e-5) -> CompareRecord:
    """What the judge records of ``value``; None leaves the slot untouched, ``spoil`` overwrites one byte of the buffer."""
    layout = plan({"y": ("F32", SHAPE)}, 1 << 12)
    buffer = bytearray([POISON]) * layout.report_offset
    slot = layout.slots["y"]
    if value is not None:
        buffer[slot.offset : slot.offset + slot.nbytes] = value.astype(np.float32).tobytes()
    if spoil is not None:
        buffer[slot.offset + spoil] = 0
    stages = compare(bytes(buffer), layout, {"y": TRUTH}, {"y": REFERENCE})
    return CompareRecord(case="c", split="public", size=1, ended="ok", bounds={"y": Bound(error=bound, ratio=100.0)}, stages=stages)


def test_a_right_output_passes_with_its_error() -> None:
    record = judged(REFERENCE)
    assert assess(record) == ("pass", None, ())
    assert 0 < metrics(record)[0].value < 1e-7 and metrics(record)[0].target == 1e-5


def test_a_wrong_tile_is_named() -> None:
    wrong = REFERENCE.copy()
    wrong[1, 16:20, 33] += 1.0
    status, kind, findings = assess(judged(wrong))
    assert (status, kind) == ("fail", "incorrect")
    assert str(findings[0].where) == "c: stage y[1] tile rows 16-31 columns 32-47"


@pytest.mark.parametrize(
    "value", [np.zeros(SHAPE), np.full(SHAPE, TRUTH.mean()), TRUTH.astype(np.float16), np.roll(TRUTH, 1, 0), TRUTH * (1 + 1e-4)]
)
def test_cheap_outputs_are_refused(value: np.ndarray) -> None:
    assert assess(judged(value))[:2] == ("fail", "incorrect")


def test_an_untouched_buffer_is_a_missing_stage() -> None:
    _, kind, findings = assess(judged(None))
    assert kind == "incorrect" and "not produced" in findings[0].message


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_and_infinity_are_refused(bad: float) -> None:
    wrong = REFERENCE.copy()
    wrong[0, 3, 5] = bad
    _, kind, findings = assess(judged(wrong))
    assert kind == "incorrect" and "1 of 3072 elements are not finite" in findings[0].message


@pytest.mark.parametrize("spoil", [-1, -4096, REFERENCE.nbytes, REFERENCE.nbytes + 4095])
def test_a_write_outside_the_buffer_is_tampering(spoil: int) -> None:
    assert assess(judged(REFERENCE, spoil))[:2] == ("fail", "tampered")


def test_within_the_absolute_bound_but_far_from_the_reference() -> None:
    noisy = REFERENCE * (1 + 1e-3 * RNG.standard_normal(SHAPE))
    _, _, findings = assess(judged(noisy, bound=1.0))
    assert "times the reference's own" in findings[0].message


@pytest.mark.parametrize(
    ("ended", "kind"), [("timeout", "timeout"), ("crashed", "crashed"), ("broken", "crashed"), ("output_limit", "crashed")]
)
def test_a_call_that_did_not_end_well_fails(ended: str, kind: str) -> None:
    record = CompareRecord(case="c", split="public", size=1, ended=ended, ending="why", bounds={"y": Bound(error=1, ratio=1)})
    assert assess(record)[:2] == ("fail", kind)


def test_growth_compares_two_sizes() -> None:
    small, large = judged(TRUTH * (1 + 1e-5)), judged(TRUTH * (1 + 1e-3))
    found = growth(small, large, "y")
    assert found is not None and 80 < found < 120
    assert growth(small, large, "absent") is None


def test_a_record_survives_json() -> None:
    record = judged(REFERENCE)
    assert CompareRecord.model_validate_json(record.model_dump_json()) == record
