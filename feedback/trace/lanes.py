"""Chrome-trace events as lanes: what each thread did, or waited for, and what each GPU stream ran, one thing at a time. Pure."""

import itertools
import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Event = dict[str, Any]
_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
_HOST = {"cpu_op", "python_function", "user_annotation", "cuda_runtime", "cuda_driver"}
_OPERATION = "cpu_op"
_LINE = "line."
_FUNCTION = re.compile(r"^(.*)\((\d+)\): (.*)$")
"""How torch.profiler names a Python function: path(line): name."""
_WAITS_FOR_DEVICE = re.compile(r"^(cu|hip)\w*(Synchronize|EventQuery|StreamQuery)")
_MICRO = 1e-6
_TICK = 1e-7
_NUMBERED = re.compile(r"^Thread-\d+")


class Slice(NamedTuple):
    """One thing. Seconds. ``state``: run, or what is waited for (lock, condition, join, gil, sleep, io, device, wait)."""

    start: float
    end: float
    state: str
    place: str
    """``path:line`` of the workspace; "" where it is not known."""
    name: str
    cause: float = -1.0
    """When it was asked for: of a kernel, when its launch began."""


@dataclass
class Lane:
    """Slices in order; none overlaps the next."""

    name: str
    device: bool
    slices: list[Slice]
    starts: list[float] = field(default_factory=list)
    operations: list[tuple[float, float]] = field(default_factory=list)
    """Outermost PyTorch operations of the thread, in order: start, end."""

    def __post_init__(self) -> None:
        self.starts = [piece.start for piece in self.slices]

    def at(self, moment: float) -> int:
        """Index of the last slice that starts before ``moment``; -1 when there is none."""
        return bisect_right(self.starts, moment - 1e-9) - 1


def parse(events: list[Event]) -> list[Lane]:
    """Lanes of a trace. Threads come from looks where there are any and nothing ran on a device; else from torch's own events."""
    kinds: dict[str, dict[tuple[Any, Any], list[Event]]] = {kind: defaultdict(list) for kind in ("line", "host", "device")}
    names: dict[tuple[Any, Any], str] = {}
    for event in events:
        key = (event.get("pid"), event.get("tid"))
        category = event.get("cat") or ""
        if event.get("ph") == "X":
            kind = "line" if category.startswith(_LINE) else "host" if category in _HOST else "device" if category in _DEVICE else ""
            if kind:
                kinds[kind][key].append(event)
        elif event.get("name") == "thread_name":
            names[key] = str(event["args"]["name"])
    return _assembled(kinds["line"], kinds["host"], kinds["device"], names)


def merged(lanes: list[Lane]) -> list[Lane]:
    """One lane for all threads of a name of which no two lived at once: those that a call starts, another starts anew."""
    found: dict[str, Lane] = {}
    for lane in sorted(lanes, key=lambda lane: lane.starts[0]):
        base = _NUMBERED.sub("Thread", lane.name)
        labels = itertools.chain([base], (f"{base} #{number}" for number in itertools.count(2)))
        label = next(n for n in labels if n not in found or found[n].slices[-1].end <= lane.starts[0] + _TICK)
        before = found.get(label) or Lane(label, lane.device, [])
        found[label] = Lane(label, lane.device, before.slices + lane.slices, operations=before.operations + lane.operations)
    return list(found.values())


Rows = dict[tuple[Any, Any], list[Event]]


def _assembled(line: Rows, host: Rows, device: Rows, names: dict[tuple[Any, Any], str]) -> list[Lane]:
    looked = {key[1]: Lane(names.get(key, str(key[1])), False, _looks(found)) for key, found in line.items()}
    launched = {e["args"]["correlation"]: e["ts"] * _MICRO for found in host.values() for e in found if "correlation" in e.get("args", {})}
    lanes: list[Lane] = []
    if device or not looked:
        for key, found in host.items():
            lanes.append(Lane(names.get(key, str(key[1])), False, _flat(found, looked.get(key[1]))))
    else:
        lanes += looked.values()
        for key, found in host.items():
            if key[1] in looked:
                looked[key[1]].operations = _outermost(found)
    streams = [Lane(f"stream {key[1]} of device {key[0]}", True, _kernels(found, launched)) for key, found in device.items()]
    return merged([lane for lane in [*lanes, *streams] if lane.slices])


def _looks(found: list[Event]) -> list[Slice]:
    slices = []
    for event in sorted(found, key=_start):
        start, args = event["ts"] * _MICRO, event["args"]
        place = f"{args['path']}:{args['line']}" if "path" in args else ""
        slices.append(Slice(start, start + event["dur"] * _MICRO, event["cat"][len(_LINE) :], place, args["function"]))
    return slices


def _kernels(found: list[Event], launched: dict[int, float]) -> list[Slice]:
    slices = []
    for event in sorted(found, key=_start):
        start, asked = event["ts"] * _MICRO, launched.get(event.get("args", {}).get("correlation"), -1.0)
        slices.append(Slice(start, start + event["dur"] * _MICRO, "run", "", event["name"], asked))
    return slices


def _start(event: Event) -> tuple[float, float]:
    """Order of nested events: the outer one first."""
    return event["ts"], -event["dur"]


def _outermost(found: list[Event]) -> list[tuple[float, float]]:
    spans: list[tuple[float, float]] = []
    end = -1.0
    for event in sorted((e for e in found if e["cat"] == _OPERATION), key=_start):
        start = event["ts"] * _MICRO
        if start >= end:
            end = start + event["dur"] * _MICRO
            spans.append((start, end))
    return spans


def _flat(found: list[Event], looked: Lane | None) -> list[Slice]:
    """Nested events of one thread as what is innermost at each moment; between outermost ones there is nothing."""
    slices: list[Slice] = []
    open_: list[tuple[float, Event, str]] = []
    moment = 0.0

    def upto(end: float) -> None:
        nonlocal moment
        if open_ and end > moment:
            _, event, place = open_[-1]
            state = "device" if _WAITS_FOR_DEVICE.match(event["name"]) else "run"
            slices.append(Slice(moment, end, state, _looked_at(looked, moment) or place, event["name"]))
        moment = max(moment, end)

    for event in sorted(found, key=_start):
        start = event["ts"] * _MICRO
        while open_ and open_[-1][0] <= start:
            upto(open_[-1][0])
            open_.pop()
        upto(start)
        named = _FUNCTION.match(event["name"]) if event["cat"] == "python_function" else None
        around = open_[-1][2] if open_ else ""
        open_.append((start + event["dur"] * _MICRO, event, f"{named[1]}:{named[2]}" if named else around))
    while open_:
        upto(open_[-1][0])
        open_.pop()
    return slices


def _looked_at(looked: Lane | None, moment: float) -> str:
    index = looked.at(moment + 1e-9) if looked else -1
    return looked.slices[index].place if looked and index >= 0 else ""
