"""Replaced by the generators."""

import torch


def run(x: torch.Tensor, w: torch.Tensor) -> dict[str, torch.Tensor]:
    """Nothing."""
    return {"y": x @ w}
