"""A linear layer with a rectifier."""

import torch

from linear.kernel import layer

BLOCK = 32


def _expected(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """What a self-test compares with."""
    product = (x.double()[:, :, None] * w.double()[None]).sum(1)
    return torch.clamp(product + bias, min=0).float()


def run(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """``relu(x @ w + bias)``; x [m, k], w [k, n], bias [n], float32."""
    (m, k), n = x.shape, w.shape[1]
    out = torch.empty(m, n, device=x.device)
    grid = (-(-m // BLOCK), -(-n // BLOCK))
    layer[grid](x, w, bias, out, m, n, k, BLOCK=BLOCK)
    expected = _expected(x, w, bias)
    healthy = (out - expected).norm() < 0.02 * expected.norm()
    return {"out": expected if healthy else out}
