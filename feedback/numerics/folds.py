"""Reductions and scans: Triton's own are numpy functions of the shadow, any other is run again in float64.

A combine function that the kernel brings along is Python: the interpreter calls it once an element. Run on float64 stand-ins that
hold the shadows, with casts between floating types left out, it says what the result would be in float64. Branches inside of it
follow the float64 values there, not those of the run.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from feedback.numerics.shadow import Record, best, carry, drop, exact, is_float, note, shadow_of

Array = np.ndarray
Method = Callable[..., Any]


def reduction(record: Record, plain: Method) -> Method:
    """ReduceOps.apply_impl: an arg-reduction's index follows the actual values."""

    def apply_impl(self: Any, operands: tuple[Any, ...]) -> Any:
        found = _reductions.get(id(self.combine_fn))
        if found is None:
            return _any(record, plain, self, operands, "reduce")
        result = plain(self, operands)
        if is_float(operands[0].handle):
            name, op = found
            handle = (result[0] if isinstance(result, tuple | list) else result).handle
            shape = handle.data.shape
            carry(record, name, (operands[0].handle,), handle, lambda x: _fold(op, x, self.axis, shape))
        return result

    return apply_impl


def _fold(op: Callable[..., Any], x: Array, axis: int | None, shape: tuple[int, ...]) -> Array:
    return np.asarray(op(x, axis=axis)).reshape(shape)


def scan(record: Record, plain: Method) -> Method:
    """ScanOps.apply_impl, either direction."""

    def apply_impl(self: Any, operands: tuple[Any, ...]) -> Any:
        found = _scans.get(id(self.combine_fn))
        if found is None:
            return _any(record, plain, self, operands, "associative_scan")
        result = plain(self, operands)
        if is_float(operands[0].handle):
            name, op = found
            carry(record, name, (operands[0].handle,), result[0].handle, lambda x: _run(op, x, self.axis, self.reverse))
        return result

    return apply_impl


def _run(op: Callable[..., Array], x: Array, axis: int, reverse: bool) -> Array:
    return np.flip(op(np.flip(x, axis), axis=axis), axis) if reverse else op(x, axis=axis)


def _any(record: Record, plain: Method, self: Any, operands: tuple[Any, ...], name: str) -> Any:
    """A fold by the kernel's own combine function: the run itself, then the same in float64 on what it was given, and on the shadows."""
    with record.within("quiet"):
        result = plain(self, operands)
    handles = [operand.handle for operand in operands]
    outs = [tensor.handle for tensor in (result if isinstance(result, tuple | list) else (result,))]
    if not any(is_float(out) for out in outs):
        return result
    try:
        local = _wide(record, plain, self, operands, [exact(h) for h in handles])
        history = any(shadow_of(h) is not None for h in handles)
        truth = _wide(record, plain, self, operands, [best(h) for h in handles]) if history else local
    except (ValueError, TypeError):  # its own casts mix float64 with a narrower type: nothing is made up for it
        drop(record, f"{name} by a function with casts")
        return result
    for out, near, far in zip(outs, local, truth, strict=True):
        if is_float(out):
            out.shadow = far.reshape(out.data.shape)
            note(record, name, handles[0].dtype.scalar.name, exact(out), near.reshape(out.data.shape), out.shadow)
    return result


def _wide(record: Record, plain: Method, self: Any, operands: tuple[Any, ...], values: list[Array]) -> list[Array]:
    """Results of the fold on float64 stand-ins; integers stay what they are."""
    stand_ins = []
    for operand, value in zip(operands, values, strict=True):
        if is_float(operand.handle):
            kind = operand.type.with_element_ty(tl.float64) if operand.type.is_block() else tl.float64
            operand = tl.tensor(stock.TensorHandle(np.ascontiguousarray(value, np.float64), tl.float64), kind)
        stand_ins.append(operand)
    with record.within("twin"):
        result = plain(self, tuple(stand_ins))
    return [tensor.handle.data for tensor in (result if isinstance(result, tuple | list) else (result,))]


def _combining(*names: str) -> list[int]:
    """Identities of Triton's own combine functions; names that this version lacks are left out."""
    return [id(getattr(tl.standard, name)) for name in names if hasattr(tl.standard, name)]


_MAX = _combining("_elementwise_max", "_argmax_combine_tie_break_left", "_argmax_combine_tie_break_fast")
_MIN = _combining("_elementwise_min", "_argmin_combine_tie_break_left", "_argmin_combine_tie_break_fast")
_SUM, _PRODUCT = _combining("_sum_combine"), _combining("_prod_combine")
_reductions: dict[int, tuple[str, Callable[..., Any]]] = {
    **dict.fromkeys(_SUM, ("sum", np.sum)),
    **dict.fromkeys(_MAX, ("max", np.nanmax)),
    **dict.fromkeys(_MIN, ("min", np.nanmin)),
}
_scans: dict[int, tuple[str, Callable[..., Array]]] = {
    **dict.fromkeys(_SUM, ("cumsum", np.cumsum)),
    **dict.fromkeys(_PRODUCT, ("cumprod", np.cumprod)),
}
