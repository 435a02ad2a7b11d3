"""Wrap the interpreter's operations so that each also counts; :func:`install` says which are covered."""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from feedback.opcount.ledger import Ledger, is_constant

Array = np.ndarray
Method = Callable[..., Any]
Wrap = Callable[[Ledger, Method], Method]

_SPECIAL = frozenset((np.exp, np.exp2, np.log, np.log2, np.sqrt, np.sin, np.cos, np.divide, np.fmod))
_NO_ARITHMETIC = frozenset((np.where, np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal))
_NOT_COUNTED = ("dot_scaled", "atomic_cas", "atomic_poll", "histogram", "extern_elementwise", "inline_asm")


def _is_float(handle: Any) -> bool:
    """True for floating values, those of 8 bits included, which the interpreter keeps as integers."""
    return bool(handle.data.dtype.kind == "f") or (handle.dtype.scalar.is_floating() and handle.data.dtype.kind != "b")


def elementwise(ledger: Ledger, plain: Method) -> Method:
    """unary_op, binary_op, ternary_op: the last argument is the numpy function."""

    def method(builder: Any, *args: Any) -> Any:
        result, op = plain(builder, *args), args[-1]
        if op not in _NO_ARITHMETIC and _is_float(result):
            _count(ledger, op.__name__, op in _SPECIAL, args[:-1], result)
        return result

    return method


def _count(ledger: Ledger, name: str, special: bool, operands: tuple[Any, ...], result: Any) -> None:
    place, row = ledger.row(name)
    if not special:
        row.flops += result.data.size
        return
    row.special += result.data.size
    data = [operand.data for operand in operands]
    if not all(map(is_constant, data)) and ledger.again(place, name, *data):
        row.special_again += result.data.size


def special(name: str) -> Wrap:
    """Special functions that the builder works out by itself."""

    def wrap(ledger: Ledger, plain: Method) -> Method:
        def method(builder: Any, argument: Any) -> Any:
            result = plain(builder, argument)
            _count(ledger, name, True, (argument,), result)
            return result

        return method

    return wrap


def plainly(name: str, each: int) -> Wrap:
    """Operations of ``each`` floating-point operations an element."""

    def wrap(ledger: Ledger, plain: Method) -> Method:
        def method(builder: Any, *args: Any) -> Any:
            result = plain(builder, *args)
            if _is_float(result):
                ledger.row(name)[1].flops += each * result.data.size
            return result

        return method

    return wrap


def dot(ledger: Ledger, plain: Method) -> Method:
    """a [..., m, k] times b [..., k, n], plus d: 2 m n k, whatever the precision makes of it."""

    def method(builder: Any, a: Any, b: Any, *rest: Any) -> Any:
        result = plain(builder, a, b, *rest)
        place, row = ledger.row("dot")
        flops = 2 * result.data.size * a.data.shape[-1]
        row.flops += flops
        row.dot_flops += flops
        if not (is_constant(a.data) or is_constant(b.data)) and ledger.again(place, "dot", a.data, b.data):
            row.dot_again += flops
        return result

    return method


def _through(pointers: Any, mask: Any) -> Array:
    """Addresses that a mask lets through. Triton 3.6 passes a descriptor's mask as a bare array, whose ``data`` is a buffer."""
    chosen = np.broadcast_to(np.asarray(mask.data, dtype=bool), pointers.data.shape)
    addresses: Array = pointers.data[chosen] if not chosen.all() else pointers.data.reshape(-1)
    return addresses


def _size(pointers: Any) -> int:
    return max(1, int(pointers.get_element_ty().primitive_bitwidth) // 8)


def load(ledger: Ledger, plain: Method) -> Method:
    """Every load comes here, those of descriptors and blocks included."""

    def method(builder: Any, pointers: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        place, row = ledger.row("load")
        ledger.load(place, row, _through(pointers, mask), _size(pointers))
        return plain(builder, pointers, mask, *rest, **named)

    return method


def store(ledger: Ledger, plain: Method) -> Method:
    """Every store comes here."""

    def method(builder: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        ledger.store(ledger.row("store")[1], _through(pointers, mask), _size(pointers))
        return plain(builder, pointers, value, mask, *rest)

    return method


def atomic(ledger: Ledger, plain: Method) -> Method:
    """A read-modify-write loads and stores its elements; on floating values it is one operation each."""

    def method(builder: Any, operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        _, row = ledger.row("atomic")
        addresses = _through(pointers, mask)
        ledger.atomic(row, addresses, _size(pointers))
        row.flops += addresses.size if _is_float(value) else 0
        return plain(builder, operation, pointers, value, mask, *rest)

    return method


def not_counted(name: str) -> Wrap:
    """Operations that are only named."""

    def wrap(ledger: Ledger, plain: Method) -> Method:
        def method(builder: Any, *args: Any, **named: Any) -> Any:
            place, _ = ledger.row(name)
            ledger.not_covered.add(f"{name} on line {place.line}")
            return plain(builder, *args, **named)

        return method

    return wrap


def reduction(ledger: Ledger, plain: Method) -> Method:
    """ReduceOps.apply_impl: what numpy folds at once. Any other combine function runs element by element and counts itself."""

    def apply_impl(self: Any, operands: tuple[Any, ...]) -> Any:
        result = plain(self, operands)
        if id(self.combine_fn) in _FOLDED and _is_float(operands[0].handle):
            handle = (result[0] if isinstance(result, tuple | list) else result).handle
            ledger.row("reduce")[1].flops += operands[0].handle.data.size - handle.data.size
        return result

    return apply_impl


def scan(ledger: Ledger, plain: Method) -> Method:
    """ScanOps.apply_impl: cumsum and cumprod take one operation for each element but the first."""

    def apply_impl(self: Any, operands: tuple[Any, ...]) -> Any:
        result = plain(self, operands)
        if id(self.combine_fn) in _SCANNED and _is_float(operands[0].handle):
            data = operands[0].handle.data
            ledger.row("scan")[1].flops += data.size - data.size // data.shape[self.axis]
        return result

    return apply_impl


def program(ledger: Ledger, plain: Method) -> Method:
    """set_grid_idx: a program begins."""

    def method(builder: Any, *index: Any) -> Any:
        ledger.begin_program()
        return plain(builder, *index)

    return method


def launch(ledger: Ledger, plain: Method) -> Method:
    """GridExecutor.__call__: a launch from start to end."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        ledger.begin_launch(self.fn.__name__)
        try:
            return plain(self, *args, **kwargs)
        finally:
            ledger.end_launch()

    return call


def _combining(*names: str) -> frozenset[int]:
    """Identities of Triton's own combine functions; names that this version lacks are left out."""
    return frozenset(id(getattr(tl.standard, name)) for name in names if hasattr(tl.standard, name))


_ARG = tuple(f"_arg{which}_combine_tie_break_{tie}" for which in ("max", "min") for tie in ("left", "fast"))
_FOLDED = _combining("_sum_combine", "_elementwise_max", "_elementwise_min", *_ARG)
_SCANNED = _combining("_sum_combine", "_prod_combine")

_BUILDER: dict[str, Wrap] = {
    **dict.fromkeys(("unary_op", "binary_op", "ternary_op"), elementwise),
    "create_fma": plainly("fma", 2),
    "create_fabs": plainly("abs", 1),
    "create_erf": special("erf"),
    "create_rsqrt": special("rsqrt"),
    "create_dot": dot,
    "create_masked_load": load,
    "create_masked_store": store,
    "create_atomic_rmw": atomic,
    "set_grid_idx": program,
    **{f"create_{name}": not_counted(name) for name in _NOT_COUNTED},
}


class Counting:
    """The wrapped operations, while they are in place."""

    def __init__(self, places: list[tuple[Any, str, Method, Method]]) -> None:
        self._places = places
        for owner, name, _, wrapped in places:
            setattr(owner, name, wrapped)

    def intact(self) -> bool:
        """Is each still what counts? A tripwire, not a wall: what runs in this process could also put it back."""
        return all(getattr(owner, name) is wrapped for owner, name, _, wrapped in self._places)

    def undo(self) -> None:
        """Put the plain operations back."""
        for owner, name, plain, _ in self._places:
            setattr(owner, name, plain)


def install(ledger: Ledger) -> Counting:
    """Count into ``ledger`` from now on."""
    builder = stock.InterpreterBuilder
    wanted: list[tuple[Any, str, Wrap]] = [(builder, name, wrap) for name, wrap in _BUILDER.items() if hasattr(builder, name)]
    wanted += [(stock.ReduceOps, "apply_impl", reduction), (stock.ScanOps, "apply_impl", scan), (stock.GridExecutor, "__call__", launch)]
    return Counting([(owner, name, getattr(owner, name), wrap(ledger, getattr(owner, name))) for owner, name, wrap in wanted])
