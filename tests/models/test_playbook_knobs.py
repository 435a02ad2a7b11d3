"""The rule of declared knobs: what it reads as one, how it searches, and a task whose every name is another, with real instruments."""

import json
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from infra_agent.agent import session
from infra_agent.models.base import ToolSchema
from infra_agent.models.playbook import Playbook
from infra_agent.models.playbook.declared import knobs
from infra_agent.models.playbook.knobs import may_edit
from infra_agent.proposal.review import tried
from infra_agent.proposal.store import find_proposal
from infra_agent.session.budget import Limits
from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall
from infra_agent.task.load import Task, load
from tests.conftest import ROOT
from tests.support import mark_audited

TASK = ROOT / "tasks" / "cache-quant"
BRIEF = """# Title

Goal.

Entry: a.b
You may edit: app/**. Protected where they exist: app/fixed/**, conftest.py.
Limits:
- error of left may grow at most 3 times from case s to case l
"""
TOOLS = [ToolSchema(name, "", {}) for name in ("view", "search", "edit", "hypothesis", "propose", "accuracy")]
TABLE = "[first]\nsize = { now = 1, choices = [1, 2, 3] }\n[second]\nsize = { now = 1, choices = [1, 2, 3] }\n"
Settings = dict[str, int]


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("a.toml", TABLE, [("first.size", 1), ("second.size", 1)]),
        ("a.toml", "size = 4\nsize_choices = [2, 4]\nother = 3\nflat = true\nflat_may_be = [true, false]\n", [("size", 4), ("flat", True)]),
        ("a.toml", '[a.b]\nnow = "p"\nof = [\n "p",\n "q",\n]\n', [("a.b", "p")]),
        ("a.toml", 'files = ["x", "y"]\nname = "z"\nlevels = [1, 2]\n', []),
        ("a.toml", "not = = toml", []),
        ("a.py", 'from typing import Literal\nmode: Literal["f", "g"] = "g"\nn: int = 3\n', [("mode", "g")]),
        ("a.py", 'class P:\n    d: Literal[1, 2]\n\nT = {"x": P(d=1), "y": P(d=2), "z": Q(d=1)}\n', [("x.d", 1), ("y.d", 2)]),
        ("a.py", "def (", []),
    ],
)
def test_what_is_read_as_a_knob(path: str, text: str, found: list[tuple[str, object]]) -> None:
    assert [(knob.name, knob.value) for knob in knobs(path, text)] == found


@pytest.mark.parametrize(
    ("path", "text"), [("a.toml", TABLE), ("a.py", 'class P:\n    d: Literal[1, 2]\n\nT = {"é": P(d=1), "y": P(d=2)}\n')]
)
def test_an_edit_sets_one_knob_and_is_unique(path: str, text: str) -> None:
    for number, knob in enumerate(knobs(path, text)):
        value = next(v for v in knob.allowed if v != knob.value)
        old, new = knob.moved(text, value)
        assert text.count(old) == 1
        after = knobs(path, text.replace(old, new))
        assert [k.value for k in after] == [value if n == number else k.value for n, k in enumerate(knobs(path, text))]


def test_only_what_the_brief_allows_is_edited() -> None:
    assert may_edit(BRIEF, "app/table.toml") and not may_edit(BRIEF, "app/fixed/table.toml") and not may_edit(BRIEF, "table.toml")


class Bench:
    """A workspace of text files, and figures that are a function of its knobs; answers as the real tools do."""

    def __init__(self, files: dict[str, str], figures: Callable[[Settings], dict[str, tuple[float, float]]], *more: str) -> None:
        """``more``: further instruments."""
        self.files, self.figures = dict(files), figures
        self.tools = [*TOOLS, *(ToolSchema(name, "", {}) for name in more)]
        self.messages = [Message("system", ""), Message("user", BRIEF)]
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.stated = 0

    def run(self, most: int = 400) -> str:
        """Until the playbook proposes or stops; returns its last words, or ``propose``."""
        for _ in range(most):
            reply = Playbook().complete(self.messages, self.tools)
            if not reply.tool_calls:
                return reply.text
            (call,) = reply.tool_calls
            arguments = json.loads(call.arguments)
            self.asked.append((call.name, arguments))
            if call.name == "propose":
                return "propose"
            self._answer(reply.tool_calls, call, arguments)
        raise AssertionError("it does not end")

    def _answer(self, calls: tuple[ToolCall, ...], call: ToolCall, arguments: dict[str, str]) -> None:
        text = getattr(self, f"_{call.name}")(arguments)
        self.messages += [Message("assistant", "", calls), Message("tool", f"[a-{len(self.asked)}] {text}", call=call.id)]

    def _view(self, arguments: dict[str, str]) -> str:
        if "path" not in arguments:
            return "\n".join(["view: pass — files", *sorted(self.files)])
        rows = self.files[arguments["path"]].splitlines()
        return "\n".join(["view: pass — file", *(f"{n:5} {row}" for n, row in enumerate(rows, 1))])

    def _search(self, arguments: dict[str, str]) -> str:
        hits = [
            f"{path}:{n}: {row}" for path, text in self.files.items() for n, row in enumerate(text.splitlines(), 1) if "Literal[" in row
        ]
        return "\n".join([f"search: pass — {len(hits)} hits", *hits])

    def _edit(self, arguments: dict[str, str]) -> str:
        assert self.files[arguments["path"]].count(arguments["old"]) == 1
        self.files[arguments["path"]] = self.files[arguments["path"]].replace(arguments["old"], arguments["new"])
        return "edit: pass — edited"

    def _hypothesis(self, arguments: dict[str, str]) -> str:
        self.stated += arguments["do"] == "state"
        return f"hypothesis: pass — h-{self.stated} {'stated' if arguments['do'] == 'state' else arguments['outcome']}"

    def _accuracy(self, arguments: dict[str, str]) -> str:
        found = self.figures(self.settings)
        status = "fail (incorrect)" if any(value > limit for value, limit in found.values()) else "pass"
        return "\n".join(
            [f"accuracy: {status} — said", *(f"{name} = {value:.4g} (target {limit:.3g})" for name, (value, limit) in found.items())]
        )

    def _numerics(self, arguments: dict[str, str]) -> str:
        return "numerics: pass — no dot"

    def _microbench(self, arguments: dict[str, str]) -> str:
        """Three of the second knob are twice as fast as one."""
        ratio = (1 + self.settings["second.size"]) / 2
        status = "pass" if ratio > 1.5 else "fail (not_faster)"
        speedup = f"speedup@s = {ratio:.4g} ratio [{ratio - 0.1:.4g}, {ratio + 0.1:.4g}]"
        return f"microbench: {status} — said\n{speedup}\ncredited@s = {ratio - 0.6:.4g} ratio"

    @property
    def settings(self) -> Settings:
        return {knob.name: int(knob.value) for path, text in self.files.items() for knob in knobs(path, text)}

    @property
    def outcomes(self) -> list[str]:
        return [a["outcome"] for tool, a in self.asked if tool == "hypothesis" and a["do"] == "settle"]


def test_it_keeps_what_helps_and_undoes_what_does_not() -> None:
    """One knob must move and the other must not: the sum of both is limited."""
    bench = Bench(
        {"app/t.toml": TABLE}, lambda at: {"error.a@s": (4.0 / at["second.size"] ** 2, 1.2), "error.sum@s": (sum(at.values()), 4.0)}
    )
    assert bench.run() == "propose"
    assert bench.settings == {"first.size": 1, "second.size": 2}
    assert bench.outcomes[-1] == "confirmed" and "refuted" in bench.outcomes
    assert "second.size to 2" in bench.asked[-1][1]["title"]


def test_limits_on_growth_that_the_brief_states_are_kept_too() -> None:
    bench = Bench({"app/t.toml": TABLE}, lambda at: {"error.left@s": (0.1, 1.0), "error.left@l": (0.1 * 9 / at["first.size"] ** 2, 1.0)})
    assert bench.run() == "propose" and bench.settings["first.size"] >= 2


def test_it_gives_up_where_nothing_is_declared_before_anything_is_measured() -> None:
    bench = Bench({"app/t.toml": "size = 1\n", "app/a.py": "SIZE = 1\n"}, lambda at: {})
    assert "no rule applies: no file declares knobs" in bench.run()
    assert {tool for tool, _ in bench.asked} == {"view", "search"}


def test_it_gives_up_where_no_setting_helps_and_leaves_the_files_as_they_were() -> None:
    bench = Bench({"app/t.toml": TABLE}, lambda at: {"error.a@s": (2.0, 1.0)})
    assert "no rule applies any more" in bench.run()
    assert bench.files == {"app/t.toml": TABLE} and set(bench.outcomes) == {"refuted"} and len(bench.outcomes) == 4


def test_its_tries_are_counted() -> None:
    many = "".join(f"[k{n}]\nv = {{ now = 0, of = [0, 1, 2] }}\n" for n in range(30))
    bench = Bench({"app/t.toml": many}, lambda at: {"error.a@s": (2.0, 1.0)})
    assert "48 changes of single knobs were measured" in bench.run() and len(bench.outcomes) == 48


def test_nothing_is_changed_where_every_limit_holds() -> None:
    bench = Bench({"app/t.toml": TABLE}, lambda at: {"error.a@s": (0.5, 1.0)})
    assert "nothing to change" in bench.run() and not bench.outcomes


def test_it_is_asked_when_the_rule_before_it_gives_up_without_an_edit() -> None:
    bench = Bench({"app/t.toml": TABLE}, lambda at: {"error.a@s": (2.0 / at["first.size"], 1.2)}, "numerics", "static")
    assert bench.run() == "propose" and bench.settings["first.size"] == 2
    assert [tool for tool, _ in bench.asked[:4]] == ["accuracy", "numerics", "view", "search"]


def test_speed_is_asked_where_there_is_an_instrument_for_it_and_the_answers_are_right() -> None:
    """A smaller size is faster and wrong; only the other knob may make it so."""
    bench = Bench({"app/t.toml": TABLE}, lambda at: {"error.a@s": (2.0 if at["first.size"] > 1 else 0.5, 1.0)}, "microbench")
    assert bench.run() == "propose" and bench.settings == {"first.size": 1, "second.size": 3}


def test_it_names_nothing_of_a_task() -> None:
    sources = [p.read_text() for p in (ROOT / "infra_agent" / "models" / "playbook").glob("*.py")]
    words = re.compile(r"\bkv\b|\bssm\b|\bconv\b|bf16|int8|fp8|stochastic|precision\.toml|hybrid|handover|outliers|makespan")
    assert not [word for source in sources for word in words.findall(source)]


NAMES = {
    "hybrid": "mixer", "serving": "fleet", "kv": "alpha", "index": "beta", "conv": "gamma", "ssm": "delta", "rounding": "manner",
    "group": "span", "value": "now", "allowed": "options", "policy": "layout", "policies": "layouts", "Policy": "Layout",
    "caches": "stores", "Caches": "Stores", "Cache": "Store", "engine": "driver", "decode": "advance", "out": "answer",
    "bytes_by_class": "weight_by_store", "short": "s1", "outliers": "s2", "long": "s3", "stochastic": "drawn", "feedback": "carried",
    "nearest": "plain", "bf16": "half", "fp8": "tiny", "int8": "byte", "fp32": "whole",
}  # fmt: skip


def renamed(folder: Path, home: Path, setting: dict[str, str]) -> Task:
    """The task with other names everywhere, shorter cases, and another setting of its table to start from."""
    shutil.copytree(TASK, folder, ignore=shutil.ignore_patterns("audit.json", "controls", "solutions", "README.md", "__pycache__"))
    words = re.compile(r"np\.int8|\b(?:" + "|".join(NAMES) + r")\b")
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        text = path.read_text()
        if path.name == "task.py":
            text = re.sub(r'    \{"name": "(?:longest|loud|long-outliers)".*\n', "", text).replace('"size": 1024', '"size": 512')
        if path.name == "precision.toml":
            text = with_values(text, setting)
        if path.name == "policy.py":
            text = text.replace("precision.toml", "table.toml")
        path.write_text(words.sub(lambda m: NAMES.get(m[0], m[0]), text))
    for old in sorted(folder.rglob("*"), reverse=True):
        new = {"precision.toml": "table.toml"}.get(old.name, NAMES.get(old.stem, old.stem) + old.suffix)
        if new != old.name and "workspace" in old.parts:
            old.rename(old.with_name(new))
    task = load(str(folder))
    mark_audited(task, home)
    return task


def with_values(text: str, setting: dict[str, str]) -> str:
    """A table with the first value of each named knob replaced, in every class."""
    for knob, value in setting.items():
        text = re.sub(rf'^({knob} = {{ value = )"\w+"', rf'\1"{value}"', text, flags=re.MULTILINE)
    return text


@pytest.mark.slow
@pytest.mark.parametrize("setting", [{"dtype": "fp32"}, {"dtype": "bf16", "rounding": "feedback"}], ids=["too-large", "twice-over"])
def test_every_name_may_change_and_the_start_too(tmp_path: Path, home: Path, setting: dict[str, str]) -> None:
    task = renamed(tmp_path / "renamed", home, setting)
    assert not re.search(r"\b(kv|ssm|hybrid)\b", "".join(p.read_text() for p in task.workspace.rglob("*.*") if p.is_file()))
    name, outcome = session.run(task, Playbook(), "playbook", session.Options(False, Limits(steps=400), home), lambda event: None)
    assert outcome.exit_code == 0 and outcome.proposal, (name, outcome.reason)
    table = tomllib.loads((task.workspace / "mixer" / "table.toml").read_text())
    assert set(table) == {"alpha", "beta", "gamma", "delta"}
    assert {t.outcome for t in tried(find_proposal(outcome.proposal))} >= {"confirmed"}
