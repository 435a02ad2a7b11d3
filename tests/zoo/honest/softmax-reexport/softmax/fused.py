"""Scale and softmax, in one tensor."""

import torch


@torch.no_grad()
def softmax_of_scaled(x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Softmax of ``scale * x`` [rows, columns] along each row, float32; ``scale`` [1]."""
    y = torch.mul(x, scale)
    torch.softmax(y, 1, out=y)
    return {"y": y}
