"""A gated scan."""

import torch

SHORT = 64


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    if len(x) <= SHORT:
        h = torch.empty_like(x)
        state = h0
        for t in range(len(x)):
            state = torch.addcmul(x[t], gate[t], state, out=h[t])
        return {"h": h, "last": h[-1].clone()}
    blocks, state = [], h0
    for pushed, decay in zip(x.split(SHORT), gate.split(SHORT)):
        h = torch.cat((torch.addcmul(pushed[:1], decay[:1], state), pushed[1:]))
        distance = 1
        while distance < len(h):
            grown = torch.addcmul(h[distance:], decay[distance:], h[:-distance])
            decay = torch.cat((decay[:distance], decay[distance:] * decay[:-distance]))
            h = torch.cat((h[:distance], grown))
            distance *= 2
        blocks.append(h)
        state = h[-1]
    return {"h": torch.cat(blocks), "last": state.clone()}
