"""How many events a second the judge puts in order. Aim: 100,000."""

import json
import random
import struct
from typing import Any

import pytest

from infra_agent.judge.events import parse, violations

pytestmark = pytest.mark.benchmark
EVENTS = 100_000


def _log() -> bytes:
    """Eight threads under a lock, in turns: each takes it, reads, writes and lets go."""
    rng, rows = random.Random(0), []
    for turn in range(EVENTS // 4):
        who, thing = f"thread{rng.randrange(8)}", f"page{rng.randrange(64)}"
        for op, name in (("acquire", "lock"), ("read", thing), ("write", thing), ("release", "lock")):
            rows.append((turn * 1e-6, who, op, name, 0, "work.py:1"))
    text = json.dumps({"log": rows, "error": ""}).encode()
    return struct.pack("<Q", len(text)) + text


def test_events_in_order(benchmark: Any) -> None:
    text = _log()
    log, _ = parse(text)
    assert len(log) == EVENTS
    assert benchmark.pedantic(lambda: violations(log), rounds=5, warmup_rounds=1) == []
    benchmark.extra_info["events_per_s"] = round(EVENTS / benchmark.stats.stats.median)


def test_events_parsed(benchmark: Any) -> None:
    text = _log()
    assert len(benchmark.pedantic(lambda: parse(text), rounds=5, warmup_rounds=1)[0]) == EVENTS
    benchmark.extra_info["events_per_s"] = round(EVENTS / benchmark.stats.stats.median)
