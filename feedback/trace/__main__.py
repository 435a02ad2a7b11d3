"""Instrument ``trace``: evidence kind ``report``. Advice for the model; no gate reads it."""

import gzip
import json
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from feedback.trace import counts, findings
from feedback.trace.observe import Observed, observe
from feedback.trace.reduce import Summary, reduce
from sandboxes.runtime import entry, request, tensors
from sandboxes.runtime.request import WORKSPACE

ARTEFACT = "trace.json.gz"
_COUNTING_S = 5.0
_MOST_COUNTED_S = 2.0
"""A call that takes longer is not made once more to count lines."""


def report(args: dict[str, Any], call: Callable[[], object]) -> dict[str, Any]:
    """Observe, reduce, count how often the lines that matter run; the trace itself is left as a file."""
    seen = observe(call, min(10.0, max(0.1, float(args.get("seconds", 0.5)))))
    keep(seen)
    summary = reduce(seen.events, seen.window)
    counted = None
    lines = findings.candidates(summary)
    if seen.plain_s > _MOST_COUNTED_S:
        seen.notes.append(f"a call takes {seen.plain_s:.1f} s: how often lines run was not counted")
    elif lines:
        counted, whole = counts.count(call, lines, _COUNTING_S)
        seen.notes += [] if whole else ["counting how often lines run ended early: the numbers are lower bounds"]
    return summarise(summary, seen, counted)


def summarise(summary: Summary, seen: Observed, counted: findings.Counts | None) -> dict[str, Any]:
    """Headline, metrics, findings and the whole reduction; ``not_run`` when nothing was seen."""
    if not summary.wall:
        return {"status": "not_run", "headline": f"{seen.calls} calls ended before a look at them", "findings": []}
    found = findings.findings(summary, seen.calls, counted)
    worst = next((f for f in found if f["kind"] != "critical_path"), None)
    named = f"worst: {worst['kind']} at {_place(worst['where'])}" if worst else "no gap, nothing serialised, no hot line"
    a_call = summary.wall / seen.calls
    headline = (
        f"{a_call:.3g} s a call under observation, {seen.plain_s:.3g} s without; {len(summary.busy)} threads and streams ran; {named}"
    )
    headline += "".join(f"; {note}" for note in seen.notes)
    about = {"calls": seen.calls, "looks": seen.looks, "looking_s": seen.looking_s, "plain_s": seen.plain_s, "artefact": ARTEFACT}
    figures = [*findings.metrics(summary, seen.calls), {"name": "call_unobserved", "value": seen.plain_s, "unit": "s"}]
    left = {**findings.data(summary, seen.calls, counted), **about, "notes": seen.notes}
    return {"status": "pass", "headline": headline[:400], "metrics": figures, "findings": found, "data": left}


def _place(where: dict[str, Any]) -> str:
    return f"{where['path']}:{where['line']}" if where["type"] == "line" else str(where["thread"])


def keep(seen: Observed) -> None:
    """The whole timeline, as a file that chrome://tracing and ui.perfetto.dev open, in the request's temporary folder."""
    text = json.dumps({"traceEvents": seen.events, "displayTimeUnit": "ms"}).encode()
    Path(tempfile.gettempdir(), ARTEFACT).write_bytes(gzip.compress(text, compresslevel=1))


def failed(error: BaseException) -> dict[str, Any]:
    """The report on an entry that raised, at the innermost line of the workspace."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(WORKSPACE + "/")]
    how = f"{type(error).__name__}: {error}"[:300]
    places = [{"type": "line", "path": entry.relative(frame.filename), "line": frame.lineno} for frame in frames[-1:]]
    found = [{"kind": "crashed", "where": place, "magnitude": 1.0, "message": how} for place in places]
    return {"status": "fail", "headline": f"the entry failed: {how}"[:400], "findings": found}


def _fresh(inputs: dict[str, Any], mutates: Sequence[str]) -> dict[str, Any]:
    """The inputs as they were; only what may be written is copied."""
    return {name: array.copy() if name in mutates else array for name, array in inputs.items()}


def main() -> None:
    """Leave the report of the request at hand."""
    asked = request.current()
    threading.current_thread().name = "main"
    inputs, mutates = tensors.read(asked.sections["inputs"]), asked.args["entry"].get("mutates", ())

    try:
        function = entry.load(asked.args)
        said = report(asked.args, lambda: entry.call(function, _fresh(inputs, mutates), mutates))
    except Exception as error:
        traceback.print_exc()
        said = failed(error)
    asked.write_report(json.dumps(said, allow_nan=False).encode())


if __name__ == "__main__":
    main()
