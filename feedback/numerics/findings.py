"""The report as findings: what a reader needs of it, each tied to a line, the most telling first."""

import math
from typing import Any

_WORTH_SAYING = 1.1
"""A stage whose error moves by less than this factor is not mentioned."""
_SHARE_WORTH_SAYING = 0.3
"""A cast that leaves less than this share of every stage's error is not mentioned: without it the error would fall by 5 %."""
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
    findings += [_alone(entry, report["stages"]) for entry in report["casts"] if entry["share"] >= _SHARE_WORTH_SAYING]
    findings += [_rounding(row) for row in report["lines"] if row["introduced"] >= _ROUNDING_OF_FLOAT32]
    findings += [_at(entry, "not_tried", 0.0, "no time was left to try this line") for entry in report["not_tried"]]
    lost = ((name, {"file": file, "line": line}) for name, (file, line) in report["not_covered_at"].items())
    findings += [_at(place, "not_covered", 1e3, f"{name}: the error history of its results starts anew here") for name, place in lost]
    return {"headline": headline[:400], "findings": findings, "data": report}


def _what_if(entry: dict[str, Any], before: dict[str, float]) -> dict[str, Any]:
    moved = {stage: (before[stage], after) for stage, after in entry["stages"].items() if _factor(before[stage], after) >= _WORTH_SAYING}
    ranked = sorted(moved.items(), key=lambda item: -_factor(*item[1]))[:_MOST_STAGES]
    said = ", ".join(f"{stage} {then:.2e} -> {now:.2e}" for stage, (then, now) in ranked) or "no stage's error moves"
    kind, magnitude = ("what_if", 1e3 + entry["gain"]) if moved else ("no_gain", 0.0)
    return _at(entry, kind, magnitude, f"promote this {entry['from']} dot to {entry['to']}: {said}")


def _alone(entry: dict[str, Any], before: dict[str, float]) -> dict[str, Any]:
    """Ranked among the dots by what would be gained: errors of different origin add in squares."""
    ranked = sorted(entry["stages"].items(), key=lambda item: -item[1] / max(before[item[0]], 1e-12))[:_MOST_STAGES]
    said = ", ".join(f"{stage} {error:.2e} of {before[stage]:.2e}" for stage, error in ranked)
    gain = 1 / math.sqrt(max(1 - entry["share"] ** 2, 1e-4))
    return _at(entry, "cast_alone", 1e3 + gain, f"the cast to {entry['to']} by itself, all else exact, leaves {said}")


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
