"""A gated scan."""

import torch


def _solve(h: torch.Tensor, gate: torch.Tensor) -> None:
    """Scan of ``h`` [steps, width] in place; ``gate[0]`` is not used."""
    steps = len(h)
    if steps == 1:
        return
    even = steps - steps % 2
    odd = h[1::2]
    odd.addcmul_(gate[1::2], h[0:even:2])
    _solve(odd, gate[1::2] * gate[0:even:2])
    h[2::2].addcmul_(gate[2::2], h[1 : steps - 1 : 2])


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    h = torch.cat((h0.unsqueeze(0), x))
    _solve(h, torch.cat((torch.zeros_like(h[:1]), gate)))
    return {"h": h[1:], "last": h[-1].clone()}
