"""The caches of one request. Token caches grow by a row each step; state caches are rewritten every step."""

from collections.abc import Iterable

import numpy as np

from hybrid import formats
from hybrid.policy import Policy

Array = np.ndarray
_STREAMS = {"kv": 0, "index": 1, "conv": 2, "ssm": 3}


def noise(request: int, step: int, name: str, shape: tuple[int, ...]) -> Array:
    """Uniform in [0, 1), float32: the same for the same request, step and class, wherever the request runs."""
    bits = np.random.SFC64(np.random.SeedSequence([request, step, _STREAMS[name]]))
    return np.random.Generator(bits).random(shape, np.float32)


class Plane:
    """Codes and scales of values [rows, ...] in one format."""

    def __init__(self, dtype: str, group: int, shape: tuple[int, ...]) -> None:
        self.dtype, self.group = dtype, group
        self.codes = np.zeros((0, *shape), formats.CODES[dtype])
        scales = (*shape[:-1], shape[-1] // group) if dtype in formats.SCALED else (0,)
        self.scales = np.zeros((0, *scales), np.uint16)

    def encode(self, values: Array, spread: Array | None = None) -> tuple[Array, Array]:
        """Codes and scales for ``values`` [n, ...], not stored yet."""
        codes, scales = formats.encode(values, self.dtype, self.group, spread)
        return codes, scales if self.dtype in formats.SCALED else scales.reshape(0, 0)

    def decode(self, rows: slice | Array = slice(None)) -> Array:
        """Float32 values of some rows."""
        scales = self.scales[rows] if self.dtype in formats.SCALED else self.scales
        return formats.decode(self.codes[rows], scales, self.dtype, self.group)

    def pack(self) -> Iterable[bytes]:
        """The bytes that are stored."""
        return self.codes.tobytes(), self.scales.tobytes()

    def unpack(self, data: bytes, rows: int) -> bytes:
        """Take ``rows`` rows from the front of ``data``; returns the rest."""
        parts = []
        for held in (self.codes, self.scales):
            count = rows * int(np.prod(held.shape[1:]))
            parts.append(np.frombuffer(data, held.dtype, count).reshape(rows, *held.shape[1:]))
            data = data[count * held.itemsize :]
        self.codes, self.scales = parts
        return data


class Cache:
    """One class: its values, and what rounding left over where the policy feeds it back."""

    def __init__(self, name: str, policy: Policy, shape: tuple[int, ...]) -> None:
        self.name, self.policy, self.shape = name, policy, shape
        self._values = Plane(policy.dtype, policy.group, shape)
        self._residual = Plane("int8", policy.group, shape) if policy.rounding == "feedback" else None

    def read(self, rows: slice | Array = slice(None)) -> Array:
        """Float32 [rows, ...]: what is stored."""
        return self._values.decode(rows)

    def append(self, row: Array, request: int, step: int) -> None:
        """Add one row; what is there is not touched."""
        self._put(row[None], request, step, keep=True)

    def write(self, values: Array, request: int, step: int) -> None:
        """Store a state in place of the one that is there."""
        self._put(values[None], request, step, keep=False)

    def _put(self, values: Array, request: int, step: int, keep: bool) -> None:
        wanted = values
        if self._residual is not None and not keep and len(self._residual.codes):
            wanted = values + self._residual.decode()
        spread = noise(request, step, self.name, wanted.shape) if self.policy.rounding == "stochastic" else None
        self._store(self._values, *self._values.encode(wanted, spread), keep)
        if self._residual is not None:
            self._store(self._residual, *self._residual.encode(wanted - self._values.decode(slice(-1, None))), keep)

    @staticmethod
    def _store(plane: Plane, codes: Array, scales: Array, keep: bool) -> None:
        plane.codes = np.concatenate([plane.codes, codes]) if keep else codes
        if plane.dtype in formats.SCALED:
            plane.scales = np.concatenate([plane.scales, scales]) if keep else scales

    def pack(self) -> bytes:
        """The cache as bytes: all that is left of it when the request moves."""
        planes = [self._values] if self._residual is None else [self._values, self._residual]
        return b"".join(part for plane in planes for part in plane.pack())

    def unpack(self, data: bytes, rows: int) -> None:
        """The cache from its bytes."""
        data = self._values.unpack(data, rows)
        if self._residual is not None:
            data = self._residual.unpack(data, rows)
        if data:
            raise ValueError(f"{self.name}: {len(data)} bytes too many in its image")
