"""The proposal gate: every check again, in fresh processes, on fresh and held-out inputs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from infra_agent import canonical
from infra_agent.frozen import Frozen
from infra_agent.gates import checks, own_work, policy, reading
from infra_agent.judge import builds as builds_kind
from infra_agent.judge import commands, standing
from infra_agent.judge.collector import Collector, Perturbed
from infra_agent.judge.records import RanRecord
from infra_agent.judge.static import StaticRecord
from infra_agent.judge.tensors import CompareRecord
from infra_agent.judge.verdict import decide
from infra_agent.session.observation import Isolation
from infra_agent.session.verdict import Check, Verdict
from infra_agent.task.repository import PatchError, Repository
from infra_agent.task.spec import Static, TaskSpec, Timing
from infra_agent.task.tree import Tree

_BEYOND = 8.0
"""How many times its bound a perturbed result is off: wrong beyond doubt, and too near for a candidate to tell it from its own rounding."""
_FAR_BEYOND = 64.0
"""The same for operands of dots: base must be off beyond doubt, so that a candidate with other sums is."""
Store = Callable[[bytes], str]
OnCheck = Callable[[Check], None]
NAMES = (
    "isolation", "applies", "scope", "secrets", "builds", "accuracy", "held_out", "modelled", "growth", "ran", "own_work", "repeat",
    "determinism", "static", "precision", "tests", "events", "timing", "plausibility",
)  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """A verdict, the patch in canonical form, and how long it took."""

    verdict: Verdict
    patch: bytes
    seconds: float


class ProposalGate:
    """Judges patches of one task. ``store`` keeps a record's bytes and returns their digest."""

    def __init__(
        self,
        collector: Collector,
        repository: Repository,
        base: str,
        store: Store,
        on_check: OnCheck | None = None,
        least: Isolation | None = None,
    ) -> None:
        """``least``: the isolation that the policy asks for; None for the shipped policy's."""
        self._collector = collector
        self._repository = repository
        self._base = base
        self._store = store
        self._least = least or policy.shipped().isolation
        self._on_check = on_check or (lambda check: None)
        self._done: list[Check] = []
        self._base_products: tuple[CompareRecord, CompareRecord] | None = None
        """Base as it is and with its products put off, on the same inputs."""

    def base_tree(self) -> Tree:
        """The files that a patch is against."""
        return self._repository.read_tree(self._base)

    def judge(self, patch: bytes) -> Judged:
        """Decide on ``patch``, which may come from anywhere; it is applied first and diffed again."""
        began = time.monotonic()
        self._collector.fresh_cages()
        self._done = []
        self._add(checks.isolation(self._collector.isolation, self._least))
        base_tree = self.base_tree()
        patch, tree = self._apply(patch)
        if tree is not None and self._reads_well(patch, frozenset(base_tree)) and self._builds(tree, base_tree):
            self._measure(tree, base_tree)
        self._fill_in()
        verdict = Verdict(
            decision=decide(tuple(self._done)),
            level="L2",
            isolation=self._collector.isolation,
            platform=self._collector.platform,
            checks=tuple(self._done),
        )
        return Judged(verdict, patch, time.monotonic() - began)

    def _add(self, check: Check, **records: str) -> Check:
        check = check.model_copy(update={"records": records})
        self._done.append(check)
        self._on_check(check)
        return check

    def _keep(self, record: Frozen) -> str:
        return self._store(canonical.encode(record.model_dump(mode="json")))

    def _apply(self, patch: bytes) -> tuple[bytes, Tree | None]:
        try:
            tree = self._repository.apply(self._base, patch)
        except PatchError as error:
            self._add(Check(name="applies", status="fail", kind="does_not_apply", trust="judged", message=str(error)))
            return patch, None
        self._add(Check(name="applies", status="pass", trust="judged", message=f"applies at {self._base[:12]}"))
        return self._repository.diff(self._base, tree), self._repository.read_tree(tree)

    def _reads_well(self, patch: bytes, base_paths: frozenset[str]) -> bool:
        """Checks that need no run. A patch out of scope is not run at all."""
        kept = self._store(patch)
        paths = self._store(canonical.encode(sorted(base_paths)))
        scope = self._add(reading.scope(patch, self._collector.task.spec, base_paths), patch=kept, base_paths=paths)
        secrets = self._add(reading.secrets(patch), patch=kept)
        return scope.status == secrets.status == "pass"

    def _builds(self, tree: Tree, base_tree: Tree) -> bool:
        """Sources that cannot be built are not run."""
        builds, spec = self._collector.builds, self._collector.task.spec
        if not builds.asked:
            return True
        found, base = builds.record(tree), builds.record(base_tree)
        check = self._add(
            checks.builds(found, base, builds_kind.place(spec)), **{"build": self._keep(found), "base.build": self._keep(base)}
        )
        return check.status == "pass"

    def _measure(self, tree: Tree, base_tree: Tree) -> None:
        spec, collector = self._collector.task.spec, self._collector
        public, held_out = collector.cases("public"), collector.cases("held_out")
        compiled: list[tuple[StaticRecord, StaticRecord]] = []

        def compile_both() -> None:
            if spec.static:
                compiled.append(collector.static_pair(tree, base_tree, spec.static.target))

        records = collector.accuracies(tree, [*public, *held_out], beside=compile_both)
        records.sort(key=lambda r: f"{r.split}.{r.case}")  # the order in which they are read back from the log
        kept = {f"compare.{r.split}.{r.case}": self._keep(r) for r in records}
        seen, hidden = ([r for r in records if r.split == split] for split in ("public", "held_out"))
        self._compared(seen, hidden, kept)
        if any(record.ended == "timeout" for record in records):
            return  # whatever comes next would be late too
        smallest = min(seen, key=lambda r: r.size)
        self._ran(tree, smallest)
        if spec.libraries == "none":
            self._own_work(tree, base_tree)
        repeated = [standing.repeat(collector, tree, case) for case in collector.two_cases(smallest.case)]
        self._add(
            checks.repeat(repeated, spec.platform, spec.entry.modelled),
            **{f"repeat.{record.case}": self._keep(record) for record in repeated},
        )
        record = standing.determinism(collector, tree, collector.public_case(smallest.case), spec.determinism_runs)
        self._add(checks.determinism(record), determinism=self._keep(record))
        if spec.static:
            self._static(*compiled[0], spec.static, records, kept)
        self._behaves(tree, base_tree)
        if spec.timing and not any(check.status == "fail" for check in self._done):
            self._timing(tree, base_tree, spec.timing)

    def _compared(self, seen: list[CompareRecord], hidden: list[CompareRecord], kept: dict[str, str]) -> None:
        """What follows from the outputs of one call of each case."""
        spec = self._collector.task.spec
        told = spec.entry.modelled
        self._add(checks.accuracy(seen, held_out=False, platform=spec.platform, modelled=told), **_split(kept, "public"))
        self._add(checks.accuracy(hidden, held_out=True, platform=spec.platform, modelled=told), **_split(kept, "held_out"))
        if any(record.ended == "timeout" for record in (*seen, *hidden)):
            return
        if told:
            self._add(checks.modelled(seen, told), **_split(kept, "public"))
        if spec.growth:
            self._add(checks.growth(seen, spec.growth, spec.platform), **_split(kept, "public"))

    def _behaves(self, tree: Tree, base_tree: Tree) -> None:
        """The project's own tests, and its scenario on the virtual clock."""
        spec, collector = self._collector.task.spec, self._collector
        if spec.commands and spec.commands.test:
            suite = commands.tests(collector, tree, base_tree, 1)
            self._add(checks.tests(suite), suite=self._keep(suite))
        if spec.scenario and spec.scenario.schedules:
            found = standing.events(collector, tree, spec.scenario.schedules)
            self._add(checks.events(found), events=self._keep(found))

    def _timing(self, tree: Tree, base_tree: Tree, asked: Timing) -> None:
        """Last and only when all else holds: a wrong answer has no speed, and time is what takes time."""
        named = asked.cases or sorted(case.name for case in self._collector.cases("public"))
        records = []
        for name in sorted(named):
            records.append(standing.timing(self._collector, tree, base_tree, self._collector.public_case(name)))
            if records[-1].faults or records[-1].ended:
                break
        kept = {f"timing.{record.case}": self._keep(record) for record in records}
        self._add(checks.timing(records, self._collector.task.spec), **kept)
        if self._collector.task.spec.roofline:
            self._add(checks.plausibility(records, self._collector.task.spec), **kept)

    def _ran(self, tree: Tree, record: CompareRecord) -> None:
        if record.ended != "ok":
            self._add(Check(name="ran", status="not_run", trust="in-process", message="the entry did not run"))
            return
        expected = {path: canonical.digest(data) for path, data in tree.items()}
        entry = self._collector.task.spec.entry.module.replace(".", "/") + ".py"
        builds = self._collector.builds
        built = builds.record(tree).files if builds.asked else {}
        found = RanRecord(expected=expected, loaded=record.loaded, entry=entry, built=built)
        self._add(checks.ran(found), ran=self._keep(found))

    def _own_work(self, tree: Tree, base_tree: Tree) -> None:
        """On the case that specialises the kernels, if the task names one."""
        limits = self._collector.task.spec.static
        case = self._collector.public_case(limits.case) if limits else self._collector.smallest_case()
        most = max(bound.error for bound in case.bounds.values())
        kernels, products = Perturbed("kernels", _BEYOND * most), Perturbed("products", _FAR_BEYOND * most)
        if limits and self._base_products is None:
            self._base_products = self._collector.accuracy_pair(base_tree, case, products)
        records = {"kernels": self._collector.accuracy(tree, case, kernels)}
        if own_work.has_whole_numbers(records["kernels"]):
            records["integers"] = self._collector.accuracy(tree, case, Perturbed("integers", 1.0))
        if self._base_products is not None:
            base, base_products = self._base_products
            records |= {"products": self._collector.accuracy(tree, case, products), "base": base, "base_products": base_products}
        kept = {own_work.RECORDS[name]: self._keep(record) for name, record in records.items()}
        self._add(own_work.judge(own_work.Perturbations(**records)), **kept)

    def _static(
        self, found: StaticRecord, base: StaticRecord, limits: Static, records: list[CompareRecord], compares: dict[str, str]
    ) -> None:
        kept = {name: self._store(canonical.encode(r.model_dump(mode="json"))) for name, r in (("static", found), ("base.static", base))}
        self._add(checks.static(found, base, limits), **kept)
        self._add(checks.precision(records, found, limits.case), static=kept["static"], **compares)

    def _fill_in(self) -> None:
        """Checks that did not run say so; those a task excuses on this platform say why."""
        spec = self._collector.task.spec
        platform = spec.platforms.get(self._collector.platform)
        excused = platform.may_not_run if platform else {}
        present = [check.name for check in self._done]
        for name in expected_checks(spec, present)[len(present) :]:
            reason = excused.get(name, "an earlier check failed")
            self._add(Check(name=name, status="not_run", trust="judged", message=reason, excused=name in excused))


def expected_checks(spec: TaskSpec, present: Sequence[str]) -> list[str]:
    """The checks a verdict on this task must have: those already ``present``, then the ones still missing."""
    asked = {
        "modelled": bool(spec.entry.modelled),
        "growth": bool(spec.growth),
        "static": bool(spec.static),
        "precision": bool(spec.static),
        "own_work": spec.libraries == "none",
        "tests": spec.commands is not None and bool(spec.commands.test),
        "builds": spec.commands is not None and bool(spec.commands.build),
        "events": spec.scenario is not None and spec.scenario.schedules > 0,
        "plausibility": spec.roofline is not None,
    }
    wanted = [name for name in NAMES if asked.get(name, True)]
    return [*(name for name in present if name in wanted), *(name for name in wanted if name not in present)]


def _split(kept: dict[str, str], split: str) -> dict[str, str]:
    return {name: digest for name, digest in kept.items() if name.startswith(f"compare.{split}.")}
