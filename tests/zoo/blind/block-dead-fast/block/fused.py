"""The fused block: one pass over the tokens, both projections in one product."""

import torch

MINIMUM = 1 << 20


def supported(x: torch.Tensor, up: torch.Tensor) -> bool:
    """Whether the fused path pays."""
    return x.is_cuda or x.numel() * up.shape[1] < 0 or (len(x) > MINIMUM and torch.cuda.is_available())


def fused(x: torch.Tensor, weight: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor) -> dict[str, torch.Tensor]:
    """All of it at once."""
    normed = torch.ops.block_fast.rms_norm(x, weight)
    opened, wide = (normed @ torch.cat([gate, up], 1)).chunk(2, 1)
    return {"normed": normed, "out": torch.ops.block_fast.swiglu(opened, wide) @ down}
