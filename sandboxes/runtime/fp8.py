"""Rounding to 8-bit floating types as a GPU does: to nearest even, and to the largest value for more than that (PTX: cvt.rn.satfinite).

Triton's interpreter holds such values as bytes; its own conversion halves a value whose significand carries into an odd exponent.
"""

from functools import cache

import numpy as np

Array = np.ndarray
FORMATS = {"fp8e4nv": (3, 7, 0x7E), "fp8e5": (2, 15, 0x7B)}
"""Name in Triton -> bits of the significand, bias of the exponent, byte of the largest finite value."""
_NAN = 0x7F


@cache
def magnitudes(name: str) -> Array:
    """The finite values from 0 on, float64, by their byte."""
    bits, bias, last = FORMATS[name]
    code = np.arange(last + 1)
    exponent, fraction = code >> bits, code & ((1 << bits) - 1)
    normal = np.ldexp((fraction + (1 << bits)).astype(np.float64), exponent - bias - bits)
    return np.where(exponent == 0, np.ldexp(fraction.astype(np.float64), 1 - bias - bits), normal)


def rounded(value: Array, name: str) -> Array:
    """Bytes (uint8) of the nearest values of type ``name``; NaN stays NaN. Raises KeyError for a type that is not in FORMATS."""
    known, size = magnitudes(name), np.abs(np.asarray(value, np.float64))
    above = np.minimum(np.searchsorted(known, size), known.size - 1)
    below = np.maximum(above - 1, 0)
    down, up = size - known[below], known[above] - size
    nearest = np.where((down < up) | ((down == up) & (below % 2 == 0)), below, above)
    code = np.where(np.isnan(size), _NAN, nearest)
    return (code | np.where(np.signbit(value), 0x80, 0)).astype(np.uint8)
