"""Run a task's judge code. This program is only ever started in a reference cage, which alone shows the task's judge folder.

Report: u64 length of a JSON head, the head, then safetensors when the operation makes arrays.
"""

import json
import struct
import sys
from typing import Any

import numpy as np

from sandboxes.runtime import request, tensors


def _cases(task: Any, args: dict[str, Any]) -> tuple[Any, dict[str, np.ndarray]]:
    listed = task.cases(args["split"])
    return [{**case, "bounds": task.bounds(case)} for case in listed], {}


def _smaller(task: Any, args: dict[str, Any]) -> tuple[Any, dict[str, np.ndarray]]:
    """Smaller versions of a given case, with their bounds; null when the task does not say which there are.

    Each is a version of the listed case ``started``, and is called so: names that the task leaves as they were would be alike.
    """
    if not hasattr(task, "smaller"):
        return None, {}
    listed = [{**case, "name": f"{args['started']}~smaller"} for case in task.smaller(args["given"])]
    return [{**case, "bounds": task.bounds(case)} for case in listed], {}


def _find(task: Any, args: dict[str, Any]) -> dict[str, Any]:
    """The case that is given, or the listed one of that name."""
    if "given" in args:
        return dict(args["given"])
    return next(case for case in task.cases(args["split"]) if case["name"] == args["case"])


def _contents(task: Any, args: dict[str, Any]) -> tuple[Any, dict[str, np.ndarray]]:
    """For each seed ``n``: ``n/inputs/…``, ``n/truth/…``, ``n/reference/…``."""
    case = _find(task, args)
    flat: dict[str, np.ndarray] = {}
    for number, seed in enumerate(args["seeds"]):
        arrays = task.inputs(case, seed)
        copies = {name: value.copy() for name, value in arrays.items()}  # a task that works in place must not spoil its inputs
        groups = {"inputs": arrays, "truth": task.truth(copies), "reference": task.reference({n: v.copy() for n, v in arrays.items()})}
        flat |= {f"{number}/{group}/{name}": value for group, values in groups.items() for name, value in values.items()}
    return {}, flat


def _sensitivity(task: Any, args: dict[str, Any]) -> tuple[Any, dict[str, np.ndarray]]:
    """For each input: the largest relative change of any stage when that input alone is drawn anew."""
    case = _find(task, args)
    first, second = task.inputs(case, args["seed"]), task.inputs(case, args["seed"] + 1)
    before = task.truth({name: value.copy() for name, value in first.items()})
    changes = {}
    for name in first:
        after = task.truth({n: (second if n == name else first)[n].copy() for n in first})
        changes[name] = max(float(np.linalg.norm(after[s] - before[s]) / np.linalg.norm(before[s])) for s in before)
    constant = [stage for stage, value in before.items() if np.ptp(value) == 0]
    finite = all(bool(np.isfinite(value).all()) for value in before.values())
    return {"changes": changes, "constant": constant, "finite": finite}, {}


_OPERATIONS = {"cases": _cases, "contents": _contents, "sensitivity": _sensitivity, "smaller": _smaller}


def main() -> None:
    """Import the judge's task.py and run the operation asked for."""
    asked = request.current()
    sys.path.insert(0, asked.args["judge"])
    import task  # type: ignore[import-not-found]

    head, arrays = _OPERATIONS[asked.args["operation"]](task, asked.args)
    text = json.dumps(head).encode()
    asked.write_report(struct.pack("<Q", len(text)) + text + (tensors.write(arrays) if arrays else b""))


if __name__ == "__main__":
    main()
