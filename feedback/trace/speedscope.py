"""Chrome-trace events as speedscope's JSON: one evented profile for each thread and stream. ``python -m feedback.trace.speedscope A B``."""

import gzip
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from feedback.trace.lanes import Event

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_LEAST_US = 1e-3


def convert(events: list[Event], name: str = "trace") -> dict[str, Any]:
    """The document. Slices (``ph`` X) that overlap without one holding the other are cut where the outer one ends."""
    rows: defaultdict[tuple[str, str], list[Event]] = defaultdict(list)
    names: dict[tuple[str, str], str] = {}
    for event in events:
        key = (str(event.get("pid")), str(event.get("tid")))
        if event.get("ph") == "X" and event.get("cat") != "Trace":
            rows[key].append(event)
        elif event.get("name") == "thread_name":
            names[key] = str(event["args"]["name"])
    frames: dict[str, int] = {}
    profiles = [_profile(names.get(key, f"{key[0]}/{key[1]}"), found, frames) for key, found in rows.items()]
    listed = [_frame(frame) for frame in frames]
    return {"$schema": _SCHEMA, "shared": {"frames": listed}, "profiles": profiles, "name": name, "exporter": "infra-agent trace"}


def _frame(name: str) -> dict[str, Any]:
    """A frame; one that is named ``path:line`` opens there."""
    path, _, line = name.rpartition(":")
    return {"name": name, "file": path, "line": int(line)} if path and line.isdigit() else {"name": name}


def _profile(name: str, found: list[Event], frames: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    open_: list[tuple[float, int]] = []

    def close(until: float) -> None:
        while open_ and open_[-1][0] <= until + _LEAST_US:
            end, frame = open_.pop()
            steps.append({"type": "C", "frame": frame, "at": max(end, steps[-1]["at"])})

    for event in sorted(found, key=lambda e: (e["ts"], -e["dur"])):
        start, end = event["ts"], event["ts"] + event["dur"]
        close(start)
        if open_:
            end = min(end, open_[-1][0])
        start = max(start, steps[-1]["at"]) if steps else start
        frame = frames.setdefault(_label(event), len(frames))
        steps.append({"type": "O", "frame": frame, "at": start})
        open_.append((max(end, start), frame))
    close(float("inf"))
    bounds = (steps[0]["at"], steps[-1]["at"])
    return {"type": "evented", "name": name, "unit": "microseconds", "startValue": bounds[0], "endValue": bounds[1], "events": steps}


def _label(event: Event) -> str:
    state = str(event.get("cat", "")).removeprefix("line.")
    waits = str(event.get("cat", "")).startswith("line.") and state != "run"
    return f"[{state}] {event['name']}" if waits else str(event["name"])


def main() -> None:
    """Convert ``trace.json`` or ``trace.json.gz`` to a file that speedscope.app opens."""
    source, target = map(Path, sys.argv[1:3])
    raw = source.read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    target.write_text(json.dumps(convert(json.loads(text)["traceEvents"], source.name)))


if __name__ == "__main__":
    main()
