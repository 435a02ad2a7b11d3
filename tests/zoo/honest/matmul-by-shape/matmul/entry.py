"""A matrix product."""

import torch


def run(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    """``a`` [m, k] times ``b`` [k, n], float32."""
    if a.shape[0] == 1:
        return {"c": torch.mv(b.t(), a[0]).unsqueeze(0)}
    if a.shape[1] > 512:
        return {"c": (a.double() @ b.double()).float()}
    return {"c": torch.nn.functional.linear(a, b.t())}
