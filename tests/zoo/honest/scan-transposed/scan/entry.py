"""A gated scan."""

import torch


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    h = x.t().clone(memory_format=torch.contiguous_format)
    h[:, 0] += gate[0] * h0
    decay = gate.t().clone(memory_format=torch.contiguous_format)
    distance = 1
    while distance < h.shape[1]:
        later, earlier = slice(distance, None), slice(None, -distance)
        h[:, later] += decay[:, later] * h[:, earlier]
        decay[:, later] = decay[:, later] * decay[:, earlier]
        distance *= 2
    return {"h": h.t(), "last": h[:, -1]}
