"""A gated scan."""

import numpy as np
import torch


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    h = np.empty(x.shape)
    state = h0.numpy().astype(np.float64)
    pushes, gates = x.numpy().astype(np.float64), gate.numpy().astype(np.float64)
    for row, pushed, kept in zip(h, pushes, gates):
        np.multiply(kept, state, out=row)
        np.add(row, pushed, out=row)
        state = row
    h = torch.from_numpy(h.astype(np.float32))
    return {"h": h, "last": h[-1].clone()}
