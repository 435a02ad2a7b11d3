"""``task.toml`` as a type. Attribute docstrings become the JSON schema."""

import re
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from infra_agent.frozen import Frozen

PlatformName = Literal["cpu-emulated", "cpu"]
"""cpu-emulated: Triton kernels, interpreted here with a GPU's rounding. cpu: code that runs on this machine as it will be used."""
Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$")]


class Entry(Frozen):
    """What the judge calls: ``module.callable(**inputs)`` returns the named stages."""

    module: str
    """Module of the workspace, dotted."""
    callable: str
    """Name of a function in it."""
    stages: tuple[str, ...] = Field(min_length=1)
    """Outputs that must be produced; a missing one is ``incorrect``."""
    mutates: tuple[str, ...] = ()
    """Inputs that the function overwrites; each is a stage, read back from where it lay. No other input may change."""
    modelled: tuple[str, ...] = ()
    """Stages that are figures of a virtual clock or a cost model, said by the function itself: check ``modelled`` is theirs, in-process."""
    seeds: tuple[str, ...] = ()
    """Inputs that draw how things interleave: what comes out must not depend on them."""


class Edit(Frozen):
    """What a patch may touch."""

    allow: tuple[str, ...] = Field(min_length=1)
    """Globs of paths a patch may change or add."""
    protected: tuple[str, ...] = ()
    """Globs of paths that exist at base and may not change; the judge restores them from base."""
    max_files: int = 20
    max_lines: int = 2000
    """Added plus removed lines."""


class Growth(Frozen):
    """A limit on how a stage's error grows along a size axis: error at ``to`` over error at ``start``."""

    stage: str
    start: str
    """Name of the smaller public case."""
    to: str
    """Name of the larger public case."""
    max: float
    """Largest allowed ratio."""


class Static(Frozen):
    """Limits on compiled kernels, read from compilation for ``target``; no GPU is needed."""

    target: Literal["sm_80", "sm_90", "sm_100"] = "sm_90"
    case: str
    """Public case whose inputs specialise the kernels; choose a small one."""
    tensor_cores: Literal["kept", "free"] = "kept"
    """kept: a kernel that used tensor cores at base uses them, and no dot may move to FMA units."""
    min_tensor_core_share: float = Field(default=0.5, ge=0)
    """Tensor-core instructions in each kernel, as a share of base's: below it the products were moved elsewhere."""
    max_fma: int = 1_000_000
    """FMA instructions in any one kernel (PTX)."""
    max_registers: int = 255
    max_spills: int = 0
    """Spill stores plus loads in any one kernel beyond what base has."""
    max_shared_bytes: int = 232_448
    """Shared memory a block may use; sm_90 allows 232448."""


class Timing(Frozen):
    """How long the entry may take, beside base, on the judge's clock. A ratio is base's time over the candidate's: above 1 is faster."""

    goal: Literal["faster", "not_slower"] = "faster"
    """faster: at least one case is, and none is beyond ``limit``. not_slower: none is beyond ``limit``."""
    cases: tuple[str, ...] = ()
    """Public cases that are timed; empty for all of them."""
    delta: float = Field(default=0.01, gt=0, lt=0.5)
    """Smallest effect that counts, as a share; fixed before anything is measured."""
    limit: float = Field(default=1.02, ge=1)
    """The candidate's time over base's that no case may exceed."""


class Peak(Frozen):
    """What a machine can do at best, from a stated source. Generous: a floor that is too high accuses honest work."""

    bytes_per_s: float = Field(gt=0)
    flops_per_s: float = Field(gt=0)
    source: str


class Roofline(Frozen):
    """The work that no implementation can avoid, as expressions of a case's numbers: ``"4 * n * n"``."""

    bytes: str = "0"
    """Bytes that must move."""
    flops: str = "0"
    """Floating-point operations that must be done."""
    peaks: dict[PlatformName, Peak]


class Scenario(Frozen):
    """Code that runs on the virtual clock of instrument ``events``: ``async def callable(runtime)``."""

    module: str
    """Module of the workspace, dotted."""
    callable: str
    """Name of a function in it that takes a ``feedback.events.runtime.Runtime`` and returns a coroutine."""
    schedules: int = Field(default=0, ge=0, le=400)
    """Schedules that the proposal gate looks at, drawn and turned ones together; 0: only the instrument asks."""


class Figures(Frozen):
    """How the numbers of the project's own benchmark are read: from a file that it writes, or from what it prints."""

    format: Literal["pytest-benchmark", "regex", "json"]
    file: str = ""
    """File of the workspace that the command writes; empty: what it prints."""
    pattern: str = ""
    """For regex, matched on each line: groups ``name`` and ``value``."""
    path: str = ""
    """For json: keys, dotted, that lead to an object of name -> number; empty for the document itself."""
    statistic: Literal["min", "median", "mean"] = "median"
    """For pytest-benchmark: which of its numbers."""
    better: Literal["lower", "higher"] = "lower"
    delta: float = Field(default=0.05, gt=0, lt=0.5)
    """Smallest effect that counts, as a share; fixed before anything is measured."""

    @model_validator(mode="after")
    def _readable(self) -> "Figures":
        if self.format == "regex":
            try:
                groups = re.compile(self.pattern).groupindex
            except re.error as error:
                raise ValueError(f"pattern: {error}") from error
            if not {"name", "value"} <= set(groups):
                raise ValueError("pattern needs the groups (?P<name>...) and (?P<value>...)")
        if self.format == "pytest-benchmark" and not self.file:
            raise ValueError("file: name the one that --benchmark-json writes")
        return self


class Commands(Frozen):
    """The project's own check and benchmark, as argv lists that run in the workspace; ``python`` is the cage's."""

    build: tuple[str, ...] = ()
    """Runs in a copy of the sources before they are called or tested; what it leaves beside ``built`` is thrown away."""
    built: tuple[str, ...] = ()
    """Files of the workspace that it leaves, as an extension module; one that a patch adds is not used."""
    build_s: float = Field(default=120.0, gt=0, le=3_600)
    """Seconds that a build may take."""
    test: tuple[str, ...] = ()
    """Must run pytest, in whatever way."""
    bench: tuple[str, ...] = ()
    figures: Figures | None = None
    """What ``bench`` says besides the time it takes."""
    wall_s: float = Field(default=300.0, gt=0, le=36_000)
    """Seconds that one run of either may take."""

    @model_validator(mode="after")
    def _leaves_something(self) -> "Commands":
        if bool(self.build) != bool(self.built):
            raise ValueError("build and built go together: a build step, and the files that it leaves")
        return self


class Accepts(Frozen):
    """A free negative control that a stage accepts on purpose, and why that is right."""

    stage: str
    control: str
    why: str


class Metric(Frozen):
    """The one number a sparse run shows: the error of a stage in a case or, without a stage, the case's speed-up."""

    stage: str = ""
    case: str


class Platform(Frozen):
    """What may stay undecided on a platform, and why."""

    may_not_run: dict[str, str] = Field(default_factory=dict)
    """Check name -> reason."""


class TaskSpec(Frozen):
    """A task file."""

    id: Identifier
    title: str
    goal: str
    """What the agent is asked, verbatim in its first prompt."""
    entry: Entry
    edit: Edit
    libraries: Literal["any", "none"] = "any"
    """none: the candidate's own kernels must do the work; with their launches removed the results must be gone."""
    platform: PlatformName = "cpu-emulated"
    """Where it runs without a GPU."""
    instruments: tuple[str, ...] = ("accuracy",)
    """Instruments the model may use."""
    metric: Metric
    growth: tuple[Growth, ...] = ()
    static: Static | None = None
    timing: Timing | None = None
    roofline: Roofline | None = None
    scenario: Scenario | None = None
    commands: Commands | None = None
    accepts: tuple[Accepts, ...] = ()
    determinism_runs: int = Field(default=2, ge=2, le=16)
    platforms: dict[str, Platform] = Field(default_factory=dict)
    max_steps: int = Field(default=60, ge=1)
    """Model calls a run may make unless told otherwise."""
    wall_s: float = Field(default=900.0, gt=0)
    """Seconds a run may take unless told otherwise."""

    @model_validator(mode="after")
    def _fits_its_platform(self) -> "TaskSpec":
        if self.platform == "cpu" and (self.libraries == "none" or self.static):
            raise ValueError("libraries = 'none' and [static] are about Triton kernels; platform 'cpu' has none")
        if self.platform == "cpu-emulated" and self.timing:
            raise ValueError("[timing] says nothing about interpreted kernels; it needs platform 'cpu'")
        if unknown := set(self.entry.mutates) - set(self.entry.stages):
            raise ValueError(f"[entry] mutates {', '.join(sorted(unknown))}: what is written in place must be one of the stages")
        if unknown := set(self.entry.modelled) - set(self.entry.stages):
            raise ValueError(f"[entry] modelled {', '.join(sorted(unknown))}: a figure of the model must be one of the stages")
        if set(self.entry.modelled) == set(self.entry.stages):
            raise ValueError("[entry] modelled names every stage: at least one must be an output that the judge can check")
        return self

    @property
    def sparse_metric(self) -> str:
        """Name of the one metric a sparse run shows."""
        return f"error.{self.metric.stage}@{self.metric.case}" if self.metric.stage else f"speedup@{self.metric.case}"
