"""A matrix product."""

import torch
import torch.nn.functional as F

ROWS = 16


def run(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    """``a`` [m, k] times ``b`` [k, n], float32."""
    m, k = a.shape
    batches = -(-m // ROWS)
    padded = F.pad(a, (0, 0, 0, batches * ROWS - m)).view(batches, ROWS, k)
    return {"c": torch.bmm(padded, b.expand(batches, -1, -1)).view(batches * ROWS, -1)[:m]}
