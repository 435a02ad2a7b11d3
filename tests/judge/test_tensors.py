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


OK = {"case": "c", "split": "public", "size": 1, "tree": "t", "ended": "ok"}


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
    return CompareRecord(
        case="c", split="public", size=1, tree="t", ended="ok", bounds={"y": Bound(error=bound, ratio=100.0)}, stages=stages
    )


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


def test_a_wrong_corner_shows_although_the_norm_does_not() -> None:
    """44 zeroed elements of millions: the norm of the whole is within its limit, one element is not."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((2048, 2048))
    wrong = truth.astype(np.float32)
    wrong[-1, 20:24] = 0.0
    layout = plan({"y": ("F32", truth.shape)}, 1 << 12)
    buffer = bytearray([POISON]) * layout.report_offset
    slot = layout.slots["y"]
    buffer[slot.offset : slot.offset + slot.nbytes] = wrong.tobytes()
    stages = compare(bytes(buffer), layout, {"y": truth}, {"y": truth.astype(np.float32)})
    bound = Bound(error=2.5e-3, ratio=1e6)
    record = CompareRecord(**OK, bounds={"y": bound}, stages=stages)
    assert stages["y"].error < bound.error
    _, kind, findings = assess(record)
    assert kind == "incorrect" and "one element" in findings[0].message and "rows 2032-2047" in str(findings[0].where)


def other_dtype(value: np.ndarray, dtype: str, name: str, truth: np.ndarray) -> CompareRecord:
    layout = plan({"y": (name, value.shape)}, 1 << 12)
    buffer = bytearray([POISON]) * layout.report_offset
    slot = layout.slots["y"]
    buffer[slot.offset : slot.offset + slot.nbytes] = value.astype(dtype).tobytes()
    stages = compare(bytes(buffer), layout, {"y": truth}, {"y": truth.astype(dtype)})
    return CompareRecord(**OK, bounds={"y": Bound(error=1e-6, ratio=10)}, stages=stages)


def test_an_integer_that_equals_the_poison_is_a_value() -> None:
    truth = np.full((4, 4), -1.0)
    assert assess(other_dtype(truth, "int32", "I32", truth))[0] == "pass"


def test_absurd_outputs_are_a_failure_not_a_crash() -> None:
    zero = np.zeros((4, 4))
    assert assess(other_dtype(zero + 1e200, "float64", "F64", zero))[:2] == ("fail", "incorrect")
    assert assess(other_dtype(zero + 1e200, "float64", "F64", zero + 1))[:2] == ("fail", "incorrect")
    assert assess(other_dtype(zero, "float32", "F32", zero))[0] == "pass"
    assert assess(other_dtype(np.zeros((0, 4)), "float32", "F32", np.zeros((0, 4))))[0] == "pass"


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


ENDINGS = {"timeout": "timeout", "crashed": "crashed", "broken": "crashed", "output_limit": "crashed", "bad_report": "tampered"}


@pytest.mark.parametrize(("ended", "kind"), ENDINGS.items())
def test_a_call_that_did_not_end_well_fails(ended: str, kind: str) -> None:
    record = CompareRecord(case="c", split="public", size=1, tree="t", ended=ended, ending="why", bounds={"y": Bound(error=1, ratio=1)})
    assert assess(record)[:2] == ("fail", kind)


def test_growth_compares_two_sizes() -> None:
    small, large = judged(TRUTH * (1 + 1e-5)), judged(TRUTH * (1 + 1e-3))
    found = growth(small, large, "y")
    assert found is not None and 80 < found < 120
    assert growth(small, large, "absent") is None


def test_a_record_survives_json() -> None:
    record = judged(REFERENCE)
    assert CompareRecord.model_validate_json(record.model_dump_json()) == record
