"""Evidence kind ``counts``: bytes, operations and special functions by source line, against the task's floor and base's. Trust: in-process.

The counts are written beside the candidate: this module checks their ranges and what they must satisfy among each other, and
trusts them no further than the label says. A count is a fact, never a failure; findings name the lines that waste, by these thresholds:

* ``redundant_load``: a program loads the same bytes on one line AGAIN times or more on average, with nothing stored there in between, and
  this is a TENTH of what its kernel moves. Waste whatever the tiles.
* ``low_reuse``: SHARED programs or more load the same bytes on one line, this is a THIRD of what the kernel moves, and the kernel is
  starved: fewer than STARVED operations for each byte. Some of it is in every tiled kernel; larger tiles make it less.
* ``recomputed``: HALF or more of a line's special functions or dots were done by the same program on the same operands before, and
  that is a TENTH of the kernel's work.
* ``excess_bytes``: the entry moves EXCESS times the task's floor, starved; named is the line with the most bytes beyond need.
* ``excess_flops``: it does EXCESS times the floor's operations.
* ``special``: a kernel whose special functions take longer than its other arithmetic, and are as many as the bytes it moves.

Weights of work are rates of an H100's multiprocessor, in operations a clock: 128 fp32 lanes at 2 an FMA and 16 special functions (CUDA C++
Programming Guide, arithmetic throughput, 9.0), 2048 of dense TF32 on tensor cores (H100 data sheet: 495 Tflop/s; 132 of them, 1.83 GHz).
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, model_validator

from infra_agent.frozen import Frozen
from infra_agent.judge import roofline
from infra_agent.session.observation import FileWhere, Finding, LineWhere, Metric, Status
from infra_agent.task.spec import Roofline

AGAIN, SHARED, EXCESS = 2.0, 4.0, 1.5
TENTH, THIRD, HALF = 0.1, 1 / 3, 0.5
STARVED = 10.0
"""Operations for each byte that is loaded or stored: a product in 32x32 tiles of float32 does 8, in 64x64 tiles 16."""
SPECIAL_WEIGHT, DOT_WEIGHT = 256 / 16, 256 / 2048
"""What one special function and one operation of a dot take, in ordinary operations."""

Count = Annotated[int, Field(ge=0, le=2**60)]
Text = Annotated[str, Field(max_length=300)]


class Line(Frozen):
    """What one source line did in all runs of one kernel. Bytes come first, then operations."""

    kernel: Text
    file: Text
    line: Count
    times: Count
    """How often it ran, over all programs."""
    loaded: Count
    fresh: Count
    """Of them, those that the same program had not loaded here before."""
    distinct: Count
    """Each address once a launch."""
    stored: Count
    flops: Count
    """Floating-point operations without the special functions: 2 m n k of a dot, one of each element otherwise."""
    dot_flops: Count
    special: Count
    special_again: Count
    """Of them, those on operands that the same program had put through the same operation here before."""
    dot_again: Count

    @model_validator(mode="after")
    def _parts_are_parts(self) -> "Line":
        parts = (self.fresh, self.loaded), (self.distinct, self.fresh), (self.dot_flops, self.flops)
        if any(part > whole for part, whole in (*parts, (self.special_again, self.special), (self.dot_again, self.dot_flops))):
            raise ValueError(f"line {self.line}: a part is larger than its whole")
        return self

    @property
    def moved(self) -> int:
        """Bytes loaded and stored."""
        return self.loaded + self.stored

    @property
    def work(self) -> float:
        """What its arithmetic takes, in ordinary operations."""
        return self.flops - self.dot_flops + DOT_WEIGHT * self.dot_flops + SPECIAL_WEIGHT * self.special

    @property
    def where(self) -> LineWhere:
        """The place that opens in an editor."""
        return LineWhere(path=self.file, line=self.line)


class Kernel(Frozen):
    """Launches of one kernel."""

    name: Text
    launches: Count
    programs: Count
    touched: Count
    """Bytes that each launch must load or store at least once, summed over launches."""


class Left(Frozen):
    """What the instrument writes."""

    lines: Annotated[tuple[Line, ...], Field(max_length=2000)] = ()
    kernels: Annotated[tuple[Kernel, ...], Field(max_length=1000)] = ()
    not_covered: Annotated[tuple[Text, ...], Field(max_length=1000)] = ()
    """What ran and was not counted."""
    notes: Annotated[tuple[Annotated[str, Field(max_length=2000)], ...], Field(max_length=1000)] = ()
    loaded: dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = Field(default_factory=dict)
    intact: bool = True
    """False when what counts was replaced from inside the run."""


class CountsRecord(Frozen):
    """The counts of one call of a tree's entry, and what the host knows of it."""

    case: str
    tree: str
    """Digest of the files that ran."""
    numbers: dict[str, float] = Field(default_factory=dict)
    """Of the case; the floor's expressions are of them."""
    ended: str
    ending: str = ""
    """The last lines of a request that did not end well."""
    left: Left = Left()

    @property
    def moved(self) -> int:
        """Bytes loaded and stored."""
        return sum(line.moved for line in self.left.lines)

    @property
    def touched(self) -> int:
        """Bytes that the launches must move if nothing is moved twice."""
        return sum(kernel.touched for kernel in self.left.kernels)

    @property
    def operations(self) -> int:
        """Floating-point operations, special functions included."""
        return sum(line.flops + line.special for line in self.left.lines)

    def total(self, figure: str) -> int:
        """A figure of :class:`Line` over all lines."""
        return sum(getattr(line, figure) for line in self.left.lines)

    def of(self, kernel: str) -> tuple[Line, ...]:
        """Lines of one kernel."""
        return tuple(line for line in self.left.lines if line.kernel == kernel)


def assess(found: CountsRecord, base: CountsRecord, floor: Roofline | None) -> tuple[Status, str | None, tuple[Finding, ...]]:
    """Status, kind of failure and findings, worst first. Raises UsageError for a floor that is no expression of the case's numbers."""
    if found.ended != "ok":
        kind = {"timeout": "timeout", "bad_report": "tampered"}.get(found.ended, "crashed")
        where = FileWhere(path="workspace")
        return "fail", kind, (Finding(kind=kind, where=where, magnitude=1e9, message=f"ended with {found.ended}: {found.ending}"[:1500]),)
    if not found.left.kernels:
        return "not_run", None, ()
    findings = [f for kernel in found.left.kernels for f in _kernel(found.of(kernel.name), found.moved)]
    findings += _above_floor(found, base, floor)
    return "pass", None, tuple(sorted(findings, key=lambda f: -f.magnitude))


def _kernel(lines: tuple[Line, ...], moved_by_all: int) -> Iterator[Finding]:
    moved, work = sum(line.moved for line in lines), sum(line.work for line in lines)
    operations = sum(line.flops + line.special for line in lines)
    for line in lines:
        yield from _redundant(line, moved, operations < STARVED * moved, moved_by_all)
        yield from _recomputed(line, work)
    yield from _special(lines, moved)


def _redundant(line: Line, moved: int, starved: bool, moved_by_all: int) -> Iterator[Finding]:
    again, shared = line.loaded - line.fresh, line.fresh - line.distinct
    figures = f"{_bytes(line.loaded)} loaded in {line.times} runs of the line, {_bytes(line.distinct)} of them distinct"
    if again and line.loaded >= AGAIN * line.fresh and again >= TENTH * moved:
        message = f"each program loads the same bytes here {line.loaded / line.fresh:.1f} times: {figures}; load once and keep"
        yield Finding(kind="redundant_load", where=line.where, magnitude=again / moved_by_all, message=message)
    if starved and line.fresh >= SHARED * line.distinct and shared > THIRD * moved:
        message = f"{line.fresh / line.distinct:.1f} programs load the same bytes here: {figures}; larger tiles load less often"
        yield Finding(kind="low_reuse", where=line.where, magnitude=shared / moved_by_all, message=message)


def _recomputed(line: Line, work: float) -> Iterator[Finding]:
    parts = (
        ("special functions", line.special, line.special_again, SPECIAL_WEIGHT),
        ("dot operations", line.dot_flops, line.dot_again, DOT_WEIGHT),
    )
    for what, count, again, weight in parts:
        if again and again >= HALF * count and again * weight >= TENTH * work:
            times = f"{count / (count - again):.1f} times" if again < count else "again"
            message = (
                f"each program works out the same {times} here: {again} of {count} {what} are on operands it had before; keep the result"
            )
            yield Finding(kind="recomputed", where=line.where, magnitude=again * weight / work, message=message)


def _special(lines: tuple[Line, ...], moved: int) -> Iterator[Finding]:
    special, work = sum(line.special for line in lines), sum(line.work for line in lines)
    if not special or special < moved or SPECIAL_WEIGHT * special < HALF * work:
        return
    worst = max(lines, key=lambda line: line.special)
    message = (
        f"{worst.special} of the kernel's {special} special functions, which are {special / max(moved, 1):.1f} for each byte it moves "
    )
    message += f"and {SPECIAL_WEIGHT * special / work:.0%} of its arithmetic at {SPECIAL_WEIGHT:.0f} operations each"
    yield Finding(kind="special", where=worst.where, magnitude=SPECIAL_WEIGHT * special / work, message=message)


def _above_floor(found: CountsRecord, base: CountsRecord, floor: Roofline | None) -> Iterator[Finding]:
    least_bytes, least_operations = floors(found, floor)
    if least_bytes and found.moved >= EXCESS * least_bytes and found.operations < STARVED * found.moved:
        excess = found.moved - least_bytes
        worst = _heaviest(found.left.lines, excess)
        message = (
            f"{_bytes(worst.moved)} here, {_bytes(worst.distinct)} of them loaded from distinct addresses; in all {_bytes(found.moved)}, "
        )
        message += f"{found.moved / least_bytes:.2f} times the floor{_beside(found.moved, base.moved)}"
        yield Finding(kind="excess_bytes", where=worst.where, magnitude=excess / found.moved, message=message)
    if least_operations and found.operations >= EXCESS * least_operations:
        excess = found.operations - least_operations
        worst = max(found.left.lines, key=lambda line: line.flops + line.special)
        message = f"{worst.flops + worst.special} of {found.operations} operations here, in all "
        message += f"{found.operations / least_operations:.2f} times the floor"
        yield Finding(
            kind="excess_flops", where=worst.where, magnitude=excess / found.operations,
            message=message + _beside(found.operations, base.operations),
        )  # fmt: skip


def _heaviest(lines: tuple[Line, ...], excess: float) -> Line:
    """The line that loads most again, if loading again makes half of the excess; else the one that moves most."""
    if sum(line.loaded - line.distinct for line in lines) >= HALF * excess:
        return max(lines, key=lambda line: line.loaded - line.distinct)
    return max(lines, key=lambda line: line.moved)


def _beside(value: int, base: int) -> str:
    return f", {value / base:.2f} times base's" if base and base != value else ""


def floors(record: CountsRecord, floor: Roofline | None) -> tuple[float, float]:
    """Bytes and operations that the case needs by the task's own expressions; 0 where none is stated."""
    if floor is None:
        return 0.0, 0.0
    return roofline.evaluate(floor.bytes, record.numbers), roofline.evaluate(floor.flops, record.numbers)


def metrics(found: CountsRecord, base: CountsRecord, floor: Roofline | None) -> tuple[Metric, ...]:
    """Totals of the call, with the floor as target and base's figure where it differs."""
    if found.ended != "ok" or not found.left.kernels:
        return ()
    least_bytes, least_operations = floors(found, floor)
    figures = (
        ("bytes", "B", found.moved, base.moved, least_bytes),
        ("bytes_touched", "B", found.touched, base.touched, 0.0),
        *((f"bytes_{name}", "B", found.total(name), base.total(name), 0.0) for name in ("loaded", "stored")),
        ("operations", "1", found.operations, base.operations, least_operations),
        *((name, "1", found.total(name), base.total(name), 0.0) for name in ("dot_flops", "special")),
    )
    known = base.ended == "ok"
    return tuple(
        Metric(name=name, value=value, unit=unit, target=least or None, base=then if known and then != value else None)
        for name, unit, value, then, least in figures
    )


def headline(found: CountsRecord, floor: Roofline | None) -> str:
    """What was counted, on which case, how it stands against the floor, and what was not counted."""
    if found.ended != "ok":
        return f"ended with {found.ended}"
    if not found.left.kernels:
        return f"case {found.case}: no Triton kernel was launched, so there is nothing to count"
    least_bytes, least_operations = floors(found, floor)
    launches = sum(kernel.launches for kernel in found.left.kernels)
    said = f"case {found.case}, {launches} launches: {_bytes(found.moved)} moved, {_bytes(found.touched)} if nothing twice"
    said += f", {found.moved / least_bytes:.2f} times the floor" if least_bytes else ""
    said += f"; {found.operations:.3g} operations"
    said += f", {found.operations / least_operations:.2f} times the floor" if least_operations else ""
    missing = (*found.left.not_covered, *found.left.notes)
    return (said + (f"; not counted: {', '.join(missing)}" if missing else ""))[:400]


def _bytes(count: float) -> str:
    power = min(len(str(int(count))) - 1, 12) // 3
    return f"{count / 1000**power:.4g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"
