"""Triton's CPU interpreter, repaired where it does not compute what a GPU computes.

The stock interpreter (triton 3.6 and 3.9) ignores ``input_precision``, multiplies the bit patterns of bf16 operands in
``tl.dot``, and truncates float32 -> bf16 where hardware rounds to nearest even. Here a plain tf32 dot drops the
low 13 bits of its operands, as an H200 does; tf32x3 splits them in two and adds three products; bf16x3 and
bf16x6 split into bf16 parts. Every dot is counted by source line and precision.

Needs TRITON_INTERPRET=1 before the first ``@triton.jit`` line runs.
"""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.runtime import interpreter as stock

Array = np.ndarray
_TRITON = triton.__path__[0]
_LOW_BITS = np.uint32(0xFFFFE000)


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


log = Log()


def source_line() -> tuple[str, int]:
    """File and line of the kernel code that is being interpreted: the innermost frame outside Triton and this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_TRITON, "/app/", "<")) and name != __file__:
            return name, frame.f_lineno
        frame = frame.f_back
    return "?", 0


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


def _sum_of_products(a: list[Array], b: list[Array], depth: int) -> Array:
    """Products of parts with i + j < depth, smallest first."""
    pairs = sorted(((i, j) for i in range(len(a)) for j in range(len(b)) if i + j < depth), key=lambda p: -(p[0] + p[1]))
    total = a[pairs[0][0]] @ b[pairs[0][1]]
    for i, j in pairs[1:]:
        total = total + a[i] @ b[j]
    return total


def multiply(a: Array, b: Array, precision: str) -> Array:
    """Float32 product of two float32 operands at ``precision``: ieee | tf32 | tf32x3 | bf16x3 | bf16x6."""
    if precision == "tf32":
        return truncate_tf32(a) @ truncate_tf32(b)
    if precision == "tf32x3":
        return _sum_of_products(_split(a, 2, round_tf32), _split(b, 2, round_tf32), 2)
    if precision in ("bf16x3", "bf16x6"):
        parts = 2 if precision == "bf16x3" else 3

        def narrow(x: Array) -> Array:
            return widen_bf16(round_bf16(x))

        return _sum_of_products(_split(a, parts, narrow), _split(b, parts, narrow), parts)
    if precision == "ieee":
        return a @ b
    raise ValueError(f"input_precision {precision!r} is not emulated")


def operand(handle: Any) -> Array:
    """The values a dot multiplies: bf16 bit patterns widened, other types as they are."""
    return widen_bf16(handle.data) if handle.dtype.scalar == tl.bfloat16 else handle.data


def dot(builder: Any, a: Any, b: Any, d: Any, input_precision: Any, imprecise: Any) -> Any:
    """Replaces InterpreterBuilder.create_dot. a [..., M, K], b [..., K, N], d [..., M, N]."""
    where = source_line()
    precision = log.promote.get(where) or str(input_precision).rsplit(".", 1)[-1].lower()
    log.dots[Dot(*where, precision, str(a.dtype.scalar))] += 1
    if a.dtype.scalar == tl.float32 and b.dtype.scalar == tl.float32:
        value = multiply(a.data, b.data, precision) + d.data
    elif tl.bfloat16 in (a.dtype.scalar, b.dtype.scalar):
        value = (operand(a) @ operand(b) + d.data).astype(d.data.dtype)
    else:
        return _stock_dot(builder, a, b, d, input_precision, imprecise)
    return stock.TensorHandle(value.astype(d.data.dtype, copy=False), d.dtype.scalar)


def cast(builder: Any, source: Any, target: Any) -> Any:
    """Replaces InterpreterBuilder.cast_impl: float32 -> bf16 rounds to nearest even."""
    if source.dtype.scalar == tl.float32 and target.scalar == tl.bfloat16:
        return stock.TensorHandle(round_bf16(source.data), tl.bfloat16)
    return _stock_cast(builder, source, target)


def cast_with_rounding(builder: Any, source: Any, target: Any, rounding_mode: Any) -> Any:
    """Replaces InterpreterBuilder.create_fp_to_fp; an explicit round-towards-zero stays what it is."""
    nearest = rounding_mode is None or str(rounding_mode).rsplit(".", 1)[-1].upper() == "RTNE"
    if nearest and source.dtype.scalar == tl.float32 and target.scalar == tl.bfloat16:
        return cast(builder, source, target)
    return _stock_cast_with_rounding(builder, source, target, rounding_mode)


_stock_dot = stock.InterpreterBuilder.create_dot
_stock_cast = stock.InterpreterBuilder.cast_impl
_stock_cast_with_rounding = stock.InterpreterBuilder.create_fp_to_fp


def install() -> None:
    """Repair the interpreter of this process; a second call changes nothing."""
    stock.InterpreterBuilder.create_dot = dot
    stock.InterpreterBuilder.cast_impl = cast
    stock.InterpreterBuilder.create_fp_to_fp = cast_with_rounding
    options = stock.interpreter_builder.options
    allowed = tuple(dict.fromkeys((*options.allowed_dot_input_precisions, "bf16x3", "bf16x6")))
    object.__setattr__(options, "allowed_dot_input_precisions", allowed)


def dots_by_line() -> list[dict[str, Any]]:
    """Every dot that ran: file, line, precision, operand type, count."""
    return [
        {"file": d.file, "line": d.line, "precision": d.precision, "operand": d.operand, "count": n}
        for d, n in sorted(log.dots.items(), key=lambda item: (item[0].file, item[0].line, item[0].precision))
    ]
