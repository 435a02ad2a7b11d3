"""How many bytes of trace JSON a second are reduced: of events in memory, and from the text on. Aim: 20 MB/s."""

import json
import random
import time
from typing import Any

import pytest

from feedback.trace.reduce import reduce, unhindered
from feedback.trace.speedscope import convert

pytestmark = pytest.mark.benchmark
OPERATIONS = 60_000


def _trace(streams: bool) -> bytes:
    """Four threads: a look each millisecond with functions around it, and operations inside; or two GPU streams beside launches."""
    rng, events = random.Random(0), []
    for tid in range(1, 5):
        clock = 0.0
        for number in range(OPERATIONS // 4):
            length = rng.uniform(3, 40)
            name = f"aten::op{number % 9}"
            args = {"External id": number, "Record function id": 0, "Ev Idx": number}
            events.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": tid, "ts": clock, "dur": length, "args": args})
            if streams and number % 2 == 0:
                args = {"correlation": tid * 1_000_000 + number}
                call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": tid, "ts": clock + 1, "dur": 1.5}
                kernel = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7 + tid % 2, "ts": 45 * number + 20 * tid, "dur": 12}
                events += [call | {"args": args}, kernel | {"args": args}]
            clock += length + rng.uniform(0, 5)
        for look in range(0 if streams else int(clock / 1000)):
            line = {"path": "work/entry.py", "line": look % 40 + 1, "function": "run"}
            state = rng.choice(("run", "run", "run", "lock", "condition", "sleep"))
            piece = {"ph": "X", "pid": 1, "tid": tid, "ts": look * 1000.0, "dur": 1000.0}
            events += [piece | {"cat": "python", "name": "run"}, piece | {"cat": f"line.{state}", "name": f"{look}", "args": line}]
    return json.dumps({"traceEvents": events}).encode()


@pytest.mark.parametrize("streams", [False, True], ids=["threads", "streams"])
def test_reduced(benchmark: Any, streams: bool) -> None:
    text = _trace(streams)
    began = time.perf_counter()
    with unhindered():
        events = json.loads(text)["traceEvents"]
    parsing = time.perf_counter() - began
    summary = benchmark.pedantic(lambda: reduce(events), rounds=5, warmup_rounds=1)
    assert summary.wall > 0.1 and summary.path and bool(summary.devices) == streams
    benchmark.extra_info["trace_mb"] = round(len(text) / 1e6, 1)
    benchmark.extra_info["mb_per_s"] = round(len(text) / 1e6 / benchmark.stats.stats.median, 1)
    benchmark.extra_info["mb_per_s_with_parsing"] = round(len(text) / 1e6 / (parsing + benchmark.stats.stats.median), 1)


def test_converted_to_speedscope(benchmark: Any) -> None:
    text = _trace(False)
    events = json.loads(text)["traceEvents"]
    assert benchmark.pedantic(lambda: convert(events), rounds=3, warmup_rounds=1)["profiles"]
    benchmark.extra_info["mb_per_s"] = round(len(text) / 1e6 / benchmark.stats.stats.median, 1)
