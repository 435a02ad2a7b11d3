"""``task.toml`` as a type. Attribute docstrings become the JSON schema."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from infra_agent.frozen import Frozen

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
    """Inputs the function may overwrite."""


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


class Metric(Frozen):
    """The one number a sparse run shows."""

    stage: str
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
    instruments: tuple[str, ...] = ("accuracy",)
    """Instruments the model may use."""
    metric: Metric
    growth: tuple[Growth, ...] = ()
    static: Static | None = None
    determinism_runs: int = Field(default=2, ge=2, le=16)
    platforms: dict[str, Platform] = Field(default_factory=dict)
    max_steps: int = Field(default=60, ge=1)
    """Model calls a run may make unless told otherwise."""
    wall_s: float = Field(default=900.0, gt=0)
    """Seconds a run may take unless told otherwise."""

    @property
    def sparse_metric(self) -> str:
        """Name of the one metric a sparse run shows."""
        return f"error.{self.metric.stage}@{self.metric.case}"
