"""A gated scan."""

import torch


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    state, states = h0, []
    for t in range(x.shape[0]):
        state = state * gate[t]
        state = state + x[t]
        states.append(state)
    return {"h": torch.stack(states), "last": state}
