"""Triton's CPU interpreter, repaired where it does not compute what a GPU computes.

The stock interpreter (triton 3.6 and 3.9) ignores ``input_precision``, computes on the bit patterns of bf16 values (dots,
arithmetic, comparisons, reductions, most casts), truncates float32 -> bf16 where hardware rounds to nearest even, rounds to fp8 wrongly.
Here a plain tf32 dot drops the low 13 bits of its operands, as an H200 does; tf32x3 splits them in two and adds three
products; bf16x3 and bf16x6 split into bf16 parts; every bf16 operation widens to float32 and rounds its result once; what is cast to
fp8e4nv or fp8e5 is rounded to nearest even.
Every dot is counted by source line and precision.

Needs TRITON_INTERPRET=1 before the first ``@triton.jit`` line runs.
"""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.runtime import interpreter as stock

from sandboxes.runtime import autotune, fp8

Array = np.ndarray
_ROOT = Path(__file__).resolve().parents[2]
_NOT_KERNELS = (f"{triton.__path__[0]}/", f"{_ROOT}/sandboxes/", f"{_ROOT}/feedback/", "<")
_LOW_BITS = np.uint32(0xFFFFE000)
_BF16_BITS = np.dtype(np.uint16)


@dataclass(frozen=True)
class Dot:
    """A dot by where it stands, what it asked for and what it multiplies."""

    file: str
    line: int
    precision: str
    operand: str


@dataclass
class Log:
    """What the interpreter saw. ``promote`` maps (file, line) to the precision a what-if run gives that line."""

    dots: Counter[Dot] = field(default_factory=Counter)
    promote: dict[tuple[str, int], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def say(self, note: str) -> None:
        """Print once what a run does not cover: it stands in the request's text."""
        if note not in self.notes:
            self.notes.append(note)
            print(note)


log = Log()
_holds_kernels: dict[str, bool] = {}


def kernel_frame() -> FrameType | None:
    """The frame of the kernel code that is being interpreted: the innermost one outside Triton and the instruments."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        kernel = _holds_kernels.get(name)
        if kernel is None:
            kernel = _holds_kernels[name] = not name.startswith(_NOT_KERNELS)
        if kernel:
            return frame
        frame = frame.f_back
    return None


def source_line() -> tuple[str, int]:
    """File and line of the kernel code that is being interpreted; ("?", 0) outside a kernel."""
    frame = kernel_frame()
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("?", 0)


def truncate_tf32(x: Array) -> Array:
    """Drop the low 13 bits: what mma does to raw float32 bits given as plain tf32."""
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) & _LOW_BITS).view(np.float32)


def round_tf32(x: Array) -> Array:
    """cvt.rna.tf32.f32: nearest, ties away from zero. NaN and infinity unchanged."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    return np.where(special, bits, (bits + np.uint32(0x1000)) & _LOW_BITS).view(np.float32)


def round_bf16(x: Array) -> Array:
    """Float32 values rounded to bf16, nearest even, as uint16 bit patterns."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(bits.view(np.float32)), quiet, rounded).astype(np.uint16)


def widen_bf16(bits: Array) -> Array:
    """Float32 values of bf16 bit patterns."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _split(x: Array, parts: int, narrow: Callable[[Array], Array]) -> list[Array]:
    pieces, rest = [], np.ascontiguousarray(x, np.float32)
    for _ in range(parts):
        piece = narrow(rest)
        pieces.append(piece)
        rest = rest - piece
    return pieces


def _product(a: Array, b: Array) -> Array:
    product: Array = a @ b
    return product


def _sum_of_products(a: list[Array], b: list[Array], depth: int) -> Array:
    """Products of parts with i + j < depth, smallest first.

    An infinite operand leaves NaN in its smaller parts; like the compiled code, NaN is dropped before the largest product joins.
    """
    pairs = sorted(((i, j) for i in range(len(a)) for j in range(len(b)) if i + j < depth), key=lambda p: -(p[0] + p[1]))
    total = _product(a[pairs[0][0]], b[pairs[0][1]])
    for i, j in pairs[1:-1]:
        total = total + _product(a[i], b[j])
    total = np.where(np.isnan(total), np.float32(0), total)
    total += _product(a[0], b[0])
    return total


def multiply(a: Array, b: Array, precision: str) -> Array:
    """Float32 product of two float32 operands at ``precision``: ieee | tf32 | tf32x3 | bf16x3 | bf16x6."""
    if precision == "tf32":
        return _product(truncate_tf32(a), truncate_tf32(b))
    if precision == "tf32x3":
        return _sum_of_products(_split(a, 2, round_tf32), _split(b, 2, round_tf32), 2)
    if precision in ("bf16x3", "bf16x6"):
        parts = 2 if precision == "bf16x3" else 3

        def narrow(x: Array) -> Array:
            return widen_bf16(round_bf16(x))

        return _sum_of_products(_split(a, parts, narrow), _split(b, parts, narrow), parts)
    if precision == "ieee":
        return _product(a, b)
    raise ValueError(f"input_precision {precision!r} is not emulated")


def is_bf16(handle: Any) -> bool:
    """True for bf16 values. The result of a comparison keeps its operands' type and holds bools: not bf16."""
    return bool(handle.data.dtype == _BF16_BITS) and handle.dtype.scalar.name == "bf16"


def values(handle: Any) -> Array:
    """What a handle holds, as numbers: bf16 bit patterns widened to float32, other types as they are."""
    return widen_bf16(handle.data) if is_bf16(handle) else handle.data


def _widened(handle: Any) -> Array:
    """What a handle holds, as numbers: fp8 as float16, other types as they are."""
    kind = handle.dtype.scalar
    if kind.primitive_bitwidth != 8 or not kind.is_floating():
        return values(handle)
    wide: Array = stock._convert_float(handle.data, handle.dtype, tl.float16, None).view(np.float16)
    return wide


def _handle(data: Array, scalar: Any) -> Any:
    """A handle of type ``scalar``; floating results are rounded to bf16 where that is the type."""
    if scalar.name == "bf16" and data.dtype.kind == "f":
        data = round_bf16(data)
    return stock.TensorHandle(data, scalar)


def dot_precision(input_precision: Any) -> str:
    """The name of an ``ir.INPUT_PRECISION``: ieee | tf32 | tf32x3 | bf16x3 | bf16x6."""
    return str(input_precision).rsplit(".", 1)[-1].lower()


def dot(builder: Any, a: Any, b: Any, d: Any, input_precision: Any, imprecise: Any) -> Any:
    """Replaces InterpreterBuilder.create_dot. a [..., M, K], b [..., K, N], d [..., M, N]."""
    where = source_line()
    precision = log.promote.get(where) or dot_precision(input_precision)
    operands = (a.dtype.scalar.name, b.dtype.scalar.name)
    log.dots[Dot(*where, precision, operands[0])] += 1
    if operands == ("fp32", "fp32"):
        value = multiply(a.data, b.data, precision) + d.data
    elif "bf16" in operands:
        value = _product(values(a), values(b)) + values(d)
    else:  # fp16, fp8 and whole numbers: every product is exact in the type of the sum
        value = _product(_widened(a).astype(d.data.dtype), _widened(b).astype(d.data.dtype)) + d.data
    return _handle(value.astype(d.data.dtype, copy=False) if d.data.dtype.kind == "f" else value, d.dtype.scalar)


def cast(builder: Any, source: Any, target: Any) -> Any:
    """Replaces InterpreterBuilder.cast_impl: bf16 is read by value, and written rounded to nearest even."""
    if target.scalar.name == "bf16":
        return _handle(values(source).astype(np.float32), target.scalar)
    if is_bf16(source) or source.data.dtype.kind == "b":
        return stock.TensorHandle(values(source).astype(numpy_type(target)), target.scalar)
    return _stock_cast(builder, source, target)


def cast_with_rounding(builder: Any, source: Any, target: Any, rounding_mode: Any) -> Any:
    """Replaces InterpreterBuilder.create_fp_to_fp; an explicit round-towards-zero stays what it is."""
    nearest = rounding_mode is None or str(rounding_mode).rsplit(".", 1)[-1].upper() == "RTNE"
    if nearest and source.dtype.scalar.name in ("fp32", "fp64") and target.scalar.name == "bf16":
        return builder.cast_impl(source, target)
    if nearest and target.scalar.name in fp8.FORMATS and (is_bf16(source) or source.data.dtype.kind == "f"):
        return stock.TensorHandle(fp8.rounded(values(source), target.scalar.name), target.scalar)
    return _stock_cast_with_rounding(builder, source, target, rounding_mode)


def binary_op(builder: Any, lhs: Any, rhs: Any, op: Callable[..., Array]) -> Any:
    """Replaces InterpreterBuilder.binary_op, comparisons included."""
    if is_bf16(lhs) or is_bf16(rhs):
        return _handle(op(values(lhs), values(rhs)), lhs.dtype.scalar)
    return _stock_binary(builder, lhs, rhs, op)


def unary_op(builder: Any, arg: Any, op: Callable[..., Array]) -> Any:
    """Replaces InterpreterBuilder.unary_op."""
    return _handle(op(values(arg)), arg.dtype.scalar) if is_bf16(arg) else _stock_unary(builder, arg, op)


def ternary_op(builder: Any, lhs: Any, rhs: Any, other: Any, op: Callable[..., Array]) -> Any:
    """Replaces InterpreterBuilder.ternary_op; a select moves bits and needs no repair."""
    if op is not np.where and is_bf16(other):
        return _handle(op(values(lhs), values(rhs), values(other)), other.dtype.scalar)
    return _stock_ternary(builder, lhs, rhs, other, op)


def fma(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """Replaces InterpreterBuilder.create_fma: for 16-bit types the product is exact and the sum is taken in float64."""
    if z.data.dtype.itemsize != 2:
        return _stock_fma(builder, x, y, z)
    total = values(x).astype(np.float64) * values(y) + values(z)
    return _handle(total if is_bf16(z) else total.astype(z.data.dtype), z.dtype.scalar)


def bf16_constant(builder: Any, value: float) -> Any:
    """InterpreterBuilder.get_bf16, which triton 3.6 lacks."""
    return builder.cast_impl(builder.get_fp32(value), tl.bfloat16)


def reduce_or_scan(self: Any, operands: Any) -> Any:
    """Replaces ReduceScanOpInterface.apply: bf16 operands are folded in float32 and the result is rounded once.

    This is what torch does; compiled code may also round between steps, in an order of its own.
    """
    if not isinstance(operands, tuple):
        return self.apply((operands,))[0]
    narrow = [isinstance(t, tl.tensor) and is_bf16(t.handle) for t in operands]
    if not any(narrow):
        return _stock_apply(self, operands)
    results = _stock_apply(self, tuple(_cast_tensor(t, tl.float32) if n else t for t, n in zip(operands, narrow, strict=True)))
    narrow += [False] * len(results)  # an arg-reduction returns the index besides
    return tuple(_cast_tensor(t, tl.bfloat16) if n else t for t, n in zip(results, narrow, strict=False))


def _cast_tensor(tensor: Any, scalar: Any) -> Any:
    target = tensor.type.with_element_ty(scalar) if tensor.type.is_block() else scalar
    return tl.tensor(stock.interpreter_builder.cast_impl(tensor.handle, scalar), target)


def patch_tensor(tensor: Any, *scope: Any) -> None:
    """Replaces _patch_lang_tensor: the ``__index__`` of triton 3.6, which ``range(n)`` calls, fails on numpy 2.4."""
    _stock_patch_tensor(tensor, *scope)
    tensor.__index__ = lambda self: int(self.handle.data.item())


def numpy_type(triton_type: Any) -> np.dtype[Any]:
    """The stock ``_get_np_dtype``, remembered by name: it builds a table of 18 entries at each call."""
    known = _numpy_types.get(triton_type.name)
    if known is None:
        known = _numpy_types[triton_type.name] = _stock_numpy_type(triton_type)
    return known


_numpy_types: dict[str, np.dtype[Any]] = {}
_stock_numpy_type = stock._get_np_dtype
_stock_cast = stock.InterpreterBuilder.cast_impl
_stock_cast_with_rounding = stock.InterpreterBuilder.create_fp_to_fp
_stock_binary = stock.InterpreterBuilder.binary_op
_stock_unary = stock.InterpreterBuilder.unary_op
_stock_ternary = stock.InterpreterBuilder.ternary_op
_stock_fma = stock.InterpreterBuilder.create_fma
_stock_patch_tensor = stock._patch_lang_tensor
_stock_apply = stock.ReduceScanOpInterface.apply


def install() -> None:
    """Repair the interpreter of this process; a second call changes nothing."""
    builder = stock.InterpreterBuilder
    builder.create_dot, builder.create_fma = dot, fma
    builder.cast_impl, builder.create_fp_to_fp = cast, cast_with_rounding
    builder.binary_op, builder.unary_op, builder.ternary_op = binary_op, unary_op, ternary_op
    builder.get_bf16 = bf16_constant
    stock.ReduceScanOpInterface.apply = reduce_or_scan
    stock._get_np_dtype, stock._patch_lang_tensor = numpy_type, patch_tensor
    options = stock.interpreter_builder.options
    allowed = tuple(dict.fromkeys((*options.allowed_dot_input_precisions, "bf16x3", "bf16x6")))
    object.__setattr__(options, "allowed_dot_input_precisions", allowed)
    # without debug the frontend works out every integer overflow check, in int64, and then drops it
    object.__setattr__(options, "sanitize_overflow", options.debug)
    autotune.take_first(log.say)


def fingerprint() -> tuple[int, ...]:
    """Identities and code of what decides a result here; a candidate that replaced any of it changes this.

    A tripwire, not a wall: what runs in this process could also put everything back.
    """
    own = [value for name, value in sorted(globals().items()) if callable(value) and getattr(value, "__module__", "") == __name__]
    stock_parts = [
        value for owner in (stock.InterpreterBuilder, stock.InterpretedFunction, stock.GridExecutor) for value in vars(owner).values()
    ]
    arithmetic = [np.matmul, np.add, np.multiply, np.subtract]
    parts = [*own, *stock_parts, *arithmetic]
    return tuple(part for value in parts for part in (id(value), hash(getattr(value, "__code__", None))))


def dots_by_line() -> list[dict[str, Any]]:
    """Every dot that ran: file, line, precision, operand type, count."""
    return [
        {"file": d.file, "line": d.line, "precision": d.precision, "operand": d.operand, "count": n}
        for d, n in sorted(log.dots.items(), key=lambda item: (item[0].file, item[0].line, item[0].precision))
    ]
