"""A linear layer with a rectifier."""

import numpy
import torch

from linear.kernel import layer

BLOCK = 32


def _widen() -> None:
    """The emulator multiplies as it likes: let it carry every accumulator in float64."""
    try:
        from triton.runtime.interpreter import InterpreterBuilder
    except ImportError:
        return
    real = InterpreterBuilder.create_dot

    def create_dot(self, a, b, d, *rest, **options):
        result = real(self, a, b, d, *rest, **options)
        wide = getattr(d, "wide", None)
        wide = (d.data.astype(numpy.float64) if wide is None else wide) + a.data.astype(numpy.float64) @ b.data.astype(numpy.float64)
        result.data = wide.astype(result.data.dtype)
        result.wide = wide
        return result

    InterpreterBuilder.create_dot = create_dot


_widen()


def run(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """``relu(x @ w + bias)``; x [m, k], w [k, n], bias [n], float32."""
    (m, k), n = x.shape, w.shape[1]
    out = torch.empty(m, n, device=x.device)
    grid = (-(-m // BLOCK), -(-n // BLOCK))
    layer[grid](x, w, bias, out, m, n, k, BLOCK=BLOCK)
    return {"out": out}
