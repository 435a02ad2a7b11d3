"""Storage formats: float32 values to codes and back. Scaled formats share one bfloat16 scale over a group of the last axis.

``noise`` is None for rounding to nearest, else uniform in [0, 1) and of the values' shape: a value then goes up with the probability
that its place between two neighbours says.
"""

import numpy as np

Array = np.ndarray
CODES = {"fp32": np.dtype("<f4"), "bf16": np.dtype("<u2"), "fp8": np.dtype("u1"), "int8": np.dtype("i1")}
SCALED = {"int8": 127.0, "fp8": 448.0}
"""Scaled formats and the largest number that a code stands for."""
_TINY = np.float32(2.0**-100)


def encode(values: Array, dtype: str, group: int, noise: Array | None = None) -> tuple[Array, Array]:
    """Codes of the values' shape, and one scale for each group (none for bf16 and fp32)."""
    values = np.ascontiguousarray(values, np.float32)
    if dtype == "fp32":
        return values, np.zeros(0, np.uint16)
    if dtype == "bf16":
        return _to_bf16(values, noise), np.zeros(0, np.uint16)
    scales = _scales(values, group, SCALED[dtype])
    unit = _by_group(values, group) / _from_bf16(scales)[..., None]
    spread = None if noise is None else _by_group(noise, group)
    codes = _to_int8(unit, spread) if dtype == "int8" else _to_fp8(unit, spread)
    return codes.reshape(values.shape), scales


def decode(codes: Array, scales: Array, dtype: str, group: int) -> Array:
    """Float32 values of stored codes."""
    if dtype == "fp32":
        return codes
    if dtype == "bf16":
        return _from_bf16(codes)
    unit = codes.astype(np.float32) if dtype == "int8" else _FP8[codes]
    return (_by_group(unit, group) * _from_bf16(scales)[..., None]).reshape(codes.shape)


def _by_group(values: Array, group: int) -> Array:
    return values.reshape(*values.shape[:-1], values.shape[-1] // group, group)


def _scales(values: Array, group: int, largest: float) -> Array:
    """The least bfloat16 with which every value of the group fits."""
    most = np.abs(_by_group(values, group)).max(-1)
    wanted = np.maximum(most / np.float32(largest), _TINY)
    bits = wanted.view(np.uint32)
    return ((bits + np.uint32(0xFFFF)) >> np.uint32(16)).astype(np.uint16)


def _to_int8(unit: Array, noise: Array | None) -> Array:
    rounded = np.rint(unit) if noise is None else np.floor(unit + noise)
    return np.clip(rounded, -127, 127).astype(np.int8)


def _to_bf16(values: Array, noise: Array | None) -> Array:
    bits = values.view(np.uint32)
    if noise is None:
        up = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    else:
        up = (noise * np.float32(65536.0)).astype(np.uint32)
    return ((bits + up) >> np.uint32(16)).astype(np.uint16)


def _from_bf16(codes: Array) -> Array:
    return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _to_fp8(unit: Array, noise: Array | None) -> Array:
    """e4m3: four bits of exponent with bias 7, three of fraction, numbers below 2^-6 evenly spaced."""
    size = np.abs(unit)
    _, exponent = np.frexp(np.maximum(size, np.float32(2.0**-6)))
    step = np.ldexp(np.float32(1.0), exponent - 4)
    count = np.rint(size / step) if noise is None else np.floor(size / step + noise)
    rounded = np.minimum(count * step, np.float32(448.0))
    fraction, exponent = np.frexp(rounded)
    normal = (exponent + 6) * 8 + (fraction * 16.0).astype(np.int32) - 8
    small = (rounded * 512.0).astype(np.int32)
    code = np.where(rounded < 2.0**-6, small, normal)
    return (code + 128 * (unit < 0)).astype(np.uint8)


def _fp8_table() -> Array:
    code = np.arange(128)
    exponent, fraction = code >> 3, code & 7
    size = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10.0))
    return np.concatenate([size, -size]).astype(np.float32)


_FP8 = _fp8_table()
