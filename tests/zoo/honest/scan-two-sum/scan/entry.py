"""A gated scan."""

import numpy as np
import torch


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    h = np.empty_like(x.numpy())
    state, lost = h0.numpy(), np.zeros_like(h0.numpy())
    for row, pushed, kept in zip(h, x.numpy(), gate.numpy()):
        shrunk = kept * state
        total = shrunk + pushed
        taken = total - shrunk
        lost = kept * lost + ((shrunk - (total - taken)) + (pushed - taken))
        np.add(total, lost, out=row)
        state = total
    h = torch.from_numpy(h)
    return {"h": h, "last": h[-1].clone()}
