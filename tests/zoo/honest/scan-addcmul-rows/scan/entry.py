"""A gated scan."""

import torch


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    h = torch.empty_like(x)
    state = h0
    for row, pushed, kept in zip(h.unbind(), x.unbind(), gate.unbind()):
        state = torch.addcmul(pushed, kept, state, out=row)
    return {"h": h, "last": state.clone()}
