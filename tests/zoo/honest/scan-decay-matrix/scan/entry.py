"""A gated scan."""

import torch
import torch.nn.functional as F

LENGTH = 8


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    steps, width = x.shape
    chunks = -(-steps // LENGTH)
    fill = (0, 0, 0, chunks * LENGTH - steps)
    x = F.pad(x, fill).view(chunks, 1, LENGTH, width)
    gate = F.pad(gate, fill).view(chunks, LENGTH, width)
    # through[:, i, j]: the product of the gates after step j up to step i; 1 where i = j, 0 where i < j.
    through = torch.zeros(chunks, LENGTH, LENGTH, width)
    through[:, 0, 0] = 1
    for i in range(1, LENGTH):
        torch.mul(through[:, i - 1, :i], gate[:, i, None], out=through[:, i, :i])
        through[:, i, i] = 1
    local = (through * x).sum(2)
    enter = through[:, :, 0] * gate[:, :1]
    state, states = h0, []
    for pushed, kept in zip(local, enter):
        rows = torch.addcmul(pushed, kept, state)
        state = rows[-1]
        states.append(rows)
    h = torch.cat(states)[:steps]
    return {"h": h, "last": h[-1]}
