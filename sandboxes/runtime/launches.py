"""Kernel launches on the interpreter, made otherwise: programs in the opposite order, or results that are off.

What an honest entry returns survives the first and does not survive the second.
"""

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter as stock

from sandboxes.runtime import identity, interpreter


def reverse() -> None:
    """Run the programs of every launch from the last to the first: nothing on a GPU promises that one runs before another."""
    forwards = stock.InterpreterBuilder.set_grid_idx

    def backwards(self: Any, x: int, y: int, z: int) -> None:
        last = [size - 1 for size in self.grid_dim]
        forwards(self, last[0] - x, last[1] - y, last[2] - z)

    stock.InterpreterBuilder.set_grid_idx = backwards


def perturb(what: str, share: float) -> None:
    """Put off by ``share`` what ``kernels`` write or what dots multiply (``products``), or let ``integers`` of kernels change places.

    A result that is still right was made elsewhere.
    """
    if what == "products":
        _perturb_products(share)
    else:
        _perturb_written(what == "kernels", share)


def _perturb_products(share: float) -> None:
    product = interpreter._product

    def spoiled(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return product(a * (1 + share * _signs(a.shape)).astype(a.dtype) if a.dtype.kind == "f" else np.roll(a, 1, -1), b)

    interpreter._product = spoiled


def _perturb_written(floats: bool, share: float) -> None:
    launch = stock.InterpretedFunction.run

    def launch_and_spoil(self: Any, *args: Any, **kwargs: Any) -> None:
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor) and value.is_floating_point() == floats]
        before = [value.clone() for value in given]
        launch(self, *args, **kwargs)
        for value, then in zip(given, before, strict=True):
            if floats:
                value.copy_(torch.where(value == then, value, value * (1 + share * torch.from_numpy(_signs(value.shape)))))
            else:
                written = value != then
                value[written] = _moved(value[written])

    stock.InterpretedFunction.run = launch_and_spoil


def _moved(values: torch.Tensor) -> torch.Tensor:
    """Whole numbers in each other's places: what serves as an index stays one. Where all are alike, one step nearer to 0."""
    if (values != values[:1]).any():
        return values.roll(1)
    return ~values if values.dtype == torch.bool else values - values.sign()


@dataclass
class Launched:
    """Kernels that ran, as JSON: name, digest of the source, constants. For the judge to lay beside what was compiled."""

    kernels: set[str] = field(default_factory=set)
    intact: bool = True
    """The emulator was the same before and after each launch."""
    known: tuple[int, ...] = ()
    """What it was."""


def watch() -> Launched:
    """Note every launch from now on."""
    seen = Launched()
    launch = stock.InterpretedFunction.run

    def launch_and_note(self: Any, *args: Any, **kwargs: Any) -> None:
        names = inspect.signature(self.fn).parameters
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        constants = {name: identity.plain(given[name]) for name in names if name in given and _is_constant(names[name].annotation)}
        about = {"kernel": self.fn.__name__, "source": identity.source_digest(inspect.getsource(self.fn)), "constexprs": constants}
        seen.kernels.add(json.dumps(about, sort_keys=True))
        before = interpreter.fingerprint()
        launch(self, *args, **kwargs)
        seen.intact = seen.intact and before == interpreter.fingerprint() == seen.known

    stock.InterpretedFunction.run = launch_and_note
    seen.known = interpreter.fingerprint()
    return seen


def _is_constant(annotation: Any) -> bool:
    return annotation in ("tl.constexpr", "constexpr", "triton.language.constexpr") or getattr(annotation, "__name__", "") == "constexpr"


def _signs(shape: Sequence[int]) -> np.ndarray:
    return _rng.integers(0, 2, shape) * 2 - 1


_rng = np.random.default_rng(0)
