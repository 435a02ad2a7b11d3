"""What compiled kernels do with global memory: facts beside the limits of ``static``. Advice: no check of the gate reads it.

``narrow_access``: a line all of whose loads (or stores) move at most 4 bytes per instruction and thread, though either

* with the arguments as launched, the tile's addresses are contiguous, aligned and masked alike in groups of 16 bytes, and the tile
  holds 16 bytes for each thread (the instrument works the addresses out); or
* base's kernel of that name moves 16 bytes or more per instruction to or from that pointer, and this one nowhere does.

``offset_overflow``: integer arithmetic of an offset can leave its type for the arguments and the grid as launched, or for the
shapes that were asked for; it is named where it is done. Bounds take each quantity by itself, so what depends on one program id
twice (grouped orders of tiles) may be overstated, never understated. ``offset_unbounded``: 32-bit arithmetic on what has no bound.
"""

from collections.abc import Iterable, Iterator, Mapping

from infra_agent.judge.static import Binary, Kernel, StaticRecord, Used, Width, label, same_at_base
from infra_agent.session.observation import FileWhere, Finding, LineWhere, Metric

_WIDE = 16
_NARROW = 4
_UNBOUNDED = 0.5  # below anything that has a size


def advice(found: StaticRecord, base: StaticRecord) -> tuple[Finding, ...]:
    """Narrow accesses and offsets that 32 bits may not hold, worst first."""
    findings = [finding for kernel in found.kernels for finding in _narrow(kernel, same_at_base(base, kernel))]
    asked = [(kernel.name, kernel.accesses, "as launched") for kernel in found.kernels]
    asked += [(one.name, one.accesses, "at the shapes asked for") for one in found.at_shapes]
    findings += _offsets(asked)
    return tuple(sorted(findings, key=lambda f: -f.magnitude))


def _by_line(kernel: Kernel) -> dict[tuple[str, int, str], Width]:
    return {(width.file, width.line, width.kind): width for width in kernel.widths if width.widest}


def _by_pointer(kernel: Kernel | None) -> dict[tuple[str, str], int]:
    """(pointer, kind) -> bytes of the widest instruction of any line that uses it."""
    widest: dict[tuple[str, str], int] = {}
    if kernel:
        lines = _by_line(kernel)
        for access in kernel.accesses:
            if (width := lines.get((access.file, access.line, access.kind))) and access.pointer:
                key = (access.pointer, access.kind)
                widest[key] = max(widest.get(key, 0), width.widest)
    return widest


def _narrow(kernel: Kernel, base: Kernel | None) -> Iterator[Finding]:
    lines, own, then, said = _by_line(kernel), _by_pointer(kernel), _by_pointer(base), set[tuple[str, int, str]]()
    for access in kernel.accesses:
        key, pointer = (access.file, access.line, access.kind), (access.pointer, access.kind)
        width = lines.get(key)
        if width is None or width.widest > _NARROW or access.elements <= 1 or access.kind == "atomic" or key in said:
            continue
        if then.get(pointer, 0) >= _WIDE and own[pointer] <= _NARROW:
            why = f"base moves {then[pointer]}"
        elif access.allows_wide:
            why = "the addresses as launched allow 16"
        else:
            continue
        said.add(key)
        what = f"each {access.kind} of {access.pointer} moves {width.widest} bytes per thread in {width.instructions} instructions"
        where = LineWhere(path=access.file, line=access.line)
        yield Finding(kind="narrow_access", where=where, magnitude=_WIDE / width.widest, message=f"{kernel.name}: {what}; {why}")


def _offsets(asked: list[tuple[str, tuple[Used, ...], str]]) -> Iterator[Finding]:
    over: dict[tuple[str, int], tuple[Used, str, str]] = {}
    for name, accesses, when in asked:
        for access in accesses:
            if access.computed_line:
                key = (access.computed_file, access.computed_line)
                if key not in over or abs(over[key][0].reaches) < abs(access.reaches):
                    over[key] = (access, name, when)
            elif access.narrow:
                why = ", ".join(access.unbounded) or "its arguments"
                message = f"{name}: no bound for the offset of this {access.kind} of {access.pointer}, {when}: {why}"
                where = LineWhere(path=access.file, line=access.line)
                yield Finding(kind="offset_unbounded", where=where, magnitude=_UNBOUNDED, message=message[:400])
    for (file, line), (access, name, when) in over.items():
        used = f"offset of the {access.kind} of {access.pointer} at {access.file}:{access.line}"
        message = f"{name}: an int{access.bits} in the {used} may reach {access.reaches} {when}; it holds less than 2^{access.bits - 1}"
        where = LineWhere(path=file, line=line)
        yield Finding(kind="offset_overflow", where=where, magnitude=float(abs(access.reaches)), message=message)


def metrics(found: StaticRecord, base: StaticRecord) -> Iterator[Metric]:
    """The largest offset of each kernel, and bytes of the narrowest instruction of each line, with base's where they differ."""
    for kernel in found.kernels:
        known = [access.largest for access in kernel.accesses if access.largest is not None]
        if known:
            yield Metric(name=f"largest_offset.{label(kernel, found)}", value=max(known))
    yield from _widths(_narrowest(found.kernels), _narrowest(base.kernels))


def _narrowest(kernels: Iterable[Kernel]) -> dict[tuple[str, int, str], int]:
    """By line, over the kernels and specialisations that have it."""
    found: dict[tuple[str, int, str], int] = {}
    for key, width in (pair for kernel in kernels for pair in _by_line(kernel).items()):
        found[key] = min(found.get(key, width.narrowest), width.narrowest)
    return found


def _widths(lines: Mapping[tuple[str, int, str], int], then: Mapping[tuple[str, int, str], int]) -> Iterator[Metric]:
    for (file, line, kind), narrowest in sorted(lines.items()):
        was = then.get((file, line, kind))
        yield Metric(name=f"{kind}_bytes.{file}:{line}", value=narrowest, unit="B", base=None if was == narrowest else was)


def of_binaries(binaries: tuple[Binary, ...], path: str) -> tuple[tuple[Metric, ...], tuple[Finding, ...]]:
    """What a cubin that was handed in says: counts by function, and by line where it has line tables."""
    found, listed = list[Finding](), list[Metric]()
    for one in binaries:
        spilled = sum(spill.stores + spill.loads for spill in one.spills)
        figures = {"registers": one.registers, "stack_bytes": one.stack_bytes, "shared_bytes": one.shared_bytes, "spilled": spilled}
        listed += [Metric(name=f"{name}.{one.name}", value=value) for name, value in (figures | one.tensor_core).items()]
        listed += list(_widths({(w.file, w.line, w.kind): w.narrowest for w in one.widths if w.widest}, {}))
        for spill in one.spills:
            where = LineWhere(path=spill.file, line=spill.line) if spill.line else FileWhere(path=path)
            message = f"{one.name}: {spill.stores} spill stores and {spill.loads} spill loads"
            found.append(Finding(kind="spill", where=where, magnitude=float(spill.stores + spill.loads), message=message))
    return tuple(listed), tuple(sorted(found, key=lambda f: -f.magnitude))
