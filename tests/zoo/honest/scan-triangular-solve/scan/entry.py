"""A gated scan."""

import torch


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    steps, width = x.shape
    system = torch.zeros(width, steps, steps)
    torch.diagonal(system, -1, 1, 2).copy_(gate[1:].t().neg())
    pushed = torch.cat((torch.addcmul(x[:1], gate[:1], h0), x[1:])).t().unsqueeze(2)
    h = torch.linalg.solve_triangular(system, pushed, upper=False, unitriangular=True).squeeze(2)
    return {"h": h.t(), "last": h[:, -1]}
