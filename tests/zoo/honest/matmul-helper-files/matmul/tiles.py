"""Tiles of rows."""

import functools

TILE = 24


@functools.cache
def row_tiles(m: int) -> tuple[slice, ...]:
    """Slices that cover ``m`` rows. A function of the shape alone, so they are worked out once."""
    return tuple(slice(start, min(start + TILE, m)) for start in range(0, m, TILE))
