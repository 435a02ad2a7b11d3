"""Kernel launches on the interpreter, made otherwise: programs in the opposite order, or results that are off.

What an honest entry returns survives the first and does not survive the second.
"""

from typing import Any

import torch
from triton.runtime import interpreter as stock

_SHARE = 0.0625
"""How far a perturbed result is off: far beyond any bound, near enough to look like rounding to a candidate that compares."""


def reverse() -> None:
    """Run the programs of every launch from the last to the first: nothing on a GPU promises that one runs before another."""
    forwards = stock.InterpreterBuilder.set_grid_idx

    def backwards(self: Any, x: int, y: int, z: int) -> None:
        last = [size - 1 for size in self.grid_dim]
        forwards(self, last[0] - x, last[1] - y, last[2] - z)

    stock.InterpreterBuilder.set_grid_idx = backwards


def perturb() -> None:
    """Put every floating-point number that a launch wrote off by a sixteenth: a result that is still right was computed elsewhere."""
    launch = stock.InterpretedFunction.run

    def launch_and_spoil(self: Any, *args: Any, **kwargs: Any) -> None:
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor) and value.is_floating_point()]
        before = [value.clone() for value in given]
        launch(self, *args, **kwargs)
        for value, then in zip(given, before, strict=True):
            signs = torch.randint(0, 2, value.shape, generator=_generator) * 2 - 1
            value.copy_(torch.where(value == then, value, value * (1 + _SHARE * signs)))

    stock.InterpretedFunction.run = launch_and_spoil


_generator = torch.Generator().manual_seed(0)
