"""Values of 8-bit floating types, by name. Triton's interpreter holds them as bytes."""

from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray

_OF_TORCH = {"fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2", "fp8e4b8": "float8_e4m3fnuz", "fp8e5b16": "float8_e5m2fnuz"}
"""fp8e4b15 is missing: torch has no such type, and no device of today computes in it."""
KNOWN = tuple(_OF_TORCH)


@cache
def table(name: str) -> Array:
    """The 256 values of a type, float64, by their byte. Raises KeyError for a type that is not KNOWN."""
    import torch

    values: Array = torch.arange(256, dtype=torch.uint8).view(getattr(torch, _OF_TORCH[name])).to(torch.float64).numpy()
    return values


def is_fp8(handle: Any) -> bool:
    """True for fp8 values. The result of a comparison keeps its operands' type and holds bools: not fp8."""
    return bool(handle.data.dtype == np.uint8) and handle.dtype.scalar.name in KNOWN


def misrounded(value: Array, handle: Any) -> int:
    """How many fp8 elements of ``handle`` are not the nearest to ``value`` (float64), as torch rounds.

    The stock interpreter (triton 3.9) halves a value whose significand carries into an odd exponent.
    """
    import torch

    kind, bits = getattr(torch, _OF_TORCH[handle.dtype.scalar.name]), np.ascontiguousarray(handle.data)
    nearest = torch.from_numpy(np.ascontiguousarray(value, np.float32)).to(kind).to(torch.float64)
    found = torch.from_numpy(bits).view(kind).to(torch.float64)
    return int((torch.isfinite(nearest) & (nearest != found)).sum())


def widen(handle: Any) -> Array:
    """What an fp8 handle holds, as float64."""
    values: Array = table(handle.dtype.scalar.name)[handle.data]
    return values
