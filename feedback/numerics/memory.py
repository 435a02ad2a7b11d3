"""Float64 shadows of what kernels stored, by address, so that error history survives from launch to launch."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from feedback.numerics import formats

Array = np.ndarray

_BYTES = {**dict.fromkeys(formats.KNOWN, 1), "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8}
_OF_NUMPY = {"float16": "fp16", "float32": "fp32", "float64": "fp64"}


@dataclass
class Cells:
    """The bit patterns last stored and their shadows. Both start at zero, which is a true pair: bits 0 are the value 0."""

    bits: Array
    shadow: Array


@dataclass
class Region:
    """One storage, bytes ``start`` up to ``stop``; holding it keeps the allocator from giving its addresses to another."""

    start: int
    stop: int
    storage: Any = field(repr=False)
    cells: dict[str, Cells] = field(default_factory=dict)

    def make_cells(self, element: str) -> Cells:
        """The cells for one element type, made at the first store."""
        if element not in self.cells:
            size = _BYTES[element]
            count = -(-(self.stop - self.start) // size)
            self.cells[element] = Cells(np.zeros(count, f"u{size}"), np.zeros(count))
        return self.cells[element]

    def index(self, addresses: Array, element: str) -> Array:
        """Cell numbers of byte addresses (uint64)."""
        shift = np.uint64(_BYTES[element].bit_length() - 1)
        return ((addresses - np.uint64(self.start)) >> shift).view(np.int64)


class Memory:
    """A cell counts only while memory still holds the bits that were stored with it: host code may write in between."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._regions: list[Region] = []

    def register(self, storage: Any) -> None:
        """Make a torch storage known; one that lies in a known storage shares its cells."""
        start = storage.data_ptr()
        stop = start + storage.nbytes()
        known = self._at(start)
        if start == stop or (known is not None and stop <= known.stop):
            return
        apart = [r for r in self._regions if r.stop <= start or r.start >= stop]
        self._regions = sorted([*apart, Region(start, stop, storage)], key=lambda r: r.start)
        self._starts = [r.start for r in self._regions]

    def store(self, addresses: Array, mask: Array, element: str, bits: Array, shadow: Array) -> None:
        """Remember what a kernel stores. ``bits`` and ``shadow`` have the shape of ``addresses`` or broadcast to it."""
        if element not in _BYTES:
            return
        for region, chosen in self._touched(addresses, mask):
            cells = region.make_cells(element)
            index = region.index(addresses[chosen], element)
            cells.bits[index] = np.broadcast_to(bits, addresses.shape)[chosen]
            cells.shadow[index] = np.broadcast_to(shadow, addresses.shape)[chosen]

    def load(self, addresses: Array, mask: Array, element: str, bits: Array, actual: Array) -> Array | None:
        """Shadows of what a kernel loaded, ``actual`` where there is none; None when no cell can matter."""
        found = None
        for region, chosen in self._touched(addresses, mask):
            cells = region.cells.get(element)
            if cells is None:
                continue
            index = region.index(addresses[chosen], element)
            fresh = cells.bits[index] == bits[chosen]
            found = actual.copy() if found is None else found
            found[chosen] = np.where(fresh, cells.shadow[index], actual[chosen])
        return found

    def read(self, array: Array) -> Array | None:
        """Shadow of a numpy array that shares memory with a torch tensor; None when no kernel stored any of it."""
        element = _OF_NUMPY.get(array.dtype.name)
        if element is None or array.size == 0:
            return None
        addresses = np.full(array.shape, array.__array_interface__["data"][0], np.uint64)
        for axis, (size, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
            steps = np.arange(size, dtype=np.int64) * stride
            addresses += steps.view(np.uint64).reshape(-1, *[1] * (array.ndim - axis - 1))
        everywhere = np.ones(array.shape, bool)
        return self.load(addresses, everywhere, element, array.view(f"u{array.itemsize}"), array.astype(np.float64))

    def _at(self, address: int) -> Region | None:
        """The region that holds an address."""
        place = bisect_right(self._starts, address) - 1
        region = self._regions[place] if place >= 0 else None
        return region if region is not None and address < region.stop else None

    def _touched(self, addresses: Array, mask: Array) -> Iterator[tuple[Region, Any]]:
        """Regions that the masked addresses fall into, each with the selection that does."""
        whole = bool(mask.all())
        used = addresses if whole else addresses[mask]
        if used.size == 0:
            return
        low, high = int(used.min()), int(used.max())
        region = self._at(low)
        if region is not None and high < region.stop:
            yield region, (... if whole else mask)
            return
        for region in self._regions:
            if region.start <= high and region.stop > low:
                yield region, mask & (addresses >= np.uint64(region.start)) & (addresses < np.uint64(region.stop))
