"""Instrument ``gil``: evidence kind ``report``. Advice for the model; no gate reads it."""

import json
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from feedback.gil import findings
from feedback.gil.heartbeat import Heartbeat
from sandboxes.runtime import entry, request, spy, tensors
from sandboxes.runtime.observed import Observed

Array = np.ndarray
_FIRST_CALL_S = 60.0


def work(args: dict[str, Any], inputs: dict[str, Array], seconds: float, say: Callable[[Any], None], orders: int) -> None:
    """The observed process: one call, the heartbeat beside further calls, then calls until it is killed."""
    threading.current_thread().name = "main"
    function = entry.load(args)
    mutates = args["entry"].get("mutates", ())
    entry.call(function, _fresh(inputs, mutates), mutates)
    heartbeat = Heartbeat(seconds)
    heartbeat.start()
    heartbeat.calibrated.wait()
    say("warm")
    calls = 0

    def measure() -> None:
        heartbeat.join()
        say(heartbeat.said() | {"calls": calls})
        os.read(orders, 1)  # nobody writes: this thread sleeps from here on

    threading.Thread(target=measure, name="heartbeat-report", daemon=True).start()
    heartbeat.begin.set()
    while True:
        entry.call(function, _fresh(inputs, mutates), mutates)
        calls += 1


def _fresh(inputs: dict[str, Array], mutates: Any) -> dict[str, Array]:
    """The inputs as they were; only what may be written is copied."""
    return {name: array.copy() if name in mutates else array for name, array in inputs.items()}


def observe(args: dict[str, Any], inputs: dict[str, Array], seconds: float) -> dict[str, Any]:
    """The whole report. The heartbeat is over before py-spy, which stops the process for every sample, begins."""
    child = Observed(lambda say, orders: work(args, inputs, seconds, say, orders))
    try:
        said = child.hear(_FIRST_CALL_S)
        if said == "warm":
            said = child.hear(2 * seconds + _FIRST_CALL_S)
        if said is None:
            late = f"neither the first call of the entry nor the heartbeat ended within {_FIRST_CALL_S:.0f} s: ask the instrument hang"
            return {"status": "not_run", "headline": late}
        if "usual" not in said:
            return findings.broken(said)
        holders, everyone, refusal = None, None, ""
        try:
            holders = spy.record(child.pid, seconds, holders=True)
            everyone = spy.record(child.pid, seconds / 2, holders=False)
        except spy.SpyError as error:
            refusal = str(error)
        return findings.summarise(said, holders, everyone, refusal)
    finally:
        child.kill()


def main() -> None:
    """Leave the report of the request at hand."""
    asked = request.current()
    seconds = min(30.0, max(0.5, float(asked.args.get("seconds", 2.0))))
    report = observe(asked.args, tensors.read(asked.sections["inputs"]), seconds)
    asked.write_report(json.dumps(report, allow_nan=False).encode())


if __name__ == "__main__":
    main()
