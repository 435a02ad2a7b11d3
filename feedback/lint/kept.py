"""What outlives a call: results and caches in module-level state, by a small analysis of what was computed from the inputs.

*Tainted* is what may depend on the contents of a tensor argument; shapes, types, sizes and addresses are not contents. The analysis
goes through calls of functions of the same module, not through objects, and does not ask in which order statements run.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from feedback.lint.names import Names, Scope, parameters, within
from feedback.lint.scan import Hit

Definition = ast.FunctionDef | ast.AsyncFunctionDef
_ABOUT = frozenset("shape dtype device ndim itemsize nbytes strides is_cuda layout requires_grad".split())
_ASKING = frozenset("size stride numel dim data_ptr element_size is_contiguous get_device type nelement storage_offset".split())
_CLEAN = frozenset("len id type isinstance hasattr range print repr".split())
_MAKERS = frozenset("empty_like zeros_like ones_like empty zeros ones new_empty new_zeros".split())
_TENSOR_ONLY = frozenset("shape dtype device stride numel data_ptr contiguous element_size copy_ detach is_contiguous".split())
_ANNOTATIONS = ("Tensor", "ndarray")
_KEEPERS = frozenset("append appendleft add update setdefault insert extend put put_nowait push __setitem__".split())
_POINTERS = frozenset("data_ptr untyped_storage __array_interface__ __cuda_array_interface__ ctypes".split())
_CACHES = ("functools.cache", "functools.lru_cache")
_SAID = {
    "cache_by_pointer": "an address, which other contents will have later",
    "cache_by_shape": "a shape; what it holds is not computed from contents, as far as can be seen",
}


@dataclass(eq=False)
class _Function:
    """A function, and which of its parameters and local names may hold contents of tensors."""

    node: Definition
    tainted: set[str] = field(default_factory=set)
    values: dict[str, list[ast.expr]] = field(default_factory=dict)
    """Local name -> expressions that were assigned to it."""
    filled: dict[str, list[ast.expr]] = field(default_factory=dict)
    """Name -> expressions that were assigned to a part of it."""

    def __post_init__(self) -> None:
        self.nodes = list(within(self.node.body))
        self.kept = _defaults(self.node)
        self.globals = {name for inner in self.nodes if isinstance(inner, ast.Global) for name in inner.names}


def root(node: ast.expr) -> str | None:
    """``x`` of ``x[0].y``."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


class Kept:
    """One module. ``entry``: the name of the callable that the judge calls, if it is in this module: its arguments are tensors."""

    def __init__(self, module: ast.Module, entry: str | None) -> None:
        self._scope = Scope.of(module)
        self._names = Names([self._scope])
        self._functions = {node.name: _Function(node) for node in ast.walk(module) if isinstance(node, Definition)}
        for function in self._functions.values():
            self._begin(function, function.node.name == entry)
        self._settle()

    def read(self) -> list[Hit]:
        """All hits, in no order."""
        return [hit for function in self._functions.values() for hit in [*self._decorated(function), *self._stores(function)]]

    def _begin(self, function: _Function, is_entry: bool) -> None:
        for arg in parameters(function.node):
            declared = ast.unparse(arg.annotation) if arg.annotation else ""
            if is_entry or declared.endswith(_ANNOTATIONS) or _used_as_tensor(function, arg.arg):
                function.tainted.add(arg.arg)
        function.tainted -= {"self", "cls", *function.kept}
        for node in function.nodes:
            if isinstance(node, ast.Assign):
                for name, whole in (found for target in node.targets for found in _stored_names(target)):
                    (function.values if whole else function.filled).setdefault(name, []).append(node.value)
            elif isinstance(node, ast.AugAssign | ast.NamedExpr | ast.For) and isinstance(node.target, ast.Name):
                value = node.iter if isinstance(node, ast.For) else node.value
                function.values.setdefault(node.target.id, []).append(value)

    def _settle(self) -> None:
        """Pass over what may have changed until nothing does."""
        pending = list(self._functions.values())
        while pending:
            function = pending.pop()
            before, called = len(function.tainted), self._spread(function)
            pending += [function] if len(function.tainted) > before else []
            pending += [callee for callee in called if callee not in pending]

    def _spread(self, function: _Function) -> list[_Function]:
        """One pass over a function; which of those that it calls were given more."""
        called = []
        for name, values in [*function.values.items(), *function.filled.items()]:
            if any(self._contents(value, function) for value in values):
                function.tainted.add(name)
        for node in function.nodes:
            if isinstance(node, ast.Call):
                called += self._call(node, function)
        function.tainted -= function.kept
        return called

    def _call(self, node: ast.Call, function: _Function) -> list[_Function]:
        """A call may write into any tensor that it is given, and hands what it is given to the function called."""
        flags = [self._contents(arg, function) for arg in node.args]
        callee = self._functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if callee:
            given = {arg.arg for arg, flag in zip(parameters(callee.node), flags, strict=False) if flag} - callee.kept - callee.tainted
            callee.tainted |= given
            return [callee] if given else []
        if any(flags) and (isinstance(node.func, ast.Subscript) or _writes(node.func)):
            receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            whole = [*node.args, *receiver, *(k.value for k in node.keywords)]
            function.tainted |= {arg.id for arg in whole if isinstance(arg, ast.Name) and arg.id in function.values}
        return []

    def _contents(self, node: ast.AST, function: _Function) -> bool:
        """May the value depend on what is in a tensor?"""
        if isinstance(node, ast.Name):
            return node.id in function.tainted
        if isinstance(node, ast.Attribute):
            return node.attr not in _ABOUT and self._contents(node.value, function)
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in _CLEAN or name in _ASKING or name in _MAKERS:
                return False
        return not isinstance(node, ast.Lambda) and any(self._contents(child, function) for child in ast.iter_child_nodes(node))

    def _is_state(self, name: str | None, function: _Function, depth: int = 0) -> bool:
        """Does the name stand for something that is still there after the call?"""
        if name is None or depth > 5:
            return False
        if name in function.kept or name in function.globals:
            return True
        if name in function.values:
            values = function.values[name]
            return any(
                self._is_state(root(v), function, depth + 1) for v in values if isinstance(v, ast.Name | ast.Attribute | ast.Subscript)
            )
        local = {arg.arg for arg in parameters(function.node)}
        return name in self._scope.bound and name not in local

    def _decorated(self, function: _Function) -> Iterator[Hit]:
        for decorator in function.node.decorator_list:
            plain = decorator.func if isinstance(decorator, ast.Call) else decorator
            tensors = sorted(function.tainted & {arg.arg for arg in parameters(function.node)})
            if self._names.dotted(plain) in _CACHES and tensors:
                message = f"caches by {', '.join(tensors)}: a tensor is hashed by its address, which other contents will have later"
                yield Hit("cache_by_pointer", decorator.lineno, decorator.end_lineno or 0, message)

    def _stores(self, function: _Function) -> Iterator[Hit]:
        for node in function.nodes:
            if isinstance(node, ast.Assign | ast.AugAssign):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    name = target.id if isinstance(target, ast.Name) and target.id in function.globals else None
                    if not isinstance(target, ast.Name):
                        name = root(target) if self._is_state(root(target), function) else None
                    key = target.slice if isinstance(target, ast.Subscript) else None
                    yield from self._kept(function, node, name, key, [node.value])
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPERS:
                name = root(node.func.value)
                key = node.args[0] if node.func.attr in ("setdefault", "__setitem__") and node.args else None
                values = [*node.args[1 if key is not None else 0 :], *(k.value for k in node.keywords)]
                yield from self._kept(function, node, name if self._is_state(name, function) else None, key, values)

    def _kept(self, function: _Function, node: ast.AST, name: str | None, key: ast.expr | None, values: list[ast.expr]) -> Iterator[Hit]:
        if name is None:
            return
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        by = self._keyed(key, function) if key is not None else None
        if any(self._contents(value, function) for value in values):
            found = {"cache_by_pointer": ", by address", "cache_by_shape": ", by shape"}.get(by or "", "")
            message = f"{name} keeps what was computed from the inputs after the call{found}: a later call may return it"
            yield Hit("kept_result", first, last, message)
        elif by:
            yield Hit(by, first, last, f"{name} is a cache that outlives the call, keyed by {_SAID[by]}")

    def _keyed(self, key: ast.expr, function: _Function) -> str | None:
        """What a key is made of, through the names that were assigned before."""
        pending: list[ast.AST] = [key]
        shape = False
        seen: set[str] = set()
        while pending:
            for node in ast.walk(pending.pop()):
                if isinstance(node, ast.Name) and node.id not in seen:
                    seen.add(node.id)
                    pending += function.values.get(node.id, [])
                named = node.attr if isinstance(node, ast.Attribute) else ""
                if named in _POINTERS or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "id"):
                    return "cache_by_pointer"
                shape |= named in _ABOUT or named in _ASKING
        return "cache_by_shape" if shape else None


def _used_as_tensor(function: _Function, name: str) -> bool:
    attributes = (node for node in function.nodes if isinstance(node, ast.Attribute))
    return any(node.attr in _TENSOR_ONLY and isinstance(node.value, ast.Name) and node.value.id == name for node in attributes)


def _writes(node: ast.expr) -> bool:
    """``x.copy_(...)``, by the convention of a trailing underscore."""
    return isinstance(node, ast.Attribute) and node.attr.endswith("_") and not node.attr.endswith("__")


def _stored_names(target: ast.expr) -> Iterator[tuple[str, bool]]:
    """Names that an assignment binds (True), and those of which it fills a part (False)."""
    for node in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
        inner = node.value if isinstance(node, ast.Starred) else node
        name = root(inner)
        if name and not isinstance(inner, ast.Attribute):
            yield name, isinstance(inner, ast.Name)


def _defaults(node: Definition) -> set[str]:
    """Parameters whose default is a container: made once, kept for good."""
    args = [*node.args.posonlyargs, *node.args.args]
    paired = [
        *zip(reversed(args), reversed(node.args.defaults), strict=False),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
    return {arg.arg for arg, default in paired if isinstance(default, ast.Dict | ast.List | ast.Set | ast.Call)}
