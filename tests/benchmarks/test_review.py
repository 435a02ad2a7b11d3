"""How long a reviewer waits for a long patch: detectors, marks, checks and all. Aim: 0.5 s for two thousand lines."""

from dataclasses import replace
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from infra_agent.proposal.review import render
from infra_agent.proposal.store import find_proposal
from tests.proposal.recorded import long_patch, session_of
from tests.support import rows_task

pytestmark = pytest.mark.benchmark


def test_review_of_two_thousand_lines(benchmark: BenchmarkFixture, tmp_path: Path, home: Path) -> None:
    _, identity = session_of(rows_task(tmp_path), home)
    proposal = find_proposal(identity)
    made = proposal.made.model_copy(update={"patch": proposal.session.blobs.put(long_patch(tmp_path, 2_000))})
    text = benchmark.pedantic(lambda: render(replace(proposal, made=made)), rounds=5, iterations=1)
    assert text.count("\n+value") == 999 and "<-- high: concurrency" in text
