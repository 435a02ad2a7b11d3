"""What asking an instrument costs, warm, program included: a table, one row each. Aims: static 2 s, its cache 50 ms, lint 50 ms."""

from typing import Any

import pytest

from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.task.load import load
from tests.pairs.__main__ import INSTRUMENTS, generator
from tests.pairs.pair import TASKS, ask

pytestmark = pytest.mark.benchmark


@pytest.mark.parametrize("instrument", INSTRUMENTS)
def test_ask(benchmark: Any, instrument: str) -> None:
    """The healthy twin of pair 0, its cage warm; the instrument's own account of its cost beside."""
    pair = generator(instrument)(0)
    with Collector(load(str(TASKS / pair.task)), seeds.new_secret()) as collector:
        seen = benchmark.pedantic(lambda: ask(collector, instrument, pair.healthy, pair.healthy, pair.arguments), rounds=5, warmup_rounds=1)
    assert seen.status == "pass", seen.headline
    benchmark.extra_info["cost_s"] = seen.cost_s
