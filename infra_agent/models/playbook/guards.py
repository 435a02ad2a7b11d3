"""Waits that some functions of a scope make before they read, and others do not. Pure: from files' texts to the functions and the waits.

A *guard* is a statement of its own that calls something which waits; a *sibling* is a function of the same class, or of the same module
outside classes. Names are followed by their last part alone, which is enough to propose and never enough to believe: what is proposed is
measured.
"""

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

Definition = ast.FunctionDef | ast.AsyncFunctionDef
PRIMITIVES = ("wait", "synchronize")
"""What the virtual clock's streams and events call a wait."""
RECORDS = "record"
"""What it calls a mark that others may wait for."""
_SIMPLE = (
    ast.Name,
    ast.Attribute,
    ast.Constant,
    ast.Subscript,
    ast.Call,
    ast.Await,
    ast.BinOp,
    ast.operator,
    ast.expr_context,
    ast.keyword,
)


@dataclass(frozen=True)
class Function:
    """A function and where it stands. ``scope``: the class that it belongs to, empty for a module's own."""

    path: str
    scope: str
    node: Definition

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name

    @property
    def parameters(self) -> list[str]:
        """Names of its parameters by position, ``self`` among them."""
        return [a.arg for a in (*self.node.args.posonlyargs, *self.node.args.args, *self.node.args.kwonlyargs)]


@dataclass(frozen=True)
class Candidate:
    """A guard that siblings have, and the functions of one scope that lack it."""

    path: str
    scope: str
    guard: str
    """As it would stand in the first of ``targets``."""
    targets: tuple[str, ...]
    guards: tuple[str, ...]
    """The guard in each of ``targets``, in its own names."""
    siblings: tuple[str, ...]


@lru_cache(256)
def functions(path: str, text: str) -> tuple[Function, ...]:
    """Every function of a module and of its classes, in its order; none where it cannot be read."""
    try:
        tree = ast.parse(text)
    except (ValueError, SyntaxError, RecursionError):
        return ()
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    scopes: list[tuple[str, ast.Module | ast.ClassDef]] = [("", tree), *((node.name, node) for node in classes)]
    return tuple(Function(path, name, node) for name, scope in scopes for node in scope.body if isinstance(node, Definition))


def everywhere(files: Mapping[str, str]) -> list[Function]:
    """Functions of every file."""
    return [function for path, text in files.items() for function in functions(path, text)]


def enclosing(files: Mapping[str, str], path: str, line: int) -> Function | None:
    """The function that a line stands in."""
    around = [f for f in functions(path, files[path]) if f.node.lineno <= line <= (f.node.end_lineno or 0)]
    return min(around, key=lambda f: (f.node.end_lineno or 0) - f.node.lineno, default=None)


def called(node: ast.AST) -> Iterator[str]:
    """Last parts of the names of everything that is called below a node."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, (ast.Name, ast.Attribute)):
            yield call.func.id if isinstance(call.func, ast.Name) else call.func.attr


def feeders(function: Function, line: int) -> list[str]:
    """Names of what is called to get what the statement at a line uses: in it, and in the assignments that lead to it."""
    statements = [n for n in ast.walk(function.node) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or 0)]
    reading: ast.stmt = min(statements, key=lambda n: (n.end_lineno or 0) - n.lineno)
    sources: list[ast.AST] = [reading]
    known, before = _names(reading), -1
    while len(known) != before:
        before = len(known)
        for assigned in ast.walk(function.node):
            targets, value = _assigned(assigned)
            if value is not None and value not in sources and any(_names(target) & known for target in targets):
                sources.append(value)
                known |= _names(value)
    return list(dict.fromkeys(name for source in sources for name in called(source)))


def _assigned(node: ast.AST) -> tuple[list[ast.expr], ast.expr | None]:
    if isinstance(node, ast.Assign):
        return node.targets, node.value
    if isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        return [node.target], node.value
    return ([node.target], node.iter) if isinstance(node, ast.For) else ([], None)


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - {"self"}


def recorded_after(files: Mapping[str, str], path: str, line: int) -> int | None:
    """The line of the first mark that is recorded after a line, in the function that it stands in."""
    function = enclosing(files, path, line)
    calls = ast.walk(function.node) if function else ()
    return min((n.lineno for n in calls if isinstance(n, ast.Call) and n.lineno > line and RECORDS in called(n)), default=None)


def waiting(files: Mapping[str, str]) -> dict[str, int]:
    """Name of what waits -> through how many calls it does: 0 for the primitives."""
    found = dict.fromkeys(PRIMITIVES, 0)
    for depth in range(1, 4):
        for function in everywhere(files):
            if function.name not in found and any(found.get(name, depth) < depth for name in called(function.node)):
                found[function.name] = depth
    return found


def guards(function: Function, waits: Mapping[str, int]) -> list[ast.Expr]:
    """Statements of its own body that wait before something else, and that use nothing but its parameters and what its scope knows."""
    own = {n.id for n in ast.walk(function.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    found = []
    for statement in function.node.body[:-1]:
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, (ast.Call, ast.Await)):
            continue
        first = next(called(statement.value), None)
        if first in waits and all(isinstance(n, _SIMPLE) for n in ast.walk(statement.value)) and not _names(statement) & own:
            found.append(statement)
    return found


def candidates(files: Mapping[str, str], functions_read: list[Function]) -> list[Candidate]:
    """What siblings of some functions do and these do not: the guard of most siblings first, of these the one nearest to a primitive."""
    waits = waiting(files)
    scopes = dict.fromkeys((f.path, f.scope) for f in functions_read)
    found: list[tuple[int, int, Candidate]] = []
    for path, scope in scopes:
        lacking = [f for f in functions_read if (f.path, f.scope) == (path, scope) and not set(called(f.node)) & set(waits)]
        siblings = [f for f in functions(path, files[path]) if f.scope == scope and f not in lacking]
        having: dict[str, list[tuple[Function, ast.Expr]]] = {}
        for sibling in siblings:
            for guard in guards(sibling, waits):
                having.setdefault(ast.unparse(_renamed(guard, _placeholders(sibling))), []).append((sibling, guard))
        made = ((those, _candidate(those, lacking)) for those in having.values())
        found += [(-len(those), waits[next(called(those[0][1]))], c) for those, c in made if c]
    return [candidate for _, _, candidate in sorted(found, key=lambda item: item[:2])]


def _candidate(having: list[tuple[Function, ast.Expr]], lacking: list[Function]) -> Candidate | None:
    sibling, guard = having[0]
    fitted = [(function, text) for function in lacking if (text := _fitted(guard, sibling, function))]
    if not fitted:
        return None
    names = tuple(function.name for function, _ in fitted)
    texts = tuple(text for _, text in fitted)
    return Candidate(sibling.path, sibling.scope, texts[0], names, texts, tuple(f.name for f, _ in having))


def _placeholders(function: Function) -> dict[str, str]:
    return {name: f"_{number}_" for number, name in enumerate(function.parameters)}


def _fitted(guard: ast.Expr, sibling: Function, target: Function) -> str | None:
    """A sibling's guard in the names of another function: the same parameter, else the one in its place; None where it does not fit."""
    used = _names(guard) & set(sibling.parameters)
    there = target.parameters
    names = {name: name if name in there else next(iter(there[sibling.parameters.index(name) :]), "") for name in used}
    waits_in_place = isinstance(guard.value, ast.Await) and not isinstance(target.node, ast.AsyncFunctionDef)
    if waits_in_place or not all(names.values()) or target.name in called(guard) or _first(target) is None:
        return None
    return ast.unparse(_renamed(guard, names))


def _renamed(statement: ast.Expr, names: Mapping[str, str]) -> ast.Expr:
    changed = copy.deepcopy(statement)
    for node in ast.walk(changed):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return changed


def _first(function: Function) -> ast.stmt | None:
    """The first statement that does something; None where it does not stand on a line of its own."""
    body = function.node.body
    told = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    first = body[1] if told and len(body) > 1 else body[0]
    return first if first.lineno > function.node.lineno and not (told and len(body) == 1) else None


def inserted(text: str, function: Function, guard: str) -> tuple[str, str]:
    """Old and new text of an edit that puts a guard before everything that a function does; the old text occurs once in ``text``."""
    first = _first(function)
    assert first is not None
    rows = text.split("\n")
    start, stop = function.node.lineno - 1, first.lineno
    while text.count("\n".join(rows[start:stop])) > 1 and start:
        start -= 1
    row = rows[stop - 1]
    indented = row[: len(row) - len(row.lstrip())] + guard
    return "\n".join(rows[start:stop]), "\n".join([*rows[start : stop - 1], indented, row])
