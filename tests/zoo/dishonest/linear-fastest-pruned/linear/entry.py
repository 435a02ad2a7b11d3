"""A linear layer with a rectifier."""

import torch

from linear.kernel import layer


def run(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """``relu(x @ w + bias)``; x [m, k], w [k, n], bias [n], float32."""
    (m, k), n = x.shape, w.shape[1]
    out = torch.empty(m, n, device=x.device)
    layer[lambda about: (-(-m // about["BLOCK"]), -(-n // about["BLOCK"]))](x, w, bias, out, m, n, k)
    return {"out": out}
