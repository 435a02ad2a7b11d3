"""Floors: the least time that the work of a case can take, from the task's own expressions. Pure."""

import ast
import math
import operator
from collections.abc import Callable, Mapping

from infra_agent.errors import UsageError
from infra_agent.frozen import one_line
from infra_agent.task.spec import PlatformName, Roofline

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
}  # fmt: skip


def evaluate(expression: str, numbers: Mapping[str, float]) -> float:
    """Value of an expression of names, numbers, + - * / // and brackets. Raises UsageError for anything else, and below 0."""
    shown = " ".join(expression.split())[:80]
    try:
        value = _value(ast.parse(expression, mode="eval").body, numbers)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError, MemoryError) as error:
        raise UsageError(f"[roofline] '{shown}': {one_line(error)[:300]}") from error
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f"[roofline] '{shown}' is {value}; a finite number of at least 0 is expected")
    return value


def _value(node: ast.expr, numbers: Mapping[str, float]) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        if node.id not in numbers:
            raise ValueError(f"'{node.id}' is no number of the case; there are: {', '.join(sorted(numbers))}")
        return float(numbers[node.id])
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return float(_OPERATORS[type(node.op)](_value(node.left, numbers), _value(node.right, numbers)))
    raise ValueError("only names, numbers, + - * / // and brackets are allowed")


def floor_s(roofline: Roofline, platform: PlatformName, numbers: Mapping[str, float]) -> float | None:
    """Seconds below which a case cannot be done here; None where no peak of this platform is stated."""
    peak = roofline.peaks.get(platform)
    if peak is None:
        return None
    return max(evaluate(roofline.bytes, numbers) / peak.bytes_per_s, evaluate(roofline.flops, numbers) / peak.flops_per_s)
