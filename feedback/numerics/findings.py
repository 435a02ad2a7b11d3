"""The report as findings: what a reader needs of it, each tied to a line, the most telling first."""

from typing import Any

_WORTH_SAYING = 1.1
"""A stage whose error moves by less than this factor is not mentioned."""
_MOST_STAGES = 5
_ROUNDING_OF_FLOAT32 = 1e-6
"""A line that introduces less than this only rounds to float32, as every line does."""


def summarise(report: dict[str, Any]) -> dict[str, Any]:
    """Headline and findings of a report; the report itself stays beside them as ``data``."""
    stages = sorted(report["stages"].items(), key=lambda item: -item[1])
    headline = "error by stage against the float64 shadow: " + ", ".join(f"{name} {error:.1e}" for name, error in stages[:8])
    if report["not_covered"]:
        headline += "; not covered: " + ", ".join(report["not_covered"])[:120]
    findings = [_what_if(entry, report["stages"]) for entry in report["what_if"]]
    findings += [_rounding(row) for row in report["lines"] if row["introduced"] >= _ROUNDING_OF_FLOAT32]
    findings += [_at(entry, "not_tried", 0.0, "no time was left to try this dot") for entry in report["not_tried"]]
    return {"headline": headline[:400], "findings": findings, "data": report}


def _what_if(entry: dict[str, Any], before: dict[str, float]) -> dict[str, Any]:
    moved = {stage: (before[stage], after) for stage, after in entry["stages"].items() if _factor(before[stage], after) >= _WORTH_SAYING}
    ranked = sorted(moved.items(), key=lambda item: -_factor(*item[1]))[:_MOST_STAGES]
    said = ", ".join(f"{stage} {then:.2e} -> {now:.2e}" for stage, (then, now) in ranked) or "no stage's error moves"
    return _at(entry, "what_if", 1e3 + entry["gain"], f"promote this {entry['from']} dot to {entry['to']}: {said}")


def _factor(before: float, after: float) -> float:
    """How much an error moved, in whichever direction."""
    low, high = sorted((max(before, 1e-12), max(after, 1e-12)))
    return high / low


def _rounding(row: dict[str, Any]) -> dict[str, Any]:
    asked = f"{row['op']} {row['precision']} {row['operand']}".replace("  ", " ")
    message = f"{asked}: introduces {row['introduced']:.1e}, carries {row['carried_max']:.1e} ({row['count']} times)"
    return _at(row, "rounding", row["carried_max"], message)


def _at(entry: dict[str, Any], kind: str, magnitude: float, message: str) -> dict[str, Any]:
    where = {"type": "line", "path": entry["file"], "line": entry["line"]}
    return {"kind": kind, "where": where, "magnitude": magnitude, "message": message}
