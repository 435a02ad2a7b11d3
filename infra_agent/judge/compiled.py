"""Records of compiled trees: read from reports, and kept through a session: what measuring may reuse, and what a gate may."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from infra_agent import canonical
from infra_agent.frozen import one_line
from infra_agent.judge.static import KernelError, StaticRecord
from infra_agent.task.tree import Tree, digest

Arguments = Mapping[str, str]
Pair = tuple[StaticRecord, StaticRecord]
"""The record of a candidate and that of base."""


class Compile(Protocol):
    """Compiles one tree for a target; the third are the instrument's other arguments."""

    def __call__(self, tree: Tree, target: str, more: Arguments | None = None) -> StaticRecord:
        """Its record; what goes wrong is an error in it."""
        ...


class Compiled:
    """``side_by_side`` runs calls two at a time."""

    def __init__(self, compile_one: Compile, side_by_side: Callable[[Sequence[Callable[[], StaticRecord]]], list[StaticRecord]]) -> None:
        self._compile, self._side_by_side = compile_one, side_by_side
        self._measured: dict[str, StaticRecord] = {}
        self._judged_base: dict[tuple[str, str], StaticRecord] = {}

    def judged(self, tree: Tree, base: Tree, target: str) -> Pair:
        """For a gate: the candidate is compiled now. Base is or was by a gate of this session; nothing that measuring left is taken."""
        key = (digest(base), target)
        known = self._judged_base.get(key)
        if known is not None:
            return self._compile(tree, target), known
        found, then = self._side_by_side([partial(self._compile, tree, target), partial(self._compile, base, target)])
        self._judged_base[key] = then
        return found, then

    def measured(self, tree: Tree, base: Tree, target: str, more: Arguments) -> Pair:
        """For a look: either may be what the same tree, target and arguments gave before, and a tree that is both is compiled once.

        A cubin (``more["cubin"]``) is compared with nothing: it stands for both. A run that left no figures is not kept.
        """
        trees = {self._key(one, target, more): one for one in ((tree,) if "cubin" in more else (tree, base))}
        missing = {key: one for key, one in trees.items() if key not in self._measured}
        made = self._side_by_side([partial(self._compile, one, target, more) for one in missing.values()]) if missing else []
        fresh = dict(zip(missing, made, strict=True))
        self._measured |= {key: record for key, record in fresh.items() if record.kernels or record.binaries}
        records = [fresh.get(key) or self._measured[key] for key in trees]
        return records[0], records[-1]

    @staticmethod
    def _key(tree: Tree, target: str, more: Arguments) -> str:
        return canonical.digest(canonical.encode([digest(tree), target, dict(more)]))


def failed(tree: Tree, target: str, message: str) -> StaticRecord:
    """The record of a tree that left no report."""
    return StaticRecord(target=target, tree=digest(tree), kernels=(), errors=(KernelError(kernel="entry", message=message[:2000]),))


def read(report: bytes, tree: Tree, target: str, more: Arguments) -> StaticRecord:
    """The record in a report; one that is not of the right shape, or for another target, is an error of the candidate."""
    try:
        record = StaticRecord.model_validate_json(report)
    except ValueError as error:
        return failed(tree, target, f"the report is not of the right shape: {one_line(error)}")
    if record.target != target:
        return failed(tree, target, f"the report is for {record.target[:20]}")
    return record.model_copy(update={"tree": digest(tree), "cubin": more.get("cubin", "")})
