"""A pytest plugin: one JSON line for each thing that happened, to the file named in SUITE_EVENTS.

SUITE_ONLY names a file with the ids of the tests to run, one a line; all others are deselected.
"""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

_MOST = 300


def _write(**event: Any) -> None:
    path = os.environ.get("SUITE_EVENTS")
    if path:
        with open(path, "a") as file:
            file.write(json.dumps(event) + "\n")


def pytest_configure(config: "pytest.Config") -> None:
    """A suite that stops at its first failure says nothing of the rest."""
    config.option.maxfail = 0
    if hasattr(config, "workerinput"):  # pytest-xdist: what its workers do is reported where they were started
        os.environ.pop("SUITE_EVENTS", None)


def pytest_collection_modifyitems(config: "pytest.Config", items: list["pytest.Item"]) -> None:
    """Leave the tests that were asked for."""
    path = os.environ.get("SUITE_ONLY")
    if path:
        wanted = set(Path(path).read_text().splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
        items[:] = [item for item in items if item.nodeid in wanted]


def pytest_collection_finish(session: "pytest.Session") -> None:
    """What is going to run."""
    _write(event="collected", ids=[item.nodeid for item in session.items])


def pytest_collectreport(report: "pytest.CollectReport") -> None:
    """A file that could not be read as tests."""
    if report.failed:
        _write(event="broken", id=report.nodeid, message=_last_line(str(report.longrepr)))


def pytest_runtest_logstart(nodeid: str, location: tuple[str, int | None, str]) -> None:
    """Which one is under way, should it never end."""
    _write(event="start", id=nodeid, path=location[0], line=(location[1] or 0) + 1)


def pytest_runtest_logreport(report: "pytest.TestReport") -> None:
    """One phase of one test: setup, call or teardown."""
    expected = hasattr(report, "wasxfail")
    crash = getattr(report.longrepr, "reprcrash", None)
    message = f"{crash.message} at {crash.path}:{crash.lineno}" if crash else (str(report.longrepr) if report.failed else "")
    place, line, _ = report.location
    _write(
        event="phase", id=report.nodeid, when=report.when, outcome=report.outcome, expected=expected, seconds=report.duration,
        path=place, line=(line or 0) + 1, message=" ".join(message.split()).replace(f"{Path.cwd()}/", "")[:_MOST],
    )  # fmt: skip


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_MOST] if lines else ""
