"""A gated scan."""

import functools

import torch


@functools.lru_cache(maxsize=16)
def _buffers(steps: int, width: int) -> tuple[torch.Tensor, ...]:
    """Scratch of one shape, written before it is read in each call."""
    return tuple(torch.empty(steps, width) for _ in range(4))


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    h, spare, decay, spare_decay = _buffers(*x.shape)
    h.copy_(x)
    h[0].addcmul_(gate[0], h0)
    decay.copy_(gate)
    distance = 1
    while distance < len(x):
        spare[:distance] = h[:distance]
        torch.addcmul(h[distance:], decay[distance:], h[:-distance], out=spare[distance:])
        # Rows above ``distance`` are final: their decay is not read again.
        torch.mul(decay[distance:], decay[:-distance], out=spare_decay[distance:])
        spare_decay[:distance] = 0
        h, spare, decay, spare_decay = spare, h, spare_decay, decay
        distance *= 2
    return {"h": h.clone(), "last": h[-1].clone()}
