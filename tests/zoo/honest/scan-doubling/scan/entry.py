"""A gated scan."""

import torch


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    h = x.clone()
    h[0].addcmul_(gate[0], h0)
    decay = gate
    distance = 1
    while distance < len(x):
        h = torch.cat((h[:distance], torch.addcmul(h[distance:], decay[distance:], h[:-distance])))
        decay = torch.cat((decay[:distance], decay[distance:] * decay[:-distance]))
        distance *= 2
    return {"h": h, "last": h[-1].clone()}
