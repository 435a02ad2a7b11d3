"""The instrument ``tests`` in a real cage, with real pytest: what of a suite is seen, and what cannot be hidden."""

import pytest

from infra_agent.errors import UsageError
from infra_agent.judge import commands, seeds
from infra_agent.judge.collector import Collector
from infra_agent.session.observation import Observation
from infra_agent.task.load import load
from infra_agent.task.spec import Commands
from infra_agent.task.tree import Tree
from tests.pairs.pair import TASKS, ask

CHECKS = b"""import pytest

from work.lists import total


def test_total():
    assert total([1, 2]) == 3


@pytest.mark.xfail(reason="known", strict=True)
def test_known():
    assert total([]) is None


@pytest.fixture
def broken():
    raise RuntimeError("at base too")


def test_fixture(broken):
    pass
"""
BASE: Tree = {"work/__init__.py": b"", "work/lists.py": b"def total(v):\n    return sum(v)\n", "checks/test_a.py": CHECKS}


@pytest.fixture(scope="module")
def collector():
    with Collector(load(str(TASKS / "tests")), seeds.new_secret()) as made:
        yield made


def observed(collector: Collector, lists: str | None, **files: bytes) -> Observation:
    own = {"work/lists.py": lists.encode()} if lists else {}
    return ask(collector, "tests", {**BASE, **own, **files}, BASE, {})


def test_every_outcome_is_seen_as_pytest_gives_it(collector: Collector) -> None:
    run = commands._tested(collector, BASE, commands.asked(collector, "test"), [])
    assert (run.ended, run.code) == ("ok", 1)
    assert {t.id: (t.outcome, t.path, t.line) for t in run.tests} == {
        "checks/test_a.py::test_total": ("passed", "checks/test_a.py", 6),
        "checks/test_a.py::test_known": ("xfailed", "checks/test_a.py", 10),
        "checks/test_a.py::test_fixture": ("error", "checks/test_a.py", 20),
    }
    assert run.collected == tuple(t.id for t in run.tests)
    assert "at base too" in run.by_id["checks/test_a.py::test_fixture"].message


def test_what_base_does_too_is_no_fault(collector: Collector) -> None:
    observation = observed(collector, None)
    assert (observation.status, observation.findings) == ("pass", ())
    assert observation.trust == "in-process"
    assert {m.name: (m.value, m.base) for m in observation.metrics if m.unit == "1"} == {"passed": (1.0, 1.0), "failed": (0.0, 0.0)}


def test_edited_and_deleted_tests_are_base_s_again(collector: Collector) -> None:
    wrong = {"work/lists.py": b"def total(v):\n    return 0\n", "work/__init__.py": b""}
    for tree in (wrong, {**wrong, "checks/test_a.py": b"def test_total():\n    pass\n"}):
        observation = ask(collector, "tests", tree, BASE, {})
        assert (observation.status, observation.kind) == ("fail", "broken_test")
        assert str(observation.findings[0].where) == "checks/test_a.py:6"


@pytest.mark.parametrize("trick", [
    "import os\ndef total(v):\n    os._exit(0)\n",  # ends the run with success
    (
        "import os\nfor name in list(os.environ):\n    if name.startswith('SUITE'):\n        open(os.environ[name], 'w').close()\n"
        "import atexit\natexit.register(lambda: os._exit(0))\ndef total(v):\n    return 0\n"
    ),
    "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\ndef total(v):\n    return 3\n",  # the runner itself
])  # fmt: skip
def test_a_run_that_is_cut_short_is_no_success(collector: Collector, trick: str) -> None:
    observation = observed(collector, trick)
    assert observation.status == "fail"
    assert observation.kind in ("tampered", "crashed", "broken_test")


def test_the_child_can_neither_read_the_nonce_nor_write_the_report(collector: Collector) -> None:
    spy = """
import os
def total(v):
    seen = ""
    parent = os.getppid()
    for path in (f"/proc/{parent}/mem", f"/proc/{parent}/maps", f"/proc/{parent}/environ", f"/proc/{parent}/fd"):
        try:
            seen += str(os.listdir(path) if path.endswith("fd") else open(path, "rb").read(1))
        except OSError:
            pass
    links = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")]
    assert seen == "", seen
    assert not [link for link in links if "memfd" in link], links
    assert not [name for name in os.environ if "CAGE" in name]
    return sum(v)
"""
    observation = observed(collector, spy)
    assert observation.status == "pass", observation.findings


def test_configuration_that_the_patch_brings_is_named(collector: Collector) -> None:
    observation = observed(collector, None, **{"conftest.py": b"collect_ignore = ['checks/test_a.py']\n"})
    assert (observation.status, observation.kind) in (("fail", "tampered"), ("fail", "crashed"))
    assert "conftest.py" in {str(f.where) for f in observation.findings if f.kind == "test_configuration"}


def test_a_command_that_is_not_there_says_nothing(collector: Collector) -> None:
    nothing = commands._tested(collector, BASE, Commands(test=("no-such-command",)), [])
    assert (nothing.code, nothing.tests) == (127, ())


def test_a_task_without_a_command_is_told(collector: Collector) -> None:
    with pytest.raises(UsageError, match="bench is missing"):
        commands.asked(collector, "bench")
