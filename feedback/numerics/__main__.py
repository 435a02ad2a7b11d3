"""Instrument ``numerics``: evidence kind ``report``. Advice for the model; no gate reads it."""

import json
import time
from typing import Any

import numpy as np

from feedback.numerics import findings, measure, operations, what_if
from feedback.numerics.shadow import Record
from sandboxes.runtime import entry, interpreter, request, tensors

Array = np.ndarray
LINES = 40


def observe(function: entry.Entry, inputs: dict[str, Array]) -> tuple[Record, dict[str, Array]]:
    """Run the entry once with shadows; what they saw, and the outputs."""
    record = Record()
    undo = operations.install(record)
    try:
        outputs = entry.call(function, what_if.copies(inputs))
    finally:
        undo()
    return record, outputs


def truths(record: Record, outputs: dict[str, Array]) -> dict[str, Array]:
    """The float64 value of every floating stage that kernels stored; one made by host code or atomics is named as not covered."""
    found = {}
    for name, output in outputs.items():
        shadow = record.memory.read(output)
        if shadow is not None:
            found[name] = shadow
        elif output.dtype.kind == "f":
            record.not_covered.add(f"stage {name}, which no tl.store wrote")
    return found


def report(args: dict[str, Any], inputs: dict[str, Array]) -> dict[str, Any]:
    """Errors by line and by stage, then one run for each dot that could be promoted, within ``budget_s`` seconds in all."""
    began = time.perf_counter()
    function, promote_to = entry.load(args), args.get("promote_to", "ieee")
    record, outputs = observe(function, inputs)
    truth = truths(record, outputs)
    baseline = what_if.Baseline(function, inputs, truth, what_if.stage_errors(outputs, truth))
    observed = time.perf_counter()
    lines = what_if.candidates(record.errors, promote_to)
    results, untried = what_if.run(baseline, lines, promote_to, began + args.get("budget_s", 30.0))
    rows = measure.rows(record.errors)[:LINES]
    return {
        "lines": [{**row, "file": entry.relative(row["file"])} for row in rows],
        "stages": baseline.stages,
        "what_if": results,
        "not_tried": [{"file": entry.relative(line.file), "line": line.line} for line in untried],
        "not_covered": sorted(record.not_covered),
        "seconds": {"shadow": observed - began, "what_if": time.perf_counter() - observed},
        "loaded": entry.loaded_files(),
    }


def main() -> None:
    """Leave the report of the request at hand; overflow and NaN are findings here, not warnings."""
    asked = request.current()
    interpreter.install()
    with np.errstate(all="ignore"):
        found = report(asked.args, tensors.read(asked.sections["inputs"]))
    asked.write_report(json.dumps(findings.summarise(found), allow_nan=False).encode())


if __name__ == "__main__":
    main()
