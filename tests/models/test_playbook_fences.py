"""The rule of fences: which wait it finds where, what it does when refuted, and a task whose every name is another, with real instruments.

The order of events in the small cases is the real one: the workspace's text runs on the virtual clock, and the judge's own module looks.
"""

import json
import re
from collections.abc import Callable

import pytest

from feedback.events.runtime import Runtime
from infra_agent.judge.events import Event, EventsRecord, assess
from infra_agent.models.base import ToolSchema
from infra_agent.models.playbook import Playbook
from infra_agent.models.playbook.fences import races
from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall
from infra_agent.session.observation import Observation
from tests.conftest import ROOT

BRIEF = "# Title\n\nGoal.\n\nEntry: a.b\nYou may edit: app/**. Protected where they exist: app/fixed/**, conftest.py.\nLimits:\n- none\n"
TOOLS = [ToolSchema(name, "", {}) for name in ("view", "search", "edit", "hypothesis", "propose", "events", "accuracy")]
PATH = "app/shelf.py"
SCENARIO = """

async def scenario(runtime):
    copy, work = runtime.stream("copy"), runtime.stream("work")
    shelf = Shelf(runtime, work)
    for n in range(3):
        copy.launch(1e-3, writes=(shelf.side[n],))
        copy.launch(1e-3, writes=(shelf.full[n],))
        copy.record(shelf.ready[n])
    for n in range(3):
        await use(shelf, work, n)
    await work.synchronize()
    await copy.synchronize()
"""
INIT = '''
class Shelf:
    """Rows by number."""

    def __init__(self, runtime, work):
        self.work = work
        self.full = [runtime.buffer(f"full{n}") for n in range(3)]
        self.side = [runtime.buffer(f"side{n}") for n in range(3)]
        self.ready = [runtime.event(f"ready{n}") for n in range(3)]
'''
ACCESSORS = f'''{INIT}
    def arrive(self, n):
        self.work.wait(self.ready[n])

    def full_rows(self, n):
        """Rows."""
        self.arrive(n)
        return self.full[n]

    def side_rows(self, number):
        """Rows beside them."""
        return self.side[number]

    def both_rows(self, n):
        return self.full[n], self.side[n]


async def use(shelf, work, n):
    if n:
        rows = shelf.side_rows(n)
        work.launch(1e-4, reads=(rows,))
    else:
        others, beside = shelf.both_rows(n)
        work.launch(1e-4, reads=(others, beside))
    work.launch(1e-4, reads=(shelf.full_rows(n),))
{SCENARIO}'''
READERS = f"""{INIT}

def arrive(shelf, n):
    shelf.work.wait(shelf.ready[n])


def use_full(work, shelf, n):
    arrive(shelf, n)
    work.launch(1e-4, reads=(shelf.full[n],))


def use_side(work, shelf, n):
    work.launch(
        1e-4,
        reads=(shelf.side[n],),
    )


async def use(shelf, work, n):
    use_side(work, shelf, n)
    use_full(work, shelf, n)
{SCENARIO}"""
HOST = f"""{INIT}
    async def full_rows(self, n):
        await self.ready[n].synchronize()
        return await self.full[n].read()

    async def side_rows(self, n):
        return await self.side[n].read()


async def use(shelf, work, n):
    await shelf.side_rows(n)
    await shelf.full_rows(n)
{SCENARIO}"""
TOO_MUCH = ACCESSORS.replace(
    '    def full_rows(self, n):\n        """Rows."""\n',
    """    def all_arrive(self):
        self.work.wait(self.ready[2])

    def first_rows(self, n):
        self.all_arrive()
        return self.full[n]

    def last_rows(self, n):
        self.all_arrive()
        return self.full[n]

    def full_rows(self, n):
""",
)
ALONE = ACCESSORS.replace("        self.arrive(n)\n        return", "        return")
UNMARKED = re.sub(r"        copy.record.*\n", "", ACCESSORS)
Limit = Callable[[str], float]


class Bench:
    """A workspace of one file, whose scenario runs; ``limit`` is the figure of a text, which may be 1 at most."""

    def __init__(self, text: str, limit: Limit = lambda text: 0.5, path: str = PATH) -> None:
        self.text, self.start, self.limit, self.path = text, text, limit, path
        self.messages = [Message("system", ""), Message("user", BRIEF)]
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.stated = 0

    def run(self, most: int = 60) -> str:
        """Until the playbook proposes or stops; returns its last words, or ``propose``."""
        for _ in range(most):
            reply = Playbook().complete(self.messages, TOOLS)
            if not reply.tool_calls:
                return reply.text
            (call,) = reply.tool_calls
            self.asked.append((call.name, json.loads(call.arguments)))
            if call.name == "propose":
                return "propose"
            self._answer(reply.tool_calls, call)
        raise AssertionError("it does not end")

    def _answer(self, calls: tuple[ToolCall, ...], call: ToolCall) -> None:
        text = getattr(self, f"_{call.name}")(self.asked[-1][1])
        self.messages += [Message("assistant", "", calls), Message("tool", f"[a-{len(self.asked)}] {text}", call=call.id)]

    def _view(self, arguments: dict[str, str]) -> str:
        if "path" not in arguments:
            return f"view: pass — files\n{self.path}"
        assert arguments["path"] == self.path
        return "\n".join(["view: pass — file", *(f"{n:5} {row}" for n, row in enumerate(self.text.splitlines(), 1))])

    def _search(self, arguments: dict[str, str]) -> str:
        hits = [f"{self.path}:{n}: {row}" for n, row in enumerate(self.text.splitlines(), 1) if re.search(arguments["pattern"], row)]
        return "\n".join([f"search: pass — {len(hits)} hits", *hits])

    def _edit(self, arguments: dict[str, str]) -> str:
        assert self.text.count(arguments["old"]) == 1
        self.text = self.text.replace(arguments["old"], arguments["new"])
        return "edit: pass — edited"

    def _hypothesis(self, arguments: dict[str, str]) -> str:
        self.stated += arguments["do"] == "state"
        return f"hypothesis: pass — h-{self.stated} {'stated' if arguments['do'] == 'state' else arguments['outcome']}"

    def _events(self, arguments: dict[str, str]) -> str:
        scope: dict[str, object] = {}
        exec(compile(self.text, self.path, "exec"), scope)  # noqa: S102 the tests' own text
        found = None
        for seed in range(8):
            runtime = Runtime(seed)
            runtime.run(scope["scenario"](runtime))  # type: ignore[operator]
            log = tuple(Event(*event) for event in runtime.log)
            status, kind, findings = assess(EventsRecord(case="s", tree="", ended="ok", log=log))
            found = Observation(instrument="events", status=status, kind=kind, headline="said", findings=findings)
            if status == "fail":
                break
        assert found is not None
        return found.for_model()

    def _accuracy(self, arguments: dict[str, str]) -> str:
        value = self.limit(self.text)
        return f"accuracy: {'fail (incorrect)' if value > 1 else 'pass'} — said\nerror.end@s = {value:.4g} (target 1)"

    @property
    def outcomes(self) -> list[str]:
        return [a["outcome"] for tool, a in self.asked if tool == "hypothesis" and a["do"] == "settle"]

    @property
    def notes(self) -> list[str]:
        return [a["note"] for tool, a in self.asked if tool == "hypothesis" and a["do"] == "settle"]

    @property
    def claims(self) -> list[str]:
        return [a["claim"] for tool, a in self.asked if tool == "hypothesis" and a["do"] == "state"]


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        (ACCESSORS, ["self.arrive(number)\n        return self.side[number]", "self.arrive(n)\n        return self.full[n], self.side[n]"]),
        (READERS, ["arrive(shelf, n)\n    work.launch(\n"]),
        (HOST, ["await self.ready[n].synchronize()\n        return await self.side[n].read()"]),
    ],
    ids=["accessors", "readers", "host threads"],
)
def test_the_wait_of_the_siblings_is_put_where_it_lacks(text: str, guarded: list[str]) -> None:
    bench = Bench(text)
    assert bench.run() == "propose"
    assert all(part in bench.text and part not in text for part in guarded) and set(bench.outcomes) == {"confirmed"}
    assert len(bench.text.splitlines()) == len(text.splitlines()) + len(guarded), "nothing else changed"
    assert "pass" in bench._events({})


def test_what_is_found_one_after_the_other_is_one_hypothesis_each() -> None:
    """Two lines read, each through a function of its own; the edits for the first move the lines of the second."""
    bench = Bench(ACCESSORS)
    assert bench.run() == "propose" and bench.outcomes == ["confirmed", "confirmed"]
    assert len(set(bench.claims)) == 2 and "1 other pairs" in bench.notes[0]


def test_a_wait_that_costs_a_limit_is_undone_and_the_next_one_tried() -> None:
    """Most siblings wait for everything, which is too much; one of them waits for what it reads."""
    bench = Bench(TOO_MUCH, lambda text: 1.5 if text.count("self.all_arrive()") > 2 else 0.5)
    assert bench.run() == "propose"
    assert "refuted" in bench.outcomes and bench.outcomes[-1] == "confirmed"
    assert bench.text.count("self.all_arrive()") == 2 and "self.arrive(number)" in bench.text


def test_a_guard_that_leads_nowhere_is_undone_although_it_ordered_its_pair() -> None:
    """Each of two pairs has a guard that waits too much and one that does not; only both of the latter keep the limit."""
    text = TOO_MUCH.replace("self.work.wait(self.ready[2])", "self.work.wait(self.ready[min(2, self.at)])").replace(
        "self.work = work\n", "self.work, self.at = work, 0\n"
    )
    bench = Bench(text, lambda text: 1.5 if text.count("self.all_arrive()") > 2 else 0.5)
    assert bench.run() == "propose" and bench.text.count("self.all_arrive()") == 2
    assert bench.text.count("self.arrive(n)") == 2 and "self.arrive(number)" in bench.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ALONE, "no sibling"),
        (UNMARKED, "nothing is recorded after the write"),
        (ACCESSORS.replace("1e-3, writes", "1e-3, reads"), "nothing is unordered"),
    ],
    ids=["no sibling waits", "nothing is recorded", "nothing is unordered"],
)
def test_it_gives_up_before_any_edit_where_it_does_not_apply(text: str, said: str) -> None:
    bench = Bench(text)
    words = bench.run()
    assert f"no rule applies: {said}" in words and bench.text == bench.start and not bench.claims
    assert "no file declares knobs" in words, "the rule after it was asked, too"


def test_where_no_guard_helps_the_file_is_as_it_was() -> None:
    bench = Bench(ACCESSORS, lambda text: 2.0)
    assert "no rule applies any more" in bench.run()
    assert bench.text == bench.start and "refuted" in bench.outcomes


def test_a_file_outside_the_scope_is_left_alone() -> None:
    bench = Bench(ACCESSORS, path="app/fixed/shelf.py")
    assert "no rule applies" in bench.run() and bench.text == bench.start and not bench.claims


def test_a_pair_is_read_whichever_came_first() -> None:
    write, read = "copy write a[0]#0 at x/y.py:3", "work read a[0]#0 at z.py:14"
    for first, second in ((write, read), (read, write)):
        (race,) = races(f"events: fail (race) — said\n{first} / {second}: race: nothing makes it wait")
        assert (race.writer, race.wrote, race.reader, race.read) == ("copy", ("x/y.py", 3), "work", ("z.py", 14))
    assert races(f"events: fail (race) — said\n{write} / {write}: race: nothing makes it wait") == []


def test_it_names_nothing_of_a_task() -> None:
    sources = [(ROOT / "infra_agent" / "models" / "playbook" / name).read_text() for name in ("fences.py", "guards.py")]
    words = re.compile(
        r"\bkv\b|hicache|layer|index_|indexer|pool|slot|forward|load\b|prefix|wait_until|makespan|\bdecode|prefill", re.IGNORECASE
    )
    assert not [word for source in sources for word in words.findall(source)]
