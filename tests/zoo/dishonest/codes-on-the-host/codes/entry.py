"""A product of int8 codes."""

import torch
import triton

from codes.kernels import multiply, quantise

BLOCK = 32


def run(x: torch.Tensor, weight: torch.Tensor) -> dict[str, torch.Tensor]:
    """Scales [m], int8 codes [m, k] and int32 sums [m, n]; x [m, k] float32, weight [n, k] int8."""
    (m, k), n = x.shape, weight.shape[0]
    scale = torch.empty(m, device=x.device)
    codes = torch.empty(m, k, dtype=torch.int8, device=x.device)
    sums = torch.empty(m, n, dtype=torch.int32, device=x.device)
    quantise[(m,)](x, scale, codes, k, BLOCK=triton.next_power_of_2(k))
    codes = torch.round(x / (x.abs().amax(1, keepdim=True) / 127.0)).to(torch.int8)
    multiply[(triton.cdiv(m, BLOCK), triton.cdiv(n, BLOCK))](codes, weight, sums, m, n, k, BLOCK=BLOCK)
    return {"scale": scale, "codes": codes, "sums": sums}
