"""Softmax over rows."""

import torch

# Rows of a tile: what is read twice is then still in the cache, and each tile takes less time.
ROWS = 8


def run(x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Softmax of ``scale * x`` [rows, columns] along each row, float32; ``scale`` [1]."""
    y = torch.empty_like(x)
    for source, target in zip(x.split(ROWS), y.split(ROWS)):
        torch.softmax(source * scale, 1, out=target)
    return {"y": y}
