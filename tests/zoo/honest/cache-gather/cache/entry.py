"""A cache that is written in place."""

import torch


def run(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Write ``keys`` [n, width] times ``scale`` [1] into ``cache`` [slots, width] at ``slots`` [n], in place; norms [n] of the keys."""
    count = len(keys)
    # Row of each slot in the table below: its old row, unless a key goes there.
    source = torch.arange(count, count + len(cache))
    source[slots] = torch.arange(count)
    cache.copy_(torch.cat((keys * scale, cache)).index_select(0, source))
    return {"cache": cache, "norms": torch.linalg.vector_norm(keys, dim=1)}
