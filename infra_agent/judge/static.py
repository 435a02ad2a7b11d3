"""Evidence kind ``static``: compiled kernels against the task's limits and base's figures. Trust: in-process.

The report is written by the instrument inside the cage; this module validates its shape and never trusts it further
than the label says. It is paired with the judged comparison of output bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from infra_agent.frozen import Frozen
from infra_agent.judge.tensors import EmulatedDot, Launch
from infra_agent.session.observation import FileWhere, Finding, LineWhere, Metric, Status
from infra_agent.task.spec import Static

Count = Annotated[int, Field(ge=0, le=2**40)]
"""A count the instrument reports: it is written beside the candidate, so its range is checked."""

Exact = Annotated[int, Field(ge=-(2**100), le=2**100)]
"""An offset as it would be in integers without end."""


class Dot(Frozen):
    """A matrix product by source line; ``unit`` is where it runs: tensor_core | fma."""

    file: str
    line: Count
    precision: str
    operand: str
    unit: str


class Spill(Frozen):
    """Spill instructions that a source line caused."""

    file: str
    line: Count
    stores: Count
    loads: Count


class Width(Frozen):
    """Bytes of the widest and the narrowest instruction by which a line's threads load or store; ``bulk``: copies no thread makes alone."""

    file: str
    line: Count
    kind: str
    widest: Count
    narrowest: Count
    instructions: Count
    bulk: Count = 0


class Used(Frozen):
    """A load, store or atomic of the kernel's source, for the worst of its launches. Offsets are in elements.

    ``largest`` is None where nothing bounds it, ``unbounded`` says what; ``computed_line`` is 0 where every integer fits its type.
    """

    file: str
    line: Count
    kind: str
    pointer: str
    largest: Exact | None
    unbounded: tuple[str, ...]
    narrow: bool
    computed_file: str
    computed_line: Count
    bits: Count
    reaches: Exact
    elements: Count
    allows_wide: bool


class AtShapes(Frozen):
    """What a kernel accesses when the entry is called on inputs of other shapes."""

    name: str
    accesses: tuple[Used, ...]


class Binary(Frozen):
    """A function of a cubin that was handed in; ``tensor_core`` counts by SASS instruction."""

    name: str
    cubin_sha256: str
    registers: Count
    stack_bytes: Count
    shared_bytes: Count
    spills: tuple[Spill, ...]
    tensor_core: dict[str, Count]
    widths: tuple[Width, ...]


class Kernel(Frozen):
    """One compiled specialisation of one kernel."""

    name: str
    file: str
    line: Count
    source_sha256: str = ""
    """Of the function that was compiled, from its ``def`` on."""
    constexprs: dict[str, Any]
    signature: dict[str, str]
    num_warps: Count
    num_stages: Count
    shared_bytes: Count
    registers: Count
    stack_bytes: Count
    spill_stores: Count
    spill_loads: Count
    tensor_core_instructions: Count
    fma_instructions: Count
    other_float_instructions: Count = 0
    """Multiplications and additions in float32 that are not fused (PTX)."""
    dots: tuple[Dot, ...]
    spills: tuple[Spill, ...]
    widths: tuple[Width, ...] = ()
    accesses: tuple[Used, ...] = ()
    ptx_sha256: str
    cubin_sha256: str

    @property
    def spilled(self) -> int:
        """Spill instructions, stores plus loads."""
        return self.spill_stores + self.spill_loads

    @property
    def fma_dots(self) -> tuple[Dot, ...]:
        """Dots that left the tensor cores."""
        return tuple(dot for dot in self.dots if dot.unit == "fma")


class KernelError(Frozen):
    """A kernel, or the entry, that did not get as far as a binary."""

    kernel: str
    message: str


class StaticRecord(Frozen):
    """What compiling one tree for ``target`` said."""

    target: str
    tree: str = ""
    """Digest of the files that were compiled, set by the host."""
    kernels: tuple[Kernel, ...]
    errors: tuple[KernelError, ...] = ()
    notes: tuple[str, ...] = ()
    """What the figures do not cover, such as the other configurations of an autotuned kernel."""
    loaded: dict[str, str] = Field(default_factory=dict)
    max_shared_bytes: Count = 0
    """Of a block on ``target``; 0 when the report does not say."""
    at_shapes: tuple[AtShapes, ...] = ()
    cubin: str = ""
    """Path of the cubin that was handed in, set by the host; nothing was compiled then."""
    binaries: tuple[Binary, ...] = ()
    """Its functions."""

    @property
    def shared_limit(self) -> int:
        """What the device allows; without bound when it is not known."""
        return self.max_shared_bytes or 2**40


def assess(found: StaticRecord, base: StaticRecord, limits: Static) -> tuple[Status, str | None, tuple[Finding, ...]]:
    """Compare a candidate's kernels with base's of the same name and with the task's limits."""
    if found.errors:
        first = found.errors[0]
        where = FileWhere(path=first.kernel)
        return "fail", "crashed", (Finding(kind="crashed", where=where, magnitude=1e9, message=first.message[:400]),)
    if not found.kernels:
        where = FileWhere(path="workspace")
        message = "no Triton kernel was compiled; base compiled " + ", ".join(sorted({k.name for k in base.kernels}))
        return "fail", "lost_tensor_cores", (Finding(kind="lost_tensor_cores", where=where, magnitude=1e9, message=message),)
    findings = [f for kernel in found.kernels for f in _kernel(kernel, same_at_base(base, kernel), _for_target(limits, found))]
    findings += list(_whole(found, base, limits))
    findings.sort(key=lambda f: -f.magnitude)
    return ("fail", findings[0].kind, tuple(findings)) if findings else ("pass", None, ())


def _for_target(limits: Static, found: StaticRecord) -> Static:
    """The task's limits; the target that was asked for may have less shared memory than the task's."""
    allowed = min(limits.max_shared_bytes, found.shared_limit)
    return limits.model_copy(update={"target": found.target, "max_shared_bytes": allowed})


def same_at_base(base: StaticRecord, kernel: Kernel) -> Kernel | None:
    """Base's kernel of the same name, of the same constants if there is one."""
    alike = [other for other in base.kernels if other.name == kernel.name]
    return next((other for other in alike if other.constexprs == kernel.constexprs), alike[0] if alike else None)


def _kernel(kernel: Kernel, base: Kernel | None, limits: Static) -> Iterator[Finding]:
    at = LineWhere(path=kernel.file, line=kernel.line)
    if limits.tensor_cores == "kept" and len(kernel.fma_dots) > (len(base.fma_dots) if base else 0):
        for dot in kernel.fma_dots:
            where = LineWhere(path=dot.file, line=dot.line)
            message = f"tl.dot at {dot.precision} runs on FMA units on {limits.target}; {kernel.name} has {kernel.fma_instructions} fma"
            yield Finding(
                kind="lost_tensor_cores", where=where, magnitude=1e7 + kernel.fma_instructions, message=message
            )  # names the line: first
    if kernel.fma_instructions > limits.max_fma:
        message = f"{kernel.name}: {kernel.fma_instructions} fma instructions, {limits.max_fma} allowed"
        yield Finding(kind="lost_tensor_cores", where=at, magnitude=float(kernel.fma_instructions), message=message)
    yield from _resources(kernel, base, limits, at)


def _resources(kernel: Kernel, base: Kernel | None, limits: Static, at: LineWhere) -> Iterator[Finding]:
    if kernel.registers > limits.max_registers:
        message = f"{kernel.name}: {kernel.registers} registers, {limits.max_registers} allowed"
        yield Finding(kind="slower", where=at, magnitude=float(kernel.registers), message=message)
    if kernel.shared_bytes > limits.max_shared_bytes:
        message = f"{kernel.name}: {kernel.shared_bytes} bytes of shared memory, {limits.max_shared_bytes} exist on {limits.target}"
        yield Finding(kind="crashed", where=at, magnitude=float(kernel.shared_bytes), message=message)
    allowed = limits.max_spills + (base.spilled if base else 0)
    if kernel.spilled > allowed:
        worst = max(kernel.spills, key=lambda s: s.stores + s.loads, default=None)
        where = LineWhere(path=worst.file, line=worst.line) if worst else at
        message = f"{kernel.name}: {kernel.spilled} spill instructions, {allowed} allowed"
        yield Finding(kind="slower", where=where, magnitude=float(kernel.spilled), message=message)


def _whole(found: StaticRecord, base: StaticRecord, limits: Static) -> Iterator[Finding]:
    """Products moved out of a kernel, or spelled as sums, show in no dot of it: compare what each kernel still does.

    Both counts must hold: more warps change the instructions of the same product, and one product can be issued thrice.
    """
    if limits.tensor_cores != "kept":
        return
    for unit, count in (("tensor-core instructions", _instructions), ("products on tensor cores", _products)):
        now, then = _work(found, count), _work(base, count)
        shared = now.keys() & then.keys()
        has_else, had_else = (sum(n for name, n in work.items() if name not in shared) for work in (now, then))
        for name, has, had in [*((name, now[name], then[name]) for name in sorted(shared)), ("the other kernels", has_else, had_else)]:
            if had and has < had * limits.min_tensor_core_share:
                kernel = next((k for k in found.kernels if k.name == name), None)
                where = LineWhere(path=kernel.file, line=kernel.line) if kernel else FileWhere(path="workspace")
                message = f"{name}: {has} {unit}, {had} at base: products were moved elsewhere"
                yield Finding(kind="lost_tensor_cores", where=where, magnitude=1e6, message=message)


def _instructions(kernel: Kernel) -> int:
    return kernel.tensor_core_instructions


def _products(kernel: Kernel) -> int:
    return sum(dot.unit == "tensor_core" for dot in kernel.dots)


def _work(record: StaticRecord, count: Callable[[Kernel], int]) -> dict[str, int]:
    """``count`` by kernel name, over its specialisations."""
    total: dict[str, int] = {}
    for kernel in record.kernels:
        total[kernel.name] = total.get(kernel.name, 0) + count(kernel)
    return total


def metrics(found: StaticRecord, base: StaticRecord) -> tuple[Metric, ...]:
    """Per kernel: registers, spills, tensor-core and FMA instructions, with base's figure where it differs."""
    listed = []
    for kernel in found.kernels:
        other = same_at_base(base, kernel)
        for name in ("tensor_core_instructions", "fma_instructions", "other_float_instructions", "registers", "spilled"):
            value, then = getattr(kernel, name), getattr(other, name) if other else None
            if value or then:
                listed.append(Metric(name=f"{name}.{label(kernel, found)}", value=value, base=None if then == value else then))
    return tuple(listed)


def label(kernel: Kernel, record: StaticRecord) -> str:
    """Its name; where a kernel was specialised more than once, with the constants that tell the specialisations apart."""
    alike = [other for other in record.kernels if other.name == kernel.name]
    differ = [key for key, value in kernel.constexprs.items() if any(other.constexprs.get(key) != value for other in alike)]
    return kernel.name + (f"[{','.join(f'{key}={kernel.constexprs[key]}' for key in differ)}]" if differ else "")


Place = tuple[str, int]


def precision_mismatch(emulated: Iterable[EmulatedDot], found: StaticRecord, whole: bool) -> list[Finding]:
    """Lines whose dots ran otherwise under emulation than they were compiled: another precision, another operand type.

    ``whole``: the emulated call is of the case that was compiled, so each line must be on both sides. Of another case a
    line that was never compiled is not said to be forged, only not covered (kind ``stale_build``).
    """
    compiled = _by_place((dot.file, dot.line, _kind_of(dot)) for kernel in found.kernels for dot in kernel.dots)
    ran = _by_place((dot.file, dot.line, _kind_of(dot)) for dot in emulated)
    findings = []
    for place in sorted(compiled.keys() | ran.keys() if whole else ran.keys()):
        asked, seen = compiled.get(place, set()), ran.get(place, set())
        if asked == seen or (not whole and seen <= asked):
            continue
        kind = "tampered" if whole or asked else "stale_build"
        message = f"compiled as {_names(asked)}, emulated as {_names(seen)}"
        findings.append(Finding(kind=kind, where=LineWhere(path=place[0], line=place[1]), magnitude=1e6, message=message))
    return findings


def other_kernels(launches: Iterable[Launch], found: StaticRecord) -> list[str]:
    """What was interpreted and never compiled so: another source, other constants. One line for each."""
    wrong = []
    for launch in launches:
        alike = [kernel for kernel in found.kernels if kernel.name == launch.kernel]
        same = [kernel for kernel in alike if kernel.source_sha256 == launch.source]
        if not same:
            wrong.append(f"{launch.kernel} was interpreted from another source than it was compiled from")
        elif not any(_agree(launch.constexprs, kernel.constexprs) for kernel in same):
            wrong.append(f"{launch.kernel} was interpreted with constants that it was not compiled with")
    return wrong


def _agree(ran: Mapping[str, Any], compiled: Mapping[str, Any]) -> bool:
    return all(compiled.get(name) == value for name, value in ran.items() if not isinstance(value, list))


def _kind_of(dot: Dot | EmulatedDot) -> str:
    """What a dot multiplies and, for float32, how; the precision of narrower operands means nothing."""
    return f"{dot.operand} {dot.precision}" if dot.operand == "fp32" else dot.operand


def _by_place(dots: Iterable[tuple[str, int, str]]) -> dict[Place, set[str]]:
    places: dict[Place, set[str]] = {}
    for file, line, kind in dots:
        places.setdefault((file, line), set()).add(kind)
    return places


def _names(kinds: set[str]) -> str:
    return ", ".join(sorted(kinds)) or "nothing"
