"""Softmax over rows."""

import torch

BLOCK = 1024


def run(x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Softmax of ``scale * x`` [rows, columns] along each row, float32; ``scale`` [1]."""
    y = torch.empty_like(x)
    highest = torch.full((x.shape[0], 1), -torch.inf)
    total = torch.zeros(x.shape[0], 1)
    maxima = []
    for source, target in zip(x.split(BLOCK, 1), y.split(BLOCK, 1)):
        torch.mul(source, scale, out=target)
        raised = torch.maximum(highest, target.amax(1, keepdim=True))
        target.sub_(raised).exp_()
        total = total * torch.exp(highest - raised) + target.sum(1, keepdim=True)
        highest = raised
        maxima.append(raised)
    for target, seen in zip(y.split(BLOCK, 1), maxima):
        target.mul_(torch.exp(seen - highest) / total)
    return {"y": y}
