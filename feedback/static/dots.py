"""Every tl.dot of a kernel: what it asked for (TTIR) and which unit computes it (TTGIR)."""

import re
from collections.abc import Iterator
from typing import TypedDict

from feedback.static import places
from feedback.static.places import Chain, Locations
from sandboxes.runtime import entry

_DOT = re.compile(r"= tt\.dot (?P<options>.*?) : tensor<(?:\d+x)+(?P<element>\w+)")
_PRECISION = re.compile(r"inputPrecision = (\w+)")
_MMA_LAYOUT = re.compile(r"^(#\w+) = #ttg\.nvidia_mma<", re.MULTILINE)
_MMA_OPERATION = re.compile(r"\bttng\.(?:warp_group_dot|tc_gen5_mma) ")
_LOWERED_DOT = re.compile(r"= tt\.dot .*-> tensor<(?:\d+x)+\w+, (?P<layout>#[\w.]+)")
_OPERANDS = {"f16": "fp16", "f32": "fp32", "f64": "fp64", "f8E4M3FN": "fp8e4nv", "f8E5M2": "fp8e5", "i8": "int8"}
_UNITS = {True: "tensor_core", False: "fma"}


class Dot(TypedDict):
    """One tt.dot; ``unit`` is tensor_core | fma. ``precision`` as written; only fp32 operands heed it."""

    file: str
    line: int
    precision: str
    operand: str
    unit: str


def _lowered(ttgir: str) -> Iterator[tuple[Chain, bool]]:
    """Where each dot of the lowered module stands, and whether it became a tensor-core operation."""
    locations = Locations(ttgir)
    layouts = set(_MMA_LAYOUT.findall(ttgir))
    for line in ttgir.splitlines():
        if _MMA_OPERATION.search(line):
            yield locations.chain(line), True
        elif found := _LOWERED_DOT.search(line):
            yield locations.chain(line), found["layout"] in layouts


def _units(chains: set[Chain], ttgir: str) -> dict[Chain, str]:
    """Unit of the dots at each of ``chains``.

    One dot can be lowered to several (tf32x3, pipelining) and one line can hold several (static_range), so where any of them
    stayed on FMA the unit is fma. A few rewrites (bf16x3) give the new operations another location: a dot whose location is
    gone is judged by the lowered dots that no dot claims.
    """
    on_mma: dict[Chain, bool] = {}
    for chain, mma in _lowered(ttgir):
        on_mma[chain] = mma and on_mma.get(chain, True)
    unclaimed = [mma for chain, mma in on_mma.items() if chain not in chains]
    moved = bool(unclaimed) and all(unclaimed)
    return {chain: _UNITS[on_mma.get(chain, moved)] for chain in chains}


def of_kernel(ttir: str, ttgir: str) -> list[Dot]:
    """The dots of a kernel in the order of its TTIR: a dot in an unrolled loop is listed once per iteration."""
    locations = Locations(ttir)
    found = [(match, locations.chain(line)) for line in ttir.splitlines() if (match := _DOT.search(line))]
    units = _units({chain for _, chain in found}, ttgir)
    dots: list[Dot] = []
    for match, chain in found:
        place = places.of_user(chain)
        precision = _PRECISION.search(match["options"])  # the default, ieee, is not printed
        dots.append(
            {
                "file": entry.relative(place.file),
                "line": place.line,
                "precision": precision[1] if precision else "ieee",
                "operand": _OPERANDS.get(match["element"], match["element"]),
                "unit": units[chain],
            }
        )
    return dots
