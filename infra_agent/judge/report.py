"""Evidence kind ``report``: what an instrument concluded. Advice for the model and the reviewer; no gate reads it."""

from typing import Any

from pydantic import Field

from infra_agent.frozen import Frozen
from infra_agent.session.observation import Finding, Metric, Status


class ReportRecord(Frozen):
    """The part of a report that every instrument writes alike; ``data`` is its own."""

    status: Status = "pass"
    headline: str = Field(max_length=400)
    metrics: tuple[Metric, ...] = ()
    findings: tuple[Finding, ...] = ()
    data: dict[str, Any] = Field(default_factory=dict)
