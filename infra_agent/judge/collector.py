"""Collect evidence: run instruments on a tree in cages, turn what they leave into judge-written records."""

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import Field

from infra_agent import canonical, instruments, share
from infra_agent.errors import ArtefactError, UsageError
from infra_agent.frozen import Frozen, one_line
from infra_agent.instruments import Instrument
from infra_agent.judge import compiled, seeds
from infra_agent.judge.builds import Builds
from infra_agent.judge.compiled import Compiled, Pair
from infra_agent.judge.counts import CountsRecord, Left
from infra_agent.judge.reference import Case, Drawn, Reference
from infra_agent.judge.report import ReportRecord
from infra_agent.judge.static import StaticRecord
from infra_agent.judge.tensors import CompareRecord, EmulatedDot, Launch, compare
from infra_agent.sandbox import choose
from infra_agent.sandbox.base import Result
from infra_agent.sandbox.pool import CagePool
from infra_agent.sandbox.profile import load as load_profile
from infra_agent.sandbox.text import excerpt, last_line
from infra_agent.session.observation import Isolation
from infra_agent.task.load import Task
from infra_agent.task.tree import Tree, digest, pack

_TAIL_LINES = 12
_SEARCH_S = 10.0
_ARTEFACT_BYTES = 64 << 20
_INSTRUMENTS = "/instruments"
"""Where a cage shows a user's folder of instruments."""
T = TypeVar("T")
Kept = dict[str, bytes] | None
"""Filled with the files that an instrument leaves, by name."""


class Perturbed(NamedTuple):
    """What is put off under emulation, and by which share: what kernels write (whole numbers apart), or what dots multiply."""

    what: Literal["kernels", "integers", "products"]
    share: float


class Said(Frozen):
    """What an accuracy run reports beside its outputs. Written beside the candidate: every range is checked."""

    problems: dict[str, Annotated[str, Field(max_length=300)]] = Field(default_factory=dict)
    dots: tuple[EmulatedDot, ...] = Field(default=(), max_length=5000)
    loaded: dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = Field(default_factory=dict)
    entry_s: float = Field(default=0.0, ge=0)
    changed: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), max_length=1000)
    host_work: tuple[Annotated[str, Field(max_length=100)], ...] = Field(default=(), max_length=100)
    launches: tuple[Launch, ...] = Field(default=(), max_length=1000)
    intact: bool = True
    """False when the emulator is not what it was before the candidate was imported."""


class Collector:
    """Runs one task's instruments. Cages stay warm between calls; ``close`` ends them.

    ``secret`` decides every seed. Calls count up, so that no two looks at a case see the same contents.
    """

    def __init__(self, task: Task, secret: bytes, sandbox: str = choose.AUTO) -> None:
        if task.judge_folder is None:
            raise UsageError(f"{task.folder}: no judge/task.py; tasks without one come with a later release")
        self.task = task
        self.platform = task.spec.platform
        self._secret = secret
        self.backend = choose.pick(sandbox)
        self.reference = Reference(task.judge_folder, self.backend)
        self._pools: dict[tuple[str, Path | None], CagePool] = {}
        self.builds = Builds(task.spec.commands, lambda: self.pool(instruments.load("accuracy").profile(self.platform)).cage())
        self._compiled = Compiled(self.static, self.side_by_side)
        self._counts: dict[tuple[str, str], CountsRecord] = {}
        self._cases: dict[str, list[Case]] = {}
        self._looks: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def isolation(self) -> Isolation:
        """How well the code under change is walled off: full | partial | none."""
        return self.backend.isolation

    def __enter__(self) -> "Collector":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every cage."""
        self.reference.close()
        for pool in self._pools.values():
            pool.close()

    def pool(self, profile: str, instruments_of: Path | None = None) -> CagePool:
        """The cages of a profile, which see a user's folder of instruments if one is named."""
        key = (profile, instruments_of)
        with self._lock:
            if key not in self._pools:
                mounts = {_INSTRUMENTS: instruments_of} if instruments_of else None
                self._pools[key] = CagePool(profile, mounts, share.hidden(), self.backend)
            return self._pools[key]

    def cages(self, instrument: Instrument) -> CagePool:
        """The cages of an instrument. Raises UsageError where a candidate could trace what makes evidence that a gate reads."""
        profile = instrument.profile(self.platform)
        if load_profile(profile).ptrace and instrument.evidence != "report":
            where = f"instrument {instrument.name}: its profile {profile} allows ptrace"
            raise UsageError(
                f"{where}; evidence of kind '{instrument.evidence}' is read by gates: use a profile without, or leave a report"
            )
        return self.pool(profile, instruments.own_folder(instrument.name))

    def warm(self) -> None:
        """Start the cages of the task's instruments side by side."""
        pools = {self.cages(instruments.load(name)) for name in self.task.spec.instruments}
        with ThreadPoolExecutor(len(pools) + 1) as threads:
            started = [threads.submit(pool.warm) for pool in pools] + [threads.submit(self.cases, "public")]
            for future in started:
                future.result()

    def cases(self, split: str) -> list[Case]:
        """Cases of a split; stages of the entry that have no bound are an error of the task."""
        if split not in self._cases:
            listed = self.reference.cases(split)
            for case in listed:
                missing = set(self.task.spec.entry.stages) ^ set(case.bounds)
                if missing:
                    where, differ = f"{self.task.folder}/judge/task.py", ", ".join(sorted(missing))
                    raise UsageError(f"{where}: bounds of case {case.name} and [entry] stages differ in: {differ}")
            self._cases[split] = listed
        return self._cases[split]

    def public_case(self, name: str) -> Case:
        """A public case by name; raises UsageError listing them. Held-out cases cannot be named."""
        found = next((case for case in self.cases("public") if case.name == name), None)
        if found is None:
            raise UsageError(f"unknown case '{name}'; public cases: {', '.join(c.name for c in self.cases('public'))}")
        return found

    def smallest_case(self) -> Case:
        """The public case with the fewest elements."""
        return min(self.cases("public"), key=lambda case: case.size)

    def two_cases(self, name: str) -> list[Case]:
        """The public case of that name and another, drawn: which is called again and again nobody can know. In the order of their names."""
        others = [case for case in self.cases("public") if case.name != name]
        drawn = random.Random(self.seed("cases", self.public_case(name))).sample(others, min(1, len(others)))
        return sorted([self.public_case(name), *drawn], key=lambda case: case.name)

    def seed(self, purpose: str, case: Case) -> int:
        """The next seed for a case: no two draws of a session are alike."""
        key = f"{case.split}/{case.name}"
        with self._lock:
            look = self._looks[key] = self._looks.get(key, -1) + 1
        return seeds.seed(self._secret, purpose, key, look)

    def arguments(self, extra: dict[str, Any]) -> dict[str, Any]:
        """What a program that calls the entry is told."""
        entry = self.task.spec.entry
        return {"entry": {"module": entry.module, "callable": entry.callable, "mutates": entry.mutates}, **extra}

    def accuracy(self, tree: Tree, case: Case, perturbed: Perturbed | None = None) -> CompareRecord:
        """One call of the entry on fresh contents, compared with truth."""
        return self._accuracy(tree, case, self.reference.draw(case, self.seed("inputs", case)), perturbed)

    def accuracy_pair(self, tree: Tree, case: Case, perturbed: Perturbed) -> tuple[CompareRecord, CompareRecord]:
        """The entry as it is and perturbed, on the same contents."""
        drawn = self.reference.draw(case, self.seed("inputs", case))
        return self._accuracy(tree, case, drawn, None), self._accuracy(tree, case, drawn, perturbed)

    def _accuracy(self, tree: Tree, case: Case, drawn: Drawn, perturbed: Perturbed | None) -> CompareRecord:
        program, packed = instruments.load("accuracy"), self.builds.packed(tree)
        args = self.arguments({"perturbed": perturbed._asdict() if perturbed else None})
        with self.cages(program).cage() as cage:
            result = cage.run(program.program, args, {"tree": packed, "inputs": drawn.inputs}, drawn.shapes)
        about = described(tree, case)
        if not result.ok:
            return CompareRecord(ended=ended(result), ending=tail(result), **about)
        try:
            said = Said.model_validate_json(result.report)
        except ValueError as error:
            return CompareRecord(ended="bad_report", ending=one_line(error), **about)
        if not said.intact:
            return CompareRecord(ended="bad_report", ending="the emulator was changed from inside the run", **about)
        stages = compare(result.output, result.layout, drawn.truth, drawn.reference, bounds=case.bounds)
        return CompareRecord(
            ended="ok", stages=stages, output_digest=canonical.digest(result.output), **said.model_dump(exclude={"intact"}), **about
        )

    def accuracies(self, tree: Tree, cases: list[Case], beside: Callable[[], object] | None = None) -> list[CompareRecord]:
        """Several cases, two at a time: one draws its inputs while the other runs. Largest first, ``beside`` next to it."""
        ordered = sorted(cases, key=lambda case: -case.size)
        done: dict[tuple[str, str], CompareRecord] = {}

        def run(case: Case) -> None:
            late = next((r.case for r in list(done.values()) if r.ended == "timeout"), None)
            if late is not None:  # one time-out says it all; waiting for each of the others would take all day
                record = CompareRecord(ended="timeout", ending=f"not run: {late} was late", **described(tree, case))
            else:
                record = self.accuracy(tree, case)
            done[case.split, case.name] = record

        calls: list[Callable[[], object]] = [partial(run, case) for case in ordered]
        self.side_by_side([*calls[:1], *([beside] if beside else []), *calls[1:]])
        return [done[case.split, case.name] for case in cases]

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Results of ``calls``, two at a time. An interrupt or an error kills what is under way instead of waiting for it."""
        with ThreadPoolExecutor(2) as threads:
            futures = [threads.submit(call) for call in calls]
            try:
                return [future.result() for future in futures]
            except BaseException:
                for future in futures:
                    future.cancel()
                self.abort()
                raise

    def abort(self) -> None:
        """Kill every cage in use, from any thread."""
        self.reference.abort()
        for pool in self._pools.values():
            pool.abort()

    def fresh_cages(self) -> None:
        """End the candidates' idle cages: what follows starts in cages that no candidate was in, and is built there."""
        self.builds.clear()
        for pool in self._pools.values():
            pool.close()

    def static(self, tree: Tree, target: str, more: Mapping[str, str] | None = None) -> StaticRecord:
        """Compile the entry's kernels for ``target``. A report that cannot be is an error of the candidate.

        ``more``: the instrument's other arguments, ``shapes`` and ``cubin``.
        """
        limits = self.task.spec.static
        case = self.public_case(limits.case) if limits else self.smallest_case()
        result = self.run(instruments.load("static"), tree, case, {"target": target, **(more or {})})
        if not result.ok:
            return compiled.failed(tree, target, f"{ended(result)}: {tail(result)}")
        return compiled.read(result.report, tree, target, more or {})

    def static_pair(self, tree: Tree, base: Tree, target: str, more: Mapping[str, str] | None = None, kept: bool = False) -> Pair:
        """The records of a candidate and of base. ``kept``: both may be of an earlier look; a gate never asks for that."""
        return self._compiled.measured(tree, base, target, more or {}) if kept else self._compiled.judged(tree, base, target)

    def counts(self, instrument: Instrument, tree: Tree, case: Case) -> CountsRecord:
        """Count one call of the entry. A report that cannot be is an error of the candidate."""
        result = self.run(instrument, tree, case, {})
        about: dict[str, Any] = {"case": case.name, "tree": digest(tree), "numbers": case.numbers}
        if not result.ok:
            return CountsRecord(ended=ended(result), ending=tail(result), **about)
        try:
            left = Left.model_validate_json(result.report)
        except ValueError as error:
            return CountsRecord(ended="bad_report", ending=one_line(error), **about)
        if not left.intact:
            return CountsRecord(ended="bad_report", ending="what counts was changed from inside the run", **about)
        return CountsRecord(ended="ok", left=left, **about)

    def counts_pair(self, instrument: Instrument, tree: Tree, base: Tree, case: Case) -> tuple[CountsRecord, CountsRecord]:
        """The counts of a candidate, taken now, and of base, taken once a session and case."""
        key = (digest(base), case.name)
        if digest(tree) == key[0]:
            self._counts[key] = found = self.counts(instrument, tree, case)
            return found, found
        found = self.counts(instrument, tree, case)
        if key not in self._counts:
            self._counts[key] = self.counts(instrument, base, case)
        return found, self._counts[key]

    def report(
        self, instrument: Instrument, tree: Tree, case: Case, arguments: dict[str, Any], base: Tree | None = None, kept: Kept = None
    ) -> ReportRecord:
        """Run an instrument whose evidence is advice. ``kept`` receives the files it leaves, by name."""
        kept = {} if kept is None else kept
        result = self.run(instrument, tree, case, arguments, base, kept)
        if not result.ok:
            return ReportRecord(status="fail", headline=f"{ended(result)}: {last_line(result.text)}"[:400], data={"ending": tail(result)})
        try:
            record = ReportRecord.model_validate_json(result.report)
        except ValueError as error:
            return ReportRecord(status="fail", headline=f"the report is not of the right shape: {one_line(error)}"[:400])
        missing = ", ".join(name for name in instrument.artefacts if name not in kept)
        return record.model_copy(update={"headline": f"{record.headline[:300]}; left no {missing[:90]}"}) if missing else record

    def run(
        self, instrument: Instrument, tree: Tree, case: Case, arguments: dict[str, Any], base: Tree | None = None, kept: Kept = None
    ) -> Result:
        """Run an instrument's program on a tree and fresh inputs of a public case; ``base``, if given, is a section of that name."""
        drawn, packed = self.reference.draw(case, self.seed(instrument.name, case)), self.builds.packed(tree)
        with self.cages(instrument).cage() as cage:
            roots = {"roots": [cage.place(_INSTRUMENTS)]} if instruments.own_folder(instrument.name) else {}
            sections = {"tree": packed, "inputs": drawn.inputs} | ({} if base is None else {"base": pack(base)})
            result = cage.run(instrument.program, self.arguments(arguments | roots), sections)
            for name in instrument.artefacts if result.ok else ():
                with suppress(ArtefactError):  # it is gone, or a link: the report stands without it
                    ({} if kept is None else kept)[name] = cage.get(f"tmp/{name}", _ARTEFACT_BYTES)
            return result

    def search(self, tree: Tree, pattern: str, glob: str) -> Result:
        """Find a regular expression in a copy of the tree, in the cage: the pattern is the model's and may never end."""
        profile = instruments.load("accuracy").profile(self.platform)
        with self.pool(profile).cage() as cage:
            return cage.run("sandboxes.runtime.search", {"pattern": pattern, "glob": glob}, {"tree": pack(tree)}, timeout_s=_SEARCH_S)

    def shell(self, tree: Tree, command: str, timeout_s: float) -> Result:
        """Run a shell command on a copy of the tree; what it changes is thrown away."""
        profile = instruments.load("accuracy").profile(self.platform)
        with self.pool(profile).cage() as cage:
            return cage.run("sandboxes.runtime.shell", {"command": command}, {"tree": pack(tree)}, timeout_s=timeout_s)

    def sensitivity(self, case: Case) -> dict[str, Any]:
        """For an audit: see :meth:`Reference.sensitivity`."""
        return self.reference.sensitivity(case, self.seed("sensitivity", case))


def ended(result: Result) -> str:
    """How a request ended, as a kind of failure."""
    return {"failed": "crashed", "signal": "crashed", "oom": "out_of_memory"}.get(result.ended, result.ended)


def tail(result: Result) -> str:
    """The end of what a request printed, never without the end of a traceback; at most 12 lines, and those of a traceback."""
    return excerpt(result.text.strip(), 0, _TAIL_LINES, 300) or f"{result.why}, no output"


def described(tree: Tree, case: Case) -> dict[str, Any]:
    """What every comparison of ``case`` states."""
    return {"case": case.name, "split": case.split, "size": case.size, "bounds": case.bounds, "tree": digest(tree)}
