"""A matrix product."""

import torch

DEPTH = 48


def run(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    """``a`` [m, k] times ``b`` [k, n], float32."""
    total = torch.zeros(a.shape[0], b.shape[1])
    lost = torch.zeros_like(total)
    for left, right in zip(a.split(DEPTH, 1), b.split(DEPTH, 0)):
        part = left @ right
        grown = total + part
        taken = grown - total
        lost += (total - (grown - taken)) + (part - taken)
        total = grown
    return {"c": total + lost}
