"""The instrument of docs/instruments.md, taken out of the page and run as a user's own."""

import re
from pathlib import Path

import pytest

from infra_agent import instruments
from infra_agent.agent.tools import parse
from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.judge.measure import measure
from infra_agent.session.observation import LineWhere
from infra_agent.task.load import load
from tests.conftest import ROOT
from tests.pairs.pair import TASKS

WORK = b"def short():\n    return 1\n\n\ndef long():\n" + b"    x = 1\n" * 9
TREE = {"work/__init__.py": b"", "work/scenario.py": WORK}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's two files, on INFRA_AGENT_PATH."""
    page = (ROOT / "docs" / "instruments.md").read_text()
    blocks = dict(re.findall(r"`([\w/.]+)`\n```\w+\n(.*?)```", page, re.DOTALL))
    assert set(blocks) == {"long_functions/instrument.toml", "long_functions/__main__.py"}
    assert len(blocks["long_functions/__main__.py"].splitlines()) <= 30
    for name, text in blocks.items():
        path = tmp_path / "feedback" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("INFRA_AGENT_PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("most", "found"), [(5, [("work/scenario.py", 5)]), (30, [])])
def test_the_page_s_instrument_runs(written: Path, most: int, found: list[tuple[str, int]]) -> None:
    assert "long_functions" in instruments.names()
    arguments, problem = parse("long_functions", f'{{"most": {most}}}', ("long_functions",))
    assert problem is None
    with Collector(load(str(TASKS / "plain")), seeds.new_secret()) as collector:
        seen, _ = measure(collector, "long_functions", TREE, TREE, arguments, ())
    places = [(finding.where.path, finding.where.line) for finding in seen.findings if isinstance(finding.where, LineWhere)]
    assert (seen.status, seen.trust, places) == ("pass", "advice", found)
    assert seen.headline == f"{len(found)} functions are too long"


def test_a_file_that_is_named_and_not_left_is_said(written: Path) -> None:
    about = written / "feedback" / "long_functions" / "instrument.toml"
    about.write_text(about.read_text().replace("[arguments]", 'artefacts = ["lengths.json"]\n\n[arguments]'))
    arguments, _ = parse("long_functions", "{}", ("long_functions",))
    with Collector(load(str(TASKS / "plain")), seeds.new_secret()) as collector:
        seen, records = measure(collector, "long_functions", TREE, TREE, arguments, ())
    assert seen.headline == "0 functions are too long; left no lengths.json" and list(records) == ["report"]
