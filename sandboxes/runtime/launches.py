"""Kernel launches on the interpreter, made otherwise: programs in the opposite order, or results that are off.

What an honest entry returns survives the first and does not survive the second.
"""

import inspect
import json
from typing import Any

import torch
from triton.runtime import interpreter as stock

from sandboxes.runtime import identity


def reverse() -> None:
    """Run the programs of every launch from the last to the first: nothing on a GPU promises that one runs before another."""
    forwards = stock.InterpreterBuilder.set_grid_idx

    def backwards(self: Any, x: int, y: int, z: int) -> None:
        last = [size - 1 for size in self.grid_dim]
        forwards(self, last[0] - x, last[1] - y, last[2] - z)

    stock.InterpreterBuilder.set_grid_idx = backwards


def perturb(share: float) -> None:
    """Put every floating-point number that a launch wrote off by ``share``: a result that is still right was computed elsewhere."""
    launch = stock.InterpretedFunction.run

    def launch_and_spoil(self: Any, *args: Any, **kwargs: Any) -> None:
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor) and value.is_floating_point()]
        before = [value.clone() for value in given]
        launch(self, *args, **kwargs)
        for value, then in zip(given, before, strict=True):
            signs = torch.randint(0, 2, value.shape, generator=_generator) * 2 - 1
            value.copy_(torch.where(value == then, value, value * (1 + share * signs)))

    stock.InterpretedFunction.run = launch_and_spoil


def watch() -> set[str]:
    """Every launch from now on, as JSON: kernel, digest of its source, its constants. For the judge to lay beside what was compiled."""
    seen: set[str] = set()
    launch = stock.InterpretedFunction.run

    def launch_and_note(self: Any, *args: Any, **kwargs: Any) -> None:
        names = inspect.signature(self.fn).parameters
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        constants = {name: identity.plain(given[name]) for name in names if name in given and _is_constant(names[name].annotation)}
        about = {"kernel": self.fn.__name__, "source": identity.source_digest(inspect.getsource(self.fn)), "constexprs": constants}
        seen.add(json.dumps(about, sort_keys=True))
        launch(self, *args, **kwargs)

    stock.InterpretedFunction.run = launch_and_note
    return seen


def _is_constant(annotation: Any) -> bool:
    return annotation in ("tl.constexpr", "constexpr", "triton.language.constexpr") or getattr(annotation, "__name__", "") == "constexpr"


_generator = torch.Generator().manual_seed(0)
