"""What a name stands for: imports, aliases and the scopes that hide them."""

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_IMPORTERS = ("builtins.__import__", "importlib.import_module")


def text(node: ast.expr) -> str | None:
    """The string that an expression of constants makes; None for all else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text(node.left), text(node.right)
        return left + right if left is not None and right is not None else None
    return None


def within(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Nodes of a scope, those of scopes inside it left out but for the definitions themselves."""
    pending = list(body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, SCOPES):
            pending.extend(ast.iter_child_nodes(node))


def parameters(function: Function) -> list[ast.arg]:
    """All of them, in the order in which they can be given."""
    args = function.args
    extra = [arg for arg in (args.vararg, args.kwarg) if arg]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *extra]


@dataclass
class Scope:
    """Name -> what it was bound to: a dotted name of an import, the expression of its only assignment, or None when unknown."""

    bound: dict[str, str | ast.expr | None] = field(default_factory=dict)

    @classmethod
    def of(cls, node: ast.AST) -> "Scope":
        """The bindings that a module, class or function makes itself."""
        scope = cls()
        if isinstance(node, Function):
            for arg in parameters(node):
                scope.bound[arg.arg] = None
        body = node.body if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else []
        elsewhere: set[str] = set()
        for inner in within(body):
            if isinstance(inner, ast.Global | ast.Nonlocal):
                elsewhere.update(inner.names)
            scope._bind(inner)
        for name in elsewhere:
            scope.bound.pop(name, None)
        return scope

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.bound[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.bound[alias.asname or alias.name] = f"{'.' * node.level}{node.module or ''}.{alias.name}"
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if not isinstance(self.bound.get(name), str):  # an import with a substitute for when it fails stays an import
                self.bound[name] = None if name in self.bound else node.value
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.bound[node.name] = None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            self.bound.setdefault(node.id, None)


@dataclass
class Names:
    """The scopes around a place, outermost first."""

    scopes: list[Scope] = field(default_factory=list)

    def dotted(self, node: ast.expr, depth: int = 0) -> str | None:
        """``torch.Tensor.copy_`` for an expression that stands for that, ``builtins.open`` for ``open``; None when not known."""
        if depth > 20:  # an alias of itself
            return None
        if isinstance(node, ast.Name):
            return self._looked_up(node.id, depth)
        if isinstance(node, ast.NamedExpr):
            return self.dotted(node.value, depth + 1)
        if isinstance(node, ast.Attribute):
            whole = self.dotted(node.value, depth + 1)
            return f"{whole}.{node.attr}" if whole else None
        if isinstance(node, ast.Call):
            return self._called(node, depth + 1)
        if isinstance(node, ast.Subscript):
            return self._taken(node, depth + 1)
        return None

    def _looked_up(self, name: str, depth: int) -> str | None:
        for scope in reversed(self.scopes):
            if name in scope.bound:
                value = scope.bound[name]
                return self.dotted(value, depth + 1) if isinstance(value, ast.expr) else value
        return f"builtins.{name}" if hasattr(builtins, name) else None

    def _called(self, node: ast.Call, depth: int) -> str | None:
        """``getattr(x, "y")`` and imports by a constant name."""
        function = self.dotted(node.func, depth)
        if function in _IMPORTERS and node.args:
            return text(node.args[0])
        if function == "builtins.getattr" and len(node.args) > 1:
            whole, part = self.dotted(node.args[0], depth), text(node.args[1])
            return f"{whole}.{part}" if whole and part else None
        if function == "builtins.vars" and len(node.args) == 1:
            whole = self.dotted(node.args[0], depth)
            return f"{whole}.__dict__" if whole else None
        return None

    def _taken(self, node: ast.Subscript, depth: int) -> str | None:
        """``sys.modules["x"]`` and ``x.__dict__["y"]``."""
        whole, part = self.dotted(node.value, depth), text(node.slice)
        if not whole or part is None:
            return None
        if whole == "sys.modules":
            return part
        return f"{whole.removesuffix('.__dict__')}.{part}" if whole.endswith(".__dict__") else None
