"""Instrument ``numerics``: evidence kind ``report``. Advice for the model; no gate reads it."""

import json
import time
from typing import Any

import numpy as np
from triton.runtime.errors import InterpreterError

from feedback.numerics import alone, findings, measure, operations, what_if
from feedback.numerics.shadow import Record
from sandboxes.runtime import entry, interpreter, request, tensors

Array = np.ndarray
LINES = 40
_NO_SUCH_ATOMIC = "Unsupported data type"
"""What the interpreter's atomics say of bf16 sums and of floating exchanges."""


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
    """The float64 value of every floating stage that kernels stored; one made by host code is named as not covered."""
    found = {}
    for name, output in outputs.items():
        shadow = record.memory.read(output)
        if shadow is not None:
            found[name] = shadow
        elif output.dtype.kind == "f":
            record.not_covered[f"stage {name}, which no tl.store wrote"] = ("?", 0)
    return found


def report(args: dict[str, Any], inputs: dict[str, Array]) -> dict[str, Any]:
    """Errors by line and stage, then a run for each dot that could be promoted and each line that casts, within ``budget_s`` seconds."""
    began = time.perf_counter()
    function, promote_to = entry.load(args), args.get("promote_to", "ieee")
    record, outputs = observe(function, inputs)
    truth = truths(record, outputs)
    baseline = what_if.Baseline(function, inputs, truth, what_if.stage_errors(outputs, truth))
    observed = time.perf_counter()
    lines = what_if.candidates(record.errors, promote_to)
    deadline = began + args.get("budget_s", 30.0)
    results, untried = what_if.run(baseline, lines, promote_to, deadline)
    casts, late = alone.run(baseline, alone.candidates(record.errors), deadline)
    not_tried = [(line.file, line.line) for line in untried] + [(line.file, line.line) for line in late]
    rows = measure.rows(record.errors)[:LINES]
    return {
        "lines": [{**row, "file": entry.relative(row["file"])} for row in rows],
        "stages": baseline.stages,
        "what_if": results,
        "casts": casts,
        "not_tried": [{"file": entry.relative(file), "line": line} for file, line in not_tried],
        "not_covered": sorted(record.not_covered),
        "not_covered_at": {name: [entry.relative(file), line] for name, (file, line) in record.not_covered.items() if line},
        "seconds": {"shadow": observed - began, "what_if": time.perf_counter() - observed},
        "loaded": entry.loaded_files(),
    }


def _refused(error: BaseException) -> str | None:
    """Why the interpreter itself refused, not the kernel under it; None for a fault of the kernel."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NotImplementedError) or str(cause) == _NO_SUCH_ATOMIC:
            return str(cause) or type(cause).__name__
        cause = cause.__cause__
    return None


def main() -> None:
    """Leave the report of the request at hand; overflow and NaN are findings here, not warnings."""
    asked = request.current()
    interpreter.install()
    with np.errstate(all="ignore"):
        try:
            said = findings.summarise(report(asked.args, tensors.read(asked.sections["inputs"])))
        except InterpreterError as error:
            why = _refused(error)
            if why is None:
                raise
            said = {"status": "not_run", "headline": f"Triton's interpreter cannot run this kernel: {why}"[:400], "findings": []}
    asked.write_report(json.dumps(said, allow_nan=False).encode())


if __name__ == "__main__":
    main()
