"""A gated scan."""

import numpy as np
import torch


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    h = torch.empty_like(x)
    state = h0.numpy()
    for row, pushed, kept in zip(h.numpy(), x.numpy(), gate.numpy()):
        np.multiply(kept, state, out=row)
        row += pushed
        state = row
    return {"h": h, "last": h[-1]}
