"""Collect evidence: run instruments on a tree in cages, turn what they leave into judge-written records."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import ValidationError

from infra_agent import canonical, instruments
from infra_agent.errors import SandboxError, UsageError
from infra_agent.instruments import Instrument
from infra_agent.judge import seeds
from infra_agent.judge.records import DeterminismRecord
from infra_agent.judge.reference import Case, Reference, last_line
from infra_agent.judge.report import ReportRecord
from infra_agent.judge.static import KernelError, StaticRecord
from infra_agent.judge.tensors import CompareRecord, compare
from infra_agent.sandbox.cage import Result
from infra_agent.sandbox.pool import CagePool
from infra_agent.task.load import Task
from infra_agent.task.tree import Tree, digest, pack

_TAIL_LINES = 12


class Collector:
    """Runs one task's instruments. Cages stay warm between calls; ``close`` ends them.

    ``secret`` decides every seed. Calls count up, so that no two looks at a case see the same contents.
    """

    isolation = CagePool.isolation
    platform = "cpu-emulated"

    def __init__(self, task: Task, secret: bytes) -> None:
        if task.judge_folder is None:
            raise UsageError(f"{task.folder}: no judge/task.py; tasks without one come with a later release")
        self.task = task
        self._secret = secret
        self._reference = Reference(task.judge_folder)
        self._pools: dict[str, CagePool] = {}
        self._static: dict[tuple[str, str], StaticRecord] = {}
        self._cases: dict[str, list[Case]] = {}
        self._looks: dict[str, int] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> "Collector":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every cage."""
        self._reference.close()
        for pool in self._pools.values():
            pool.close()

    def pool(self, profile: str) -> CagePool:
        """The cages of a profile."""
        with self._lock:
            return self._pools.setdefault(profile, CagePool(profile))

    def warm(self) -> None:
        """Start the cages of the task's instruments side by side."""
        profiles = {instruments.load(name).profile for name in self.task.spec.instruments}
        with ThreadPoolExecutor(len(profiles) + 1) as threads:
            started = [threads.submit(self.pool(profile).warm) for profile in profiles] + [threads.submit(self.cases, "public")]
            for future in started:
                future.result()

    def cases(self, split: str) -> list[Case]:
        """Cases of a split; stages of the entry that have no bound are an error of the task."""
        if split not in self._cases:
            listed = self._reference.cases(split)
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

    def _seed(self, purpose: str, case: Case) -> int:
        key = f"{case.split}/{case.name}"
        with self._lock:
            look = self._looks[key] = self._looks.get(key, -1) + 1
        return seeds.seed(self._secret, purpose, key, look)

    def _args(self, extra: dict[str, Any]) -> dict[str, Any]:
        entry = self.task.spec.entry
        return {"entry": {"module": entry.module, "callable": entry.callable}, **extra}

    def accuracy(self, tree: Tree, case: Case, without_kernels: bool = False) -> CompareRecord:
        """One call of the entry on fresh contents, compared with truth; ``without_kernels`` makes every launch do nothing."""
        program = instruments.load("accuracy")
        drawn = self._reference.draw(case, self._seed("inputs", case))
        args = self._args({"without_kernels": without_kernels})
        with self.pool(program.profile).cage() as cage:
            result = cage.request(program.program, args, {"tree": pack(tree), "inputs": drawn.inputs}, drawn.shapes)
        about: dict[str, Any] = {"case": case.name, "split": case.split, "size": case.size, "bounds": case.bounds}
        if not result.ok:
            return CompareRecord(ended=_ended(result), ending=tail(result), **about)
        said = _said(result)
        return CompareRecord(
            ended="ok",
            stages=compare(result.output, result.layout, drawn.truth, drawn.reference),
            problems={k: str(v)[:200] for k, v in said.get("problems", {}).items()},
            output_digest=canonical.digest(result.output),
            dots=tuple(said.get("dots", ())),
            loaded=said.get("loaded", {}),
            entry_s=said.get("entry_s", 0.0),
            **about,
        )

    def accuracies(self, tree: Tree, cases: list[Case]) -> list[CompareRecord]:
        """Several cases, two at a time: one draws its inputs while the other runs. Largest first."""
        ordered = sorted(cases, key=lambda case: -case.size)
        with ThreadPoolExecutor(2) as threads:
            done = dict(zip([c.name for c in ordered], threads.map(lambda case: self.accuracy(tree, case), ordered), strict=True))
        return [done[case.name] for case in cases]

    def determinism(self, tree: Tree, case: Case, runs: int) -> DeterminismRecord:
        """The same bytes in, ``runs`` times, each in a process of its own."""
        program = instruments.load("accuracy")
        drawn = self._reference.draw(case, self._seed("determinism", case))
        digests = []
        for _ in range(runs):
            with self.pool(program.profile).cage() as cage:
                result = cage.request(program.program, self._args({}), {"tree": pack(tree), "inputs": drawn.inputs}, drawn.shapes)
            digests.append(canonical.digest(result.output) if result.ok else f"{_ended(result)}: {last_line(result)}")
        return DeterminismRecord(case=case.name, digests=tuple(digests))

    def static(self, tree: Tree, target: str) -> StaticRecord:
        """Compile the entry's kernels for ``target``; the same tree is compiled once a session."""
        key = (digest(tree), target)
        if key not in self._static:
            limits = self.task.spec.static
            case = self.public_case(limits.case) if limits else self.smallest_case()
            result = self.run(instruments.load("static"), tree, case, {"target": target})
            if not result.ok:
                return StaticRecord(
                    target=target, kernels=(), errors=(KernelError(kernel="entry", message=f"{_ended(result)}: {tail(result)}"),)
                )
            try:
                self._static[key] = StaticRecord.model_validate_json(result.report)
            except ValidationError as error:
                raise SandboxError(f"static: the report is not of the right shape: {error}") from error
        return self._static[key]

    def static_pair(self, tree: Tree, base: Tree, target: str) -> tuple[StaticRecord, StaticRecord]:
        """The records of a candidate and of base, compiled side by side when neither is known."""
        with ThreadPoolExecutor(2) as threads:
            found, then = threads.map(lambda t: self.static(t, target), (tree, base))
        return found, then

    def report(self, instrument: Instrument, tree: Tree, case: Case, arguments: dict[str, Any]) -> ReportRecord:
        """Run an instrument whose evidence is advice."""
        result = self.run(instrument, tree, case, arguments)
        if not result.ok:
            return ReportRecord(status="fail", headline=f"{_ended(result)}: {last_line(result)}"[:400], data={"ending": tail(result)})
        try:
            return ReportRecord.model_validate_json(result.report)
        except ValidationError as error:
            raise SandboxError(f"{instrument.name}: the report is not of the right shape: {error}") from error

    def run(self, instrument: Instrument, tree: Tree, case: Case, arguments: dict[str, Any]) -> Result:
        """Run an instrument's program on a tree and fresh inputs of a public case."""
        drawn = self._reference.draw(case, self._seed(instrument.name, case))
        with self.pool(instrument.profile).cage() as cage:
            return cage.request(instrument.program, self._args(arguments), {"tree": pack(tree), "inputs": drawn.inputs})

    def shell(self, tree: Tree, command: str, timeout_s: float) -> Result:
        """Run a shell command on a copy of the tree; what it changes is thrown away."""
        profile = instruments.load("accuracy").profile
        with self.pool(profile).cage() as cage:
            return cage.request("sandboxes.runtime.shell", {"command": command}, {"tree": pack(tree)}, timeout_s=timeout_s)

    def sensitivity(self, case: Case) -> dict[str, Any]:
        """For an audit: see :meth:`Reference.sensitivity`."""
        return self._reference.sensitivity(case, self._seed("sensitivity", case))


def _ended(result: Result) -> str:
    return {"failed": "crashed", "signal": "crashed"}.get(result.ended, result.ended)


def tail(result: Result) -> str:
    """The end of what a request printed, never without the end of a traceback; at most 12 lines."""
    lines = result.text.decode(errors="replace").strip().splitlines()
    return "\n".join(line[:300] for line in lines[-_TAIL_LINES:]) or f"exit {result.code}, no output"


def _said(result: Result) -> dict[str, Any]:
    """The JSON object an accuracy run left; in-process, so anything unreadable is simply not there."""
    try:
        said = json.loads(result.report)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    dots = [d for d in said.get("dots", []) if isinstance(d, dict) and {"file", "line", "precision", "operand"} <= d.keys()]
    loaded = said.get("loaded", {})
    good = {k: v for k, v in loaded.items() if isinstance(v, str) and re.fullmatch(r"[0-9a-f]{64}", v)} if isinstance(loaded, dict) else {}
    problems, seconds = said.get("problems", {}), said.get("entry_s", 0.0)
    return {
        "dots": dots,
        "loaded": good,
        "problems": problems if isinstance(problems, dict) else {},
        "entry_s": seconds if isinstance(seconds, float) else 0.0,
    }
