"""One pass over a module: what it uses that a computation does not need."""

import ast
from collections.abc import Iterable
from typing import NamedTuple

from feedback.lint import rules
from feedback.lint.names import SCOPES, Names, Scope, text, within

_OPENERS = ("builtins.open", "io.open", "gzip.open", "bz2.open", "lzma.open", "os.fdopen")
_PATCHERS = ("builtins.setattr", "builtins.delattr", "builtins.object.__setattr__", "builtins.type.__setattr__")
_POOLS = ("concurrent.futures.ThreadPoolExecutor", "concurrent.futures.thread.ThreadPoolExecutor", "multiprocessing.pool.ThreadPool")


class Hit(NamedTuple):
    """Something worth a question: the lines it stands on, and what is said of it."""

    kind: str
    first: int
    last: int
    message: str
    less: float = 0.0
    """How much less than its family's rank: an import says less than a use."""


class Scanner:
    """Reads a module. ``own``: the top-level names of the workspace, whose modules are the patch's to change."""

    def __init__(self, own: frozenset[str]) -> None:
        self.hits: list[Hit] = []
        self._own = own
        self._names = Names()
        self._body: list[ast.AST] = []

    def read(self, module: ast.Module) -> list[Hit]:
        """All hits, in no order."""
        self._scope(module)
        return self.hits

    def _scope(self, node: ast.AST) -> None:
        outer = self._body
        self._names.scopes.append(Scope.of(node))
        self._body = [node]
        self._visit_all(ast.iter_child_nodes(node))
        self._body = outer
        self._names.scopes.pop()

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            if isinstance(node, SCOPES):
                self._scope(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
            else:
                self._statement(node)
                inner_is_said = isinstance(node, ast.expr) and self._expression(node)
                # of os.environ.get only the whole is named, but what a call is given is looked at in any case
                self._visit_all(_beyond_the_name(node) if inner_is_said else ast.iter_child_nodes(node))

    def _say(self, kind: str, node: ast.AST, what: str, why: str = "", less: float = 0.0) -> None:
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        self.hits.append(Hit(kind, first, last, f"{what}: {why or rules.why(kind)}", less))

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        module = getattr(node, "module", None)
        for alias in node.names:
            name = f"{module}.{alias.name}" if module else alias.name
            rule = rules.of_name(name)
            if rule and not getattr(node, "level", 0):
                self._say(rule.kind, node, f"imports {name}", rule.why, 0.5)

    def _expression(self, node: ast.expr) -> bool:
        """Look at one expression; True when its name was dealt with."""
        if isinstance(node, ast.Call):
            self._call(node)
        if not isinstance(node, ast.Attribute | ast.Name | ast.Call | ast.Subscript):
            return False
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            return False
        dotted = self._names.dotted(node)
        if isinstance(node, ast.Subscript) and self._names.dotted(node.value) == "sys.modules":
            dotted = "sys.modules"
        rule = rules.of_name(dotted) if dotted else None
        if dotted and dotted.endswith(".__dict__") and self._foreign(node):
            rule = rules.Rule("introspection", rules.why("introspection"))
        if rule:
            self._say(rule.kind, node, f"uses {dotted}", rule.why)
            return True
        if isinstance(node, ast.Attribute) and node.attr in rules.BY_ATTRIBUTE and not dotted:
            rule = rules.BY_ATTRIBUTE[node.attr]
            self._say(rule.kind, node, f"uses .{node.attr}", rule.why)
        return dotted is not None and not isinstance(node, ast.Call)

    def _call(self, node: ast.Call) -> None:
        name = self._names.dotted(node.func) or ""
        if name in _OPENERS or (not name and isinstance(node.func, ast.Attribute) and node.func.attr == "open"):
            self._open(node, 1 if name else 0)
        elif name in ("builtins.__import__", "importlib.import_module") and node.args and text(node.args[0]) is None:
            self._say("dynamic_code", node, "imports a module whose name is computed")
        elif name == "builtins.getattr" and len(node.args) > 1 and text(node.args[1]) is None and self._foreign(node.args[0]):
            self._say("dynamic_code", node, f"takes an attribute of {self._names.dotted(node.args[0])} whose name is computed")
        elif name in _PATCHERS and node.args and self._foreign(node.args[0]):
            self._say("monkeypatch", node, f"sets an attribute of {self._names.dotted(node.args[0])}")
        elif name == "threading.Thread" or name in _POOLS:
            self._thread(node, name)

    def _open(self, node: ast.Call, at: int) -> None:
        given = next((k.value for k in node.keywords if k.arg == "mode"), node.args[at] if len(node.args) > at else None)
        mode = "r" if given is None else text(given)
        path = (text(node.args[0]) if node.args else None) if at else ""
        if path and path.startswith(("/proc", "/sys", "/dev")):
            self._say("environment", node, f"opens {path}")
        elif mode is None or set(mode) & set("wax+"):
            self._say("file_write", node, f"opens a file with mode {mode or 'that is computed'}")
        else:
            self._say("file_read", node, "opens a file")

    def _thread(self, node: ast.Call, name: str) -> None:
        """A thread that the same function joins, or a pool that it shuts down, is gone when the call returns."""
        for inner in within([*ast.iter_child_nodes(self._body[0])] if self._body else []):
            if isinstance(inner, ast.With | ast.AsyncWith) and any(item.context_expr is node for item in inner.items):
                return
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and _ends(inner, name):
                return
        self._say("thread_left", node, f"starts {name} and does not wait for its end here")

    def _statement(self, node: ast.AST) -> None:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                self._store(one)

    def _store(self, target: ast.expr) -> None:
        if isinstance(target, ast.Subscript):
            dotted = self._names.dotted(target.value)
            if dotted and (dotted == "sys.modules" or (dotted.endswith(".__dict__") and self._foreign(target.value))):
                self._say("monkeypatch", target, f"sets an entry of {dotted}")
        if not isinstance(target, ast.Attribute):
            return
        dotted = self._names.dotted(target.value)
        if dotted and dotted.startswith(rules.SETTINGS):
            self._say("global_setting", target, f"sets {dotted}.{target.attr}")
        elif self._foreign(target.value):
            self._say("monkeypatch", target, f"sets {dotted}.{target.attr}")
        elif _is_type_of(target.value):
            self._say("monkeypatch", target, f"sets {target.attr} of the type of something")

    def _foreign(self, node: ast.expr) -> bool:
        """Is it a module, or something in one, that is not of the workspace?"""
        dotted = self._names.dotted(node)
        return dotted is not None and not dotted.startswith(".") and dotted.split(".")[0] not in self._own


def _beyond_the_name(node: ast.AST) -> list[ast.AST]:
    """What lies inside an expression whose name was dealt with: arguments and subscripts."""
    found: list[ast.AST] = []
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        if isinstance(node, ast.Call):
            found += [*node.args, *node.keywords]
            node = node.func
        else:
            found += [node.slice] if isinstance(node, ast.Subscript) else []
            node = node.value
    return found


def _ends(call: ast.Call, name: str) -> bool:
    """``t.join()`` and ``t.join(timeout=1)``, but not ``", ".join(words)``; ``pool.shutdown()``."""
    assert isinstance(call.func, ast.Attribute)
    if name != "threading.Thread":
        return call.func.attr in ("shutdown", "join")
    number = all(isinstance(arg, ast.Constant) and isinstance(arg.value, int | float) for arg in call.args)
    return call.func.attr == "join" and number


def _is_type_of(node: ast.expr) -> bool:
    """``type(x)`` or ``x.__class__``."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1
    return isinstance(node, ast.Attribute) and node.attr == "__class__"
