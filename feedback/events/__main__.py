"""Instrument ``events``: evidence kind ``events``. It runs one schedule for each call and leaves the log; the judge draws and concludes."""

import json
import struct
from importlib import import_module
from typing import Any

import numpy as np

from feedback.events.runtime import Runtime
from sandboxes.runtime import entry, request

LOG = "0/log"


def schedule(scenario: Any, asked: dict[str, Any]) -> bytes:
    """Run the scenario under one seed; the log and, if it failed, how."""
    runtime = Runtime(int(asked["seed"]), asked.get("delays") or {})
    error = ""
    try:
        runtime.run(scenario(runtime))
    except Exception as raised:  # an order in which the code's own check fails is what is being looked for
        error = f"{type(raised).__name__}: {raised}"
    log = [(*event[:5], entry.relative(event[5])) for event in runtime.log]
    return json.dumps({"log": log, "error": error[:400]}, separators=(",", ":")).encode()


def main() -> None:
    """Serve schedules: section ``schedule`` holds the next one as JSON, padded with spaces."""
    asked = request.current()
    where = asked.args["scenario"]
    scenario = getattr(import_module(where["module"]), where["callable"])
    slot = asked.slots[LOG]
    room = int(np.prod(slot["shape"]))

    def handle(first: int, count: int) -> None:
        found = schedule(scenario, json.loads(bytes(asked.sections["schedule"])))
        if len(found) + 8 > room:
            raise ValueError(f"a log of {len(found)} bytes, {room} fit: make the scenario shorter")
        asked.sink[slot["offset"] : slot["offset"] + 8 + len(found)] = struct.pack("<Q", len(found)) + found

    asked.serve(handle)


if __name__ == "__main__":
    main()
