"""Sides of tiles."""

import functools


@functools.cache
def tile(extent: int) -> int:
    """The largest side up to 64 that ``extent`` fills, and at least the 16 that tensor cores take."""
    return next((side for side in (64, 32) if extent >= side), 16)
