"""A matrix product."""

import torch


def _split(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """High 12 bits of every mantissa and the rest; the two add up to ``x`` exactly."""
    high = (x.contiguous().view(torch.int32) & -4096).view(torch.float32)
    return high, x - high


def run(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    """``a`` [m, k] times ``b`` [k, n], float32."""
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    left = torch.cat((a_low, a_high, a_high), 1)
    right = torch.cat((b_high, b_low, b_high), 0)
    return {"c": left @ right}
