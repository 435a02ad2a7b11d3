"""The instrument ``lint`` in a real cage: what is an added line, what is worth a question, what is not."""

import ast
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedback.lint import added, rules
from feedback.lint.kept import Kept
from feedback.lint.scan import Scanner
from infra_agent import instruments
from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.session.observation import Observation
from infra_agent.task.load import load
from infra_agent.task.tree import Tree
from tests.pairs import of_lint
from tests.pairs.pair import TASKS, ask


@pytest.fixture(scope="module")
def collector():
    with Collector(load(str(TASKS / "plain")), seeds.new_secret()) as made:
        yield made


def lint(collector: Collector, tree: Tree, base: Tree = of_lint.BASE) -> Observation:
    return ask(collector, "lint", tree, base, {})


def said(text: str) -> set[tuple[str, int]]:
    module = ast.parse(text)
    return {(hit.kind, hit.first) for hit in [*Scanner(frozenset({"work"})).read(module), *Kept(module, "run").read()]}


@pytest.mark.parametrize("seed", range(22))
def test_every_line_of_a_trick_is_new_and_named_and_an_honest_patch_is_left_alone(collector: Collector, seed: int) -> None:
    """Pairs take the twin for base, where it adds nothing; here both are patches of a base that has neither."""
    pair = of_lint.pair(seed)
    found = [f for f in lint(collector, pair.faulty).findings if f.kind in pair.kinds]
    assert found
    assert re.search(pair.where, f"{found[0].where}: "), found
    honest = lint(collector, pair.healthy).findings
    assert [f for f in honest if f.kind != "cache_by_shape"] == []  # a fact of low rank, and true of a cache of tile sizes


def test_lines_of_base_are_not_mentioned_and_the_others_are_cheap(collector: Collector) -> None:
    old = b"import os\n\nPID = os.getpid()\n" + b"def f(x):\n    return x\n\n\n" * 300
    new = old.replace(b"PID", b"# a comment moves the line\nPID", 1) + b"HOME = os.getenv('HOME')\n"
    last = len(new.splitlines())
    observation = lint(collector, {"work/a.py": new}, {"work/a.py": old})
    assert [(str(f.where), f.kind) for f in observation.findings] == [(f"work/a.py:{last}", "environment")]
    assert observation.status == "pass"
    assert observation.trust == "advice"


def test_it_takes_less_than_fifty_milliseconds_in_the_cage(collector: Collector) -> None:
    line = b"def f_%d(x, key):\n    y = x.shape[0] + key\n    return torch.mul(x, y)\n\n\n"
    tree = {f"work/m{n}.py": b"import torch\n" + b"".join(line % k for k in range(40)) for n in range(2)}  # more than most patches add
    lint(collector, tree)
    case = collector.smallest_case()
    taken = []
    for _ in range(5):
        report = collector.report(instruments.load("lint"), tree, case, {}, of_lint.BASE)
        assert report.data["added_lines"] == 2 * 201
        taken.append(report.data["seconds"])
    assert min(taken) < 0.050, taken


def test_a_join_that_was_taken_away_is_named_at_the_thread(collector: Collector) -> None:
    old = b"import threading\n\n\ndef run(x):\n    t = threading.Thread(target=print)\n    t.start()\n    t.join()\n"
    found = lint(collector, {"work/a.py": old.replace(b"    t.join()\n", b"")}, {"work/a.py": old}).findings
    assert [(str(f.where), f.kind) for f in found] == [("work/a.py:5", "thread_left")]
    assert lint(collector, {"work/a.py": old + b"\n\nA = 1\n"}, {"work/a.py": old}).findings == ()


def test_without_base_it_says_so(collector: Collector) -> None:
    report = collector.report(instruments.load("lint"), of_lint.BASE, collector.smallest_case(), {})
    assert report.status == "not_run"
    assert "base" in report.headline


def test_a_file_that_cannot_be_read_is_named(collector: Collector) -> None:
    tree = {**of_lint.BASE, "work/a.so": b"\x7fELF\xff\xfe", "work/b.py": b"def f(:\n"}
    observation = lint(collector, tree)
    assert {(str(f.where), f.kind) for f in observation.findings} == {("work/a.so", "opaque_file"), ("work/b.py:1", "syntax_error")}


@pytest.mark.parametrize(("text", "kinds"), [
    ("def f(time):\n    return time.time()", set()),
    ("import time\ndef f():\n    return time.time()", {("clock", 3)}),
    ("import time\ndef f(time):\n    return time.time()", set()),
    ("import time\ndef f():\n    time = object()\n    return time.time()", set()),
    ("class A:\n    def eval(self):\n        return self.eval()", set()),
    ("import work.config\nwork.config.SIZE = 3", set()),
    ("import torch\ntorch.backends.cuda.matmul.allow_tf32 = True", {("global_setting", 2)}),
    ("def run(x):\n    type(x).copy_ = None", {("monkeypatch", 2)}),
    ("import numpy\ndel numpy.float64", {("monkeypatch", 2)}),
    ("try:\n    import ctypes\nexcept ImportError:\n    ctypes = None\nctypes.CDLL(None)", {("raw_memory", 2), ("raw_memory", 5)}),
    ("with open('a') as file:\n    pass", {("file_read", 1)}),
    ("def f(x, mode):\n    return open(x, mode)", {("file_write", 2)}),
    ("from concurrent.futures import ThreadPoolExecutor\ndef f():\n    with ThreadPoolExecutor() as pool:\n        pool.submit(f)", set()),
    ("from concurrent.futures import ThreadPoolExecutor\nPOOL = ThreadPoolExecutor()", {("thread_left", 2)}),
    ("C = {}\ndef run(x):\n    C.setdefault(x.shape, x * 2)", {("kept_result", 3)}),
    ("C = {}\ndef run(x):\n    C[x.shape] = 1", {("cache_by_shape", 3)}),
    ("C = {}\ndef run(x):\n    p = x.data_ptr()\n    C[p] = 1", {("cache_by_pointer", 4), ("raw_memory", 3)}),
    ("def run(x, seen={}):\n    seen[x.shape] = x + 1", {("kept_result", 2)}),
    ("LAST = None\ndef run(x):\n    global LAST\n    y = x + 1\n    LAST = y", {("kept_result", 5)}),
    ("C = {}\ndef help(v):\n    C[0] = v\ndef run(x):\n    help(x + 1)\n    help(3)", {("kept_result", 3)}),
    ("C = {}\ndef help(v):\n    C[0] = v\ndef run(x):\n    help(x.shape[0])", set()),
    ("def run(x):\n    C = {}\n    C[x.shape] = x\n    return C", set()),
    ("import torch\nC = {}\ndef run(x):\n    o = torch.empty_like(x)\n    k[(1,)](x, o)\n    C[0] = o", {("kept_result", 6)}),
    ("import torch\nC = {}\ndef run(x):\n    o = torch.empty_like(x)\n    C[x.shape] = o", {("cache_by_shape", 5)}),
    ("a = b\nb = a\na.c = 1", set()),
])  # fmt: skip
def test_names_are_followed_and_hidden(text: str, kinds: set[tuple[str, int]]) -> None:
    assert said(text) == kinds


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
@settings(max_examples=200)
def test_without_the_added_lines_the_new_text_is_a_part_of_the_old(old: list[str], new: list[str]) -> None:
    numbers = added.lines("\n".join(old), "\n".join(new))
    lines = "\n".join(new).split("\n")
    kept = iter("\n".join(old).split("\n"))
    assert all(any(line == other for other in kept) for n, line in enumerate(lines, 1) if n not in numbers)
    assert old != new or not numbers


def test_every_family_has_a_rank() -> None:
    kinds = {rule.kind for rule in [*rules.BY_NAME.values(), *rules.BY_ATTRIBUTE.values()] if rule}
    assert kinds <= set(rules.SEVERITY)
