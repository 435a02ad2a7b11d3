"""What an instrument or a tool said: dense feedback as data, and its three renderings."""

from typing import Annotated, Literal

from pydantic import Field

from infra_agent.frozen import Frozen

Status = Literal["pass", "fail", "inconclusive", "not_run"]
Trust = Literal["judged", "in-process", "advice"]
Isolation = Literal["full", "partial", "none"]
MAX_MODEL_LINES = 40
_ROOM = MAX_MODEL_LINES - 1  # the first line is the headline


class LineWhere(Frozen):
    """A line of the workspace; opens in an editor as path:line."""

    type: Literal["line"] = "line"
    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


class TensorWhere(Frozen):
    """A place in an output: stage, leading index, and the tile [row start, row end, column start, column end]."""

    type: Literal["tensor"] = "tensor"
    case: str
    stage: str
    index: tuple[int, ...] = ()
    tile: tuple[int, int, int, int] | None = None

    def __str__(self) -> str:
        index = f"[{','.join(map(str, self.index))}]" if self.index else ""
        tile = f" tile rows {self.tile[0]}-{self.tile[1] - 1} columns {self.tile[2]}-{self.tile[3] - 1}" if self.tile else ""
        return f"{self.case}: stage {self.stage}{index}{tile}"


class ThreadWhere(Frozen):
    """A thread by name."""

    type: Literal["thread"] = "thread"
    thread: str

    def __str__(self) -> str:
        return f"thread {self.thread}"


class EventPairWhere(Frozen):
    """Two events that should be ordered and are not."""

    type: Literal["event_pair"] = "event_pair"
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.first} / {self.second}"


class FileWhere(Frozen):
    """A file as a whole."""

    type: Literal["file"] = "file"
    path: str

    def __str__(self) -> str:
        return self.path


Where = Annotated[LineWhere | TensorWhere | ThreadWhere | EventPairWhere | FileWhere, Field(discriminator="type")]


class Finding(Frozen):
    """One fault or fact, tied to a place. ``magnitude`` sorts findings: larger is worse."""

    kind: str
    where: Where
    magnitude: float
    message: str


class Metric(Frozen):
    """A number with its unit: SI, ``1`` for a pure number, or ``ratio`` = base/candidate."""

    name: str
    value: float
    unit: str = "1"
    interval: tuple[float, float] | None = None
    target: float | None = None
    base: float | None = None
    """The same at base, where it differs."""


class Observation(Frozen):
    """What a tool or an instrument answered."""

    instrument: str
    status: Status
    kind: str | None = None
    """Why it failed: incorrect, lost_tensor_cores, crashed, timeout, ..."""
    headline: str
    metrics: tuple[Metric, ...] = ()
    findings: tuple[Finding, ...] = ()
    body: str | None = None
    """Text of a tool that answers with text: a file, a search, a command's output."""
    cost_s: float = 0.0
    platform: str = "host"
    isolation: Isolation = "none"
    trust: Trust = "advice"
    reproduce: tuple[str, ...] = ()
    evidence: dict[str, str] = Field(default_factory=dict)
    """Name -> digest of a blob."""

    def for_model(self, sparse_metric: str | None = None) -> str:
        """Text for a model: at most 40 lines besides ``body``, worst finding first.

        With ``sparse_metric`` a measurement is its status and that one metric; what tools answer stays as it is.
        """
        head = f"{self.instrument}: {self.status}{f' ({self.kind})' if self.kind else ''}"
        if sparse_metric is not None and self.evidence and self.body is None:
            return "\n".join([head, *(_metric_line(m) for m in self.metrics if m.name == sparse_metric)])
        ordered = sorted(self.findings, key=lambda f: -f.magnitude)
        metrics = _clamp([_metric_line(m) for m in self.metrics], max(_ROOM - len(ordered), _ROOM // 2), "metrics")
        findings = _clamp([f"{f.where}: {f.kind}: {_indented(f.message)}" for f in ordered], _ROOM - len(metrics), "findings")
        return "\n".join([f"{head} — {self.headline}", *metrics, *findings, *([self.body] if self.body else [])])


def _indented(text: str) -> str:
    """Text that a candidate may have printed: its further lines must not look like lines of ours."""
    return text.replace("\n", "\n    | ")


def _clamp(lines: list[str], most: int, what: str) -> list[str]:
    """At most ``most`` lines; the last then counts what was left out."""
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"(+{len(lines) - most + 1} more {what})"]


def _metric_line(metric: Metric) -> str:
    target = f" (target {metric.target:.3g})" if metric.target is not None else ""
    target += f" (base {metric.base:.4g})" if metric.base is not None else ""
    spread = f" [{metric.interval[0]:.4g}, {metric.interval[1]:.4g}]" if metric.interval else ""
    return f"{metric.name} = {metric.value:.4g}{'' if metric.unit == '1' else ' ' + metric.unit}{spread}{target}"
