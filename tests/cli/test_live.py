"""The live view: what it shows after each kind of event, on a real terminal and off one."""

import os
import pty
import sys
from pathlib import Path

import pytest

from infra_agent.cli.live import View
from infra_agent.session import events
from infra_agent.session.events import Usage
from infra_agent.session.observation import Finding, LineWhere, Observation
from tests.conftest import ROOT
from tests.support import mark_audited, rows_task


def test_what_is_shown_follows_the_events() -> None:
    view = View(limits={"steps": 20})
    finding = Finding(kind="incorrect", where=LineWhere(path="m.py", line=3), magnitude=2.0, message="off\x1b[2Jby two")
    for event in (
        events.ModelRequested(model="m", digest="d", messages=4),
        events.ModelReplied(request="d", text="", tool_calls=(), usage=Usage(input_tokens=100, cached_tokens=40, output_tokens=7)),
        events.HypothesisStated(hypothesis="h-1", claim="the axis", prediction="p", check="accuracy"),
        events.HypothesisSettled(hypothesis="h-1", outcome="refuted", observation="a-1"),
        events.HypothesisStated(hypothesis="h-2", claim="the dtype", prediction="p", check="accuracy"),
        events.ObservationMade(
            action="a-2", tree="t", observation=Observation(instrument="accuracy", status="fail", headline="one", findings=(finding,))
        ),
        events.ProposalMade(action="a-3", base="b", patch="p", title="Mend it", summary="s"),
        events.CheckFinished(proposal="p", name="scope", status="pass"),
        events.Note(text="go on", to_model=True),
    ):
        view.take(event)
    shown = "\n".join(view.lines())
    for part in (
        "step 1 of 20", "100 tokens in (40 cached), 7 out", "price unknown", "now: the gate judges: Mend it", "- h-1 refuted: the axis",
        "? h-2 open: the dtype", "[a-2] accuracy: fail — one", "m.py:3", "gate: scope: pass", "told the model: go on",
    ):  # fmt: skip
        assert part in shown, shown
    assert "\x1b" not in shown
    view.take(events.ModelReplied(request="d", text="", tool_calls=(), usage=Usage(cost_usd=0.5)))
    assert "$0.50" in view.lines()[1]


def test_on_a_terminal_it_is_drawn_in_place(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = rows_task(tmp_path)
    mark_audited(task, home)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TERM", "xterm")
    drawn = bytearray()

    def read(terminal: int) -> bytes:
        data = os.read(terminal, 65536)
        drawn.extend(data)
        return data

    status = pty.spawn([sys.executable, "-m", "infra_agent.cli.main", "run", str(task.folder), "--max-steps", "2"], read)
    assert os.waitstatus_to_exitcode(status) in (1, 3, 4)
    assert b"\x1b[" in drawn and b"step 2 of 2" in drawn and b"driver playbook" in drawn
