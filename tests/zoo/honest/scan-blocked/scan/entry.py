"""A gated scan."""

import torch
import torch.nn.functional as F

LENGTH = 16


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    steps, width = x.shape
    blocks = -(-steps // LENGTH)
    fill = (0, 0, 0, blocks * LENGTH - steps)
    h = F.pad(x, fill).view(blocks, LENGTH, width)
    if not fill[-1]:
        h = h.clone()
    gates = F.pad(gate, fill).view(blocks, LENGTH, width)
    rows = h.unbind(1)
    for row, before, kept in zip(rows[1:], rows, gates.unbind(1)[1:]):
        row.addcmul_(kept, before)
    decay = gates.cumprod(1)
    state, carried = h0, []
    for end, through in zip(rows[-1], decay[:, -1]):
        carried.append(state)
        state = torch.addcmul(end, through, state)
    h = h.addcmul_(decay, torch.stack(carried).unsqueeze(1)).view(-1, width)[:steps]
    return {"h": h, "last": h[-1].clone()}
