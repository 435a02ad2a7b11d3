"""A pool of secret contents with their truth, and the check of every output that a timed call leaves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from infra_agent import canonical
from infra_agent.errors import UsageError
from infra_agent.judge.reference import Case, Drawn
from infra_agent.judge.tensors import CompareRecord, compare, stage_fault
from infra_agent.sandbox.mapping import GUARD, POISON, Layout, Slot

_SIGMAS = 6.0
"""A projection of a difference is normal with the difference's norm as its spread: six times the limit accuses nobody honest."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with one output."""

    stage: str
    kind: str
    message: str


@dataclass
class Tally:
    """How many outputs of one side were checked, and how near they came to their limits."""

    outputs: int = 0
    full: int = 0
    drawn: int = 0
    """Which of the next few is compared in full."""
    closest: dict[str, float] = field(default_factory=dict)


class Pool:
    """Contents of one case. ``seed`` decides the secret directions that outputs are projected on."""

    def __init__(self, case: Case, drawn: Sequence[Drawn], seed: int) -> None:
        self.case = case
        self.drawn = drawn
        self.digests = tuple(canonical.digest(content.inputs) for content in drawn)
        rng = np.random.default_rng(seed)
        self._directions = {stage: rng.standard_normal(value.size) for stage, value in drawn[0].truth.items()}
        self._scratch = {stage: np.empty(value.size) for stage, value in drawn[0].truth.items()}
        self._projected = {stage: np.array([self._project(stage, content.truth[stage]) for content in drawn]) for stage in case.bounds}
        self._allowed = {
            stage: np.array([_SIGMAS * bound.error * math.sqrt(float(np.square(content.truth[stage]).sum())) for content in drawn])
            for stage, bound in case.bounds.items()
        }

        if not all(np.isfinite(allowed).all() for allowed in self._allowed.values()):
            raise UsageError(f"case {case.name}: truth is too large to be squared: nothing could be refused")

    def __len__(self) -> int:
        return len(self.drawn)

    def _project(self, stage: str, value: np.ndarray) -> float:
        """A sum of products with a secret direction; no BLAS, whose threads would meet what is being timed. NaN in, NaN out."""
        scratch = self._scratch[stage]
        with np.errstate(over="ignore", invalid="ignore"):
            np.multiply(value.reshape(-1), self._directions[stage], out=scratch)
            return float(scratch.sum())

    def check(self, output: bytes, layout: Layout, number: int, content: int, earlier: Sequence[int], tally: Tally) -> Fault | None:
        """Set ``number`` of an output, made from ``content``: guards, poison and NaN, projection. ``earlier``: contents it saw before."""
        tally.outputs += 1
        for stage in self.case.bounds:
            slot = layout.slots[f"{number}/{stage}"]
            if not _guarded(output, slot):
                return Fault(stage, "tampered", "bytes outside the stage's buffer were written")
            value = np.frombuffer(output, self.drawn[0].reference[stage].dtype, _count(slot.shape), slot.offset)
            found = self._project(stage, value)
            if abs(found - self._projected[stage][content]) <= self._allowed[stage][content]:
                continue
            return self._named(stage, value, found, content, earlier)
        return None

    def _named(self, stage: str, value: np.ndarray, found: float, content: int, earlier: Sequence[int]) -> Fault:
        """Which fault it is that a projection shows."""
        raw = np.frombuffer(value.tobytes(), np.uint8)
        if (raw == POISON).all() and value.size:
            return Fault(stage, "incorrect", "stage was not produced when the call was answered")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            return Fault(stage, "incorrect", f"{int((~np.isfinite(value)).sum())} of {value.size} elements are not finite or never written")
        again = [old for old in earlier if old != content and abs(found - self._projected[stage][old]) <= self._allowed[stage][old]]
        if again:
            return Fault(stage, "replayed", "it is the answer to the inputs of an earlier call")
        off = abs(found - self._projected[stage][content]) / (self._allowed[stage][content] / _SIGMAS or 1.0)
        return Fault(stage, "incorrect", f"its secret projection is off by {min(off, 1e30):.3g} times what its limit allows")

    def compare(self, output: bytes, layout: Layout, number: int, content: int, tally: Tally) -> Fault | None:
        """The full check of one set against truth."""
        tally.full += 1
        drawn = self.drawn[content]
        stages = compare(output, layout, drawn.truth, drawn.reference, f"{number}/")
        case = self.case
        record = CompareRecord(
            case=case.name, split=case.split, size=case.size, tree="", ended="ok", bounds=case.bounds, stages=stages
        )  # fmt: skip
        for stage, bound in case.bounds.items():
            tally.closest[stage] = max(tally.closest.get(stage, 0.0), stages[stage].error / bound.error)
            fault = stage_fault(record, stage)
            if fault is not None:
                return Fault(stage, fault[0], fault[2])
        return None


def _count(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def _guarded(output: bytes, slot: Slot) -> bool:
    before, after = output[slot.offset - GUARD : slot.offset], output[slot.offset + slot.nbytes : _page(slot.offset + slot.nbytes) + GUARD]
    return before.count(POISON) == len(before) and after.count(POISON) == len(after)


def _page(offset: int) -> int:
    return -(-offset // GUARD) * GUARD
