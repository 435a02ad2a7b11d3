"""Runs the entry under observation: looks at its threads, and PyTorch's own profiler beside, on one clock."""

import json
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from feedback.trace.lanes import Event
from feedback.trace.reduce import unhindered
from feedback.trace.sampler import PERIOD_S, Sampler

_MARK = "trace: clock"
_MOST_OPERATIONS_S = 5.0
"""A call that takes longer is not recorded by torch.profiler, which keeps every operation in memory."""
_MOST_LOOKS = 50_000


@dataclass
class Observed:
    """Events in microseconds of ``time.perf_counter``; the calls lie within ``window``. ``notes``: what was not looked at, and why."""

    events: list[Event]
    window: tuple[float, float]
    calls: int
    plain_s: float
    """One call before, without observation."""
    looking_s: float
    looks: int
    notes: list[str] = field(default_factory=list)


def observe(call: Callable[[], object], seconds: float) -> Observed:
    """A first call that warms up, a second one for its time, then calls for ``seconds`` under observation; one at least."""
    call()
    began = time.perf_counter()
    call()
    plain = time.perf_counter() - began
    notes = [f"a call takes {plain:.1f} s: no PyTorch operations were recorded"] if plain > _MOST_OPERATIONS_S else []
    recorder = None if notes else _profiler(notes)
    calls = 0
    with recorder or nullcontext():
        mark = _mark() if recorder else 0.0
        with Sampler(max(PERIOD_S, plain / _MOST_LOOKS)) as sampler:
            first = last = time.perf_counter()
            while calls == 0 or last - first < seconds:
                call()
                calls += 1
                last = time.perf_counter()
    events = sampler.events() + (_operations(recorder, mark) if recorder else [])
    return Observed(events, (first * 1e6, last * 1e6), calls, plain, sampler.spent_ns / 1e9, sampler.looks, notes)


def _profiler(notes: list[str]) -> Any:
    """torch.profiler over all threads, and the GPU where there is one. Its stacks are left out: see :mod:`feedback.trace.sampler`."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
    try:
        from torch._C._profiler import _ExperimentalConfig

        config = _ExperimentalConfig(profile_all_threads=True)
    except (ImportError, TypeError):
        notes.append("this torch records the operations of the calling thread only")
        return profile(activities=activities)
    return profile(activities=activities, experimental_config=config)


def _mark() -> float:
    """An operation whose time on both clocks is known; microseconds of ``perf_counter``."""
    import torch

    with torch.profiler.record_function("trace: first"):
        pass  # the first one is slow
    began = time.perf_counter()
    with torch.profiler.record_function(_MARK):
        return began * 1e6


def _operations(recorder: Any, mark: float) -> list[Event]:
    """torch's events on the clock of ``perf_counter``; its threads carry the names that looks found."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "torch.json")
        recorder.export_chrome_trace(str(path))
        with path.open(encoding="utf-8", errors="replace") as file, unhindered():
            found: list[Event] = json.load(file)["traceEvents"]
    at = next((event["ts"] for event in found if event.get("name") == _MARK), None)
    if at is None:
        return []
    kept = [event for event in found if event.get("ph") == "X" and event.get("cat") != "Trace"]
    for event in kept:
        event["ts"] += mark - at
        if event["cat"] == "cpu_op":
            event.pop("args", None)  # ids of torch's own: most of the file, and nothing reads them
    return kept
