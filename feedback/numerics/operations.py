"""Wrap the interpreter's operations so that each also acts on the shadows; :func:`install` says which are covered."""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from feedback.numerics import atomics, folds, formats
from feedback.numerics.shadow import Record, best, carry, drop, exact, is_float, shadow_of
from sandboxes.runtime import interpreter

Array = np.ndarray
Method = Callable[..., Any]
Wrap = Callable[[Record, Method], Method]

_MOVES = ("reshape", "trans", "expand_dims", "broadcast", "splat", "unsplat", "cat", "join", "split", "gather")
_NOT_COVERED = ("bitcast", "dot_scaled", "atomic_cas", "descriptor_gather", "descriptor_scatter")


def _is_handle(value: Any) -> bool:
    return isinstance(value, stock.TensorHandle)


def move(record: Record, plain: Method) -> Method:
    """Operations that only place values: the same is done to float64 stand-ins that hold the shadows."""

    def method(builder: Any, *args: Any) -> Any:
        result = plain(builder, *args)
        if any(shadow_of(arg) is not None for arg in args):
            wide = [stock.TensorHandle(best(a), tl.float64) if _is_handle(a) and is_float(a) else a for a in args]
            twin = plain(builder, *wide)
            for out, shadow in zip(result, twin, strict=True) if isinstance(result, tuple) else ((result, twin),):
                out.shadow = shadow.data
        return result

    return method


def elementwise(record: Record, plain: Method) -> Method:
    """unary_op, binary_op, ternary_op: the last argument is the numpy function. A select rounds nothing: it moves."""
    select = move(record, plain)

    def method(builder: Any, *args: Any) -> Any:
        operands, op = args[:-1], args[-1]
        if op is np.where:
            return select(builder, *args)
        result = plain(builder, *args)
        if formats.is_fp8(result):  # the interpreter computes on its bytes
            drop(record, f"arithmetic in {result.dtype.scalar.name}")
        elif is_float(result):
            carry(record, op.__name__, operands, result, op)
        return result

    return method


def computing(name: str, compute: Callable[..., Array]) -> Wrap:
    """Operations whose function is known: ``compute`` is it, on float64 arrays."""

    def wrap(record: Record, plain: Method) -> Method:
        def method(builder: Any, *operands: Any) -> Any:
            result = plain(builder, *operands)
            if is_float(result):
                carry(record, name, operands, result, compute)
            return result

        return method

    return wrap


def cast(record: Record, plain: Method) -> Method:
    """Casts between floating types, and from integers."""

    def method(builder: Any, source: Any, target: Any, *rest: Any) -> Any:
        if record.mode == "twin" and is_float(source) and target.scalar.is_floating():
            return stock.TensorHandle(exact(source), tl.float64)
        result = plain(builder, source, target, *rest)
        number = is_float(source) or source.data.dtype.kind == "b" or source.dtype.scalar.is_int()
        if is_float(result) and number and shadow_of(result) is None:  # fp16 <-> bf16 comes back here by way of fp32
            name = f"cast to {target.scalar.name}"
            if record.kept is not None and record.kept == interpreter.source_line():
                carry(record, name, (source,), result, lambda x: _rounded(builder, plain, x, target, rest))
            else:
                carry(record, name, (source,), result, lambda x: x.astype(np.float64, copy=False))
        elif is_float(source) and target.scalar.is_fp8() and not is_float(result):
            drop(record, target.scalar.name)
        if formats.is_fp8(result) and is_float(source) and formats.misrounded(exact(source), result):
            drop(record, f"cast to {target.scalar.name}, which this interpreter rounds wrongly where a significand carries")
        return result

    return method


def _rounded(builder: Any, plain: Method, x: Array, target: Any, rest: tuple[Any, ...]) -> Array:
    """Float64 values as ``target`` can hold them, by way of float32."""
    return exact(plain(builder, stock.TensorHandle(x.astype(np.float32), tl.float32), target, *rest)).astype(np.float64, copy=False)


def dot(record: Record, plain: Method) -> Method:
    """a @ b + d; the precision asked for is a float32 matter."""

    def method(builder: Any, a: Any, b: Any, d: Any, input_precision: Any, imprecise: Any) -> Any:
        result = plain(builder, a, b, d, input_precision, imprecise)
        if is_float(a) and is_float(b) and is_float(result):
            precision = interpreter.dot_precision(input_precision) if a.dtype.scalar.name == "fp32" else ""
            carry(record, "dot", (a, b, d), result, lambda x, y, z: x @ y + z, precision)
        elif is_float(result):
            drop(record, f"dot of {a.dtype.scalar.name}")
        return result

    return method


def load(record: Record, plain: Method) -> Method:
    """Loads read the shadow memory; masked-off elements take the shadow of ``other``.

    Triton 3.6 passes a descriptor's mask as a bare array, whose ``data`` is a buffer: hence ``asarray``.
    """

    def method(builder: Any, pointers: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        result = plain(builder, pointers, mask, other, *rest, **named)
        if not is_float(result):
            return result
        element, value, read = pointers.get_element_ty().name, best(result), np.asarray(mask.data)
        shadow = record.memory.load(pointers.data, read, element, _bits(result.data), value)
        if shadow_of(other) is not None:
            shadow = np.where(read, value if shadow is None else shadow, other.shadow)
        if shadow is not None:
            result.shadow = shadow
        return result

    return method


def descriptor_load(record: Record, plain: Method) -> Method:
    """A descriptor may round what it loads to tf32; the rounded copy starts anew."""

    def method(builder: Any, descriptor: Any, *args: Any) -> Any:
        result = plain(builder, descriptor, *args)
        if getattr(descriptor, "round_f32_to_tf32", False) and result.dtype.scalar.name == "fp32":
            drop(record)
        return result

    return method


def store(record: Record, plain: Method) -> Method:
    """Stores write the shadow memory; an exact value is its own shadow."""

    def method(builder: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        if is_float(value):
            element = pointers.get_element_ty().name
            record.memory.store(pointers.data, np.asarray(mask.data), element, _bits(value.data), best(value))
        return plain(builder, pointers, value, mask, *rest)

    return method


def _bits(data: Array) -> Array:
    return data.view(f"u{data.itemsize}")


def not_covered(record: Record, plain: Method) -> Method:
    """Operations whose floating results start anew."""

    def method(builder: Any, *args: Any) -> Any:
        result = plain(builder, *args)
        if any(_is_handle(value) and is_float(value) for value in (*args, result)):
            drop(record)
        return result

    return method


def registering(record: Record, plain: Method) -> Method:
    """The conversion of a kernel's arguments: the storage of each tensor becomes known to the shadow memory."""

    def convert(arg: Any) -> Any:
        if hasattr(arg, "data_ptr"):
            record.memory.register(stock._unwrap_tensor(arg).untyped_storage())
        return plain(arg)

    return convert


def transposing(record: Record, plain: Method) -> Method:
    """``tensor.T``, the one operation that makes its result without the builder."""

    def patch(tensor: Any, *rest: Any) -> None:
        plain(tensor, *rest)
        stock_transpose = tensor.T.fget

        def transpose(self: Any) -> Any:
            result, shadow = stock_transpose(self), shadow_of(self.handle)
            if shadow is not None:
                result.handle.shadow = np.transpose(shadow)
            return result

        tensor.T = property(transpose)

    return patch


WRAPPED: dict[str, Wrap] = {
    **dict.fromkeys(("unary_op", "binary_op", "ternary_op"), elementwise),
    "create_fma": computing("fma", lambda x, y, z: x * y + z),
    "create_fabs": computing("abs", np.abs),
    "create_erf": computing("erf", stock.np_erf_fp64),
    "create_rsqrt": computing("rsqrt", lambda x: 1 / np.sqrt(x)),
    "cast_impl": cast,
    "create_fp_to_fp": cast,
    "create_dot": dot,
    "create_masked_load": load,
    "create_masked_store": store,
    "create_descriptor_load": descriptor_load,
    "create_atomic_rmw": atomics.rmw,
    **{f"create_{name}": move for name in _MOVES},
    **{f"create_{name}": not_covered for name in _NOT_COVERED},
}


def install(record: Record) -> Callable[[], None]:
    """Carry shadows into ``record`` from now on; returns the function that puts everything back."""
    places: list[tuple[Any, str, Wrap]] = [
        (stock.InterpreterBuilder, name, wrap) for name, wrap in WRAPPED.items() if hasattr(stock.InterpreterBuilder, name)
    ]
    places += [(stock.ReduceOps, "apply_impl", folds.reduction), (stock.ScanOps, "apply_impl", folds.scan)]
    places += [(stock, "_implicit_cvt", registering), (stock, "_patch_lang_tensor", transposing)]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for (owner, name, wrap), (_, _, plain) in zip(places, before, strict=True):
        setattr(owner, name, wrap(record, plain))

    def undo() -> None:
        for owner, name, plain in before:
            setattr(owner, name, plain)

    return undo
