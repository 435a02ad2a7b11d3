"""Free negative controls: wrong outputs that every task must refuse, made from its own truth. They need no code and no cage. Pure.

One stage at a time is replaced, the others stay right, so that no stage hides behind another.
"""

import re
from collections.abc import Iterator, Mapping

import numpy as np

from infra_agent.judge.reference import Case, Drawn
from infra_agent.judge.tensors import CompareRecord, compare, stage_fault
from infra_agent.sandbox.mapping import POISON, plan
from infra_agent.task.spec import TaskSpec

Array = np.ndarray
_DROPPED_BITS = {"float32": 16, "float16": 7}
"""How many low bits reduced precision drops: bfloat16 for float32, three bits of fraction for half precision."""
_NOTHING = ("zeros", "uninitialised", "never written")
"""Controls that hold no figure at all."""


def reduced(value: Array) -> Array:
    """The same numbers with fewer significant bits, rounded to nearest: what the next shorter format would leave."""
    if value.dtype == np.float64:
        return value.astype(np.float32).astype(np.float64)
    dropped, width = _DROPPED_BITS[value.dtype.name], 8 * value.dtype.itemsize
    bits = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}").astype(np.uint64)
    rounded = (bits + np.uint64(1 << (dropped - 1))) & np.uint64((1 << width) - (1 << dropped))
    narrow: Array = rounded.astype(f"u{value.dtype.itemsize}").view(value.dtype)
    return narrow


def wrong_outputs(right: Array, stale: Array, inputs: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Name -> an output that must not pass for ``right``. ``stale``: the right answer to other contents."""
    yield "zeros", np.zeros_like(right)
    yield "constant mean", np.full_like(right, right.mean() if right.size else 0)
    for name, value in inputs.items():
        if value.shape == right.shape and value.dtype == right.dtype:
            yield f"copy of input {name}", value
    yield "uninitialised", np.frombuffer(np.random.default_rng(0).bytes(right.nbytes), right.dtype).reshape(right.shape)
    yield "never written", np.frombuffer(bytes([POISON]) * right.nbytes, right.dtype).reshape(right.shape)
    if right.dtype.kind == "f":
        yield "reduced precision", reduced(right)
    yield "stale", stale
    flat = right.reshape(-1).copy()
    flat[flat.size // 2 :] = 0
    yield "another shape", flat.reshape(right.shape)


def accepted(case: Case, drawn: Drawn, other: Drawn, inputs: Mapping[str, Array]) -> Iterator[tuple[str, str, bool]]:
    """(control, stage, was it accepted) for every control of every stage. ``other``: other contents of the same case."""
    layout = plan(drawn.shapes, 8)
    for stage in case.bounds:
        for name, wrong in wrong_outputs(drawn.reference[stage], other.reference[stage], inputs):
            output = bytearray([POISON]) * layout.report_offset
            for written, slot in layout.slots.items():
                value = wrong if written == stage else drawn.reference[written]
                output[slot.offset : slot.offset + slot.nbytes] = np.ascontiguousarray(value).tobytes()
            stages = compare(bytes(output), layout, drawn.truth, drawn.reference)
            record = CompareRecord(
                case=case.name, split=case.split, size=case.size, tree="", ended="ok", bounds=case.bounds, stages=stages
            )  # fmt: skip
            yield name, stage, wrong.size > 0 and stage_fault(record, stage) is None


def excused(control: str, stage: str, spec: TaskSpec) -> bool:
    """Does the task say that this stage accepts this control, and why? A figure of a model, with its wide limit, accepts what is near."""
    plain = re.sub(" of input .*", " of input", control)
    if stage in spec.entry.modelled and control not in _NOTHING:
        return True
    return any(entry.stage == stage and entry.control in (control, plain) for entry in spec.accepts)
