"""Loads, stores and atomics of a kernel over all its launches: the largest offset, and whether 16 bytes at a time are possible."""

import math
from collections.abc import Sequence
from typing import cast

from feedback.static import contiguity, offsets
from feedback.static.intervals import Launch
from feedback.static.offsets import Offset
from feedback.static.ttir import Graph


class Used(Offset):
    """An access, the worst of its launches. ``elements`` of a tile; ``allows_wide``: 16 bytes per thread are possible in every launch."""

    elements: int
    allows_wide: bool


def _badness(one: Offset) -> tuple[bool, int, bool, int]:
    """An overflow before anything, then what is not bounded, then the larger offset."""
    return one["computed_line"] > 0, abs(one["reaches"]), one["narrow"], one["largest"] or 0


def of_kernel(ttir: str, launches: Sequence[Launch], threads: int) -> list[Used]:
    """In the order of the TTIR, for blocks of ``threads``; empty when no launch is known."""
    graph = Graph(ttir)
    by_launch = [offsets.of_launch(graph, launch) for launch in launches]
    found: list[Used] = []
    for access, same in zip(graph.accesses, zip(*by_launch, strict=True), strict=bool(by_launch)):
        worst = max(same, key=_badness)
        wide = all(contiguity.allows_wide(graph, launch, access, worst["pointer"], threads) for launch in launches)
        found.append(cast(Used, {**worst, "elements": math.prod(access.shape), "allows_wide": wide}))
    return found
