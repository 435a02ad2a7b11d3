"""Instrument ``tests``: evidence kind ``tests``. What it concludes is nothing: the judge compares with base's run."""

import json
import tempfile
from pathlib import Path
from typing import Any

from feedback.tests import child
from sandboxes.runtime import request

_PRINTED = 8000
_ORDER = ("passed", "xpassed", "skipped", "xfailed", "failed", "error")


def _outcome(event: dict[str, Any]) -> str:
    """Of one phase: pass or fail of a setup or teardown is an error, not a failure."""
    if event["expected"]:
        return "xfailed" if event["outcome"] == "skipped" else "xpassed"
    return "error" if event["outcome"] == "failed" and event["when"] != "call" else str(event["outcome"])


def summarise(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Phases put together into one outcome a test: the worst; its seconds are those of all phases."""
    tests: dict[str, dict[str, Any]] = {}
    started: dict[str, dict[str, Any]] = {}
    report: dict[str, Any] = {"collected": [], "broken": []}
    for event in events:
        if event["event"] == "collected":
            report["collected"] = event["ids"]
        elif event["event"] == "broken":
            report["broken"].append({"id": event["id"], "message": event["message"]})
        elif event["event"] == "start":
            started[event["id"]] = {"id": event["id"], "path": event["path"], "line": event["line"]}
        else:
            about = {key: event[key] for key in ("id", "path", "line")}
            test = tests.setdefault(event["id"], {**about, "outcome": "passed", "seconds": 0.0, "message": ""})
            test["seconds"] += event["seconds"]
            if _ORDER.index(_outcome(event)) > _ORDER.index(test["outcome"]):
                test["outcome"], test["message"] = _outcome(event), event["message"]
            if event["when"] == "teardown":
                started.pop(event["id"], None)
    return {**report, "tests": list(tests.values()), "running": list(started.values())[-1:]}


def _read(path: Path) -> list[dict[str, Any]]:
    """Whole lines only: a process that was killed may have left half of one."""
    text = path.read_text(errors="replace") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def main() -> None:
    """Run the command; the nonce is written only now that the child has ended, and the child was never told it."""
    asked = request.current()
    with tempfile.TemporaryDirectory() as folder:
        events, only = Path(folder, "events"), Path(folder, "only")
        variables = {"PYTEST_PLUGINS": "feedback.tests.watch", "SUITE_EVENTS": str(events)}
        if asked.args["only"]:
            only.write_text("\n".join(asked.args["only"]))
            variables["SUITE_ONLY"] = str(only)
        ended = child.run(asked.args["argv"], variables)
        report = summarise(_read(events))
    print(ended.text[-_PRINTED:])
    asked.write_report(json.dumps({**report, "code": ended.code, "nonce": asked.args["nonce"]}).encode())


if __name__ == "__main__":
    main()
