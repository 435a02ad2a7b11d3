"""A matrix product."""

import torch

_outputs: dict[tuple[int, int], torch.Tensor] = {}


def run(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    """``a`` [m, k] times ``b`` [k, n], float32."""
    shape = (a.shape[0], b.shape[1])
    if shape not in _outputs:
        _outputs[shape] = torch.empty(shape)
    return {"c": torch.mm(a, b, out=_outputs[shape])}
