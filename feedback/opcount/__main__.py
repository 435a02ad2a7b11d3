"""Instrument ``opcount``: evidence kind ``counts``. What the counts mean, the host says."""

import json
from typing import Any

import numpy as np

from feedback.opcount import host, operations
from feedback.opcount.ledger import Ledger
from sandboxes.runtime import entry, interpreter, request, tensors

MOST_LINES = 2000


def count(args: dict[str, Any], inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """One call of the entry; its counts, lines with the most traffic and work first."""
    function, ledger = entry.load(args), Ledger()
    counting = operations.install(ledger)
    outside = host.HostWork(ledger)
    entry.call(function, inputs, (), outside)
    intact = counting.intact()
    counting.undo()
    rows = sorted(ledger.rows(), key=lambda row: -(row["loaded"] + row["stored"] + row["flops"] + row["special"]))
    if len(rows) > MOST_LINES:
        ledger.not_covered.add(f"{len(rows) - MOST_LINES} lines that do little")
    return {
        "lines": [{**row, "file": entry.relative(row["file"])} for row in rows[:MOST_LINES]],
        "kernels": ledger.kernels(),
        "not_covered": sorted(ledger.not_covered | set(outside.seen)),
        "notes": interpreter.log.notes,
        "loaded": entry.loaded_files(),
        "intact": intact,
    }


def main() -> None:
    """Leave the counts of the request at hand. Overflow and NaN are no business of this instrument."""
    asked = request.current()
    interpreter.install()
    with np.errstate(all="ignore"):
        found = count(asked.args, tensors.read(asked.sections["inputs"]))
    asked.write_report(json.dumps(found, allow_nan=False).encode())


if __name__ == "__main__":
    main()
