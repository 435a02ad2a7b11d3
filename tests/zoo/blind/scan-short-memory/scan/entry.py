"""A gated scan."""

import torch


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    h, keep = x.clone(), gate.clone()
    h[0] += gate[0] * h0
    for shift in (1, 2, 4, 8, 16):  # doubling; older steps have been forgotten by then
        if shift >= len(h):
            break
        h[shift:] = h[shift:] + keep[shift:] * h[:-shift]
        keep[shift:] = keep[shift:] * keep[:-shift]
        keep[:shift] = 0
    return {"h": h, "last": h[-1].clone()}
