"""Rule: a reader skips the wait that its siblings make.

Honest knowledge of a fault family: what is written on one stream or thread is marked as ready by an event, readers get at it through
functions that wait for that event first, and one of those functions does not. An events instrument names the two accesses that nothing
orders. The rule reads the code around the reading line, looks which waits the siblings of the functions it reads through make, puts the
same wait where it is missing, and lets the instrument say whether the two are ordered now and a judged one whether every limit holds. It
knows nothing of what is read: no name, file or line of a task is written here.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from infra_agent.models.playbook.guards import RECORDS, Candidate, candidates, enclosing, everywhere, feeders, inserted, recorded_after
from infra_agent.models.playbook.knobs import may_edit
from infra_agent.models.playbook.transcript import Call, Given, Step

NEEDS = frozenset({"events", "accuracy", "view", "search", "edit", "hypothesis"})
_WAITS = r"\.(?:wait|synchronize)\("
_FILES = 12
_ACCESS = r"(?P<who{0}>\S+) (?P<op{0}>read|write) (?P<thing{0}>\S+?)(?:#\d+)? at (?P<path{0}>[^\s:]+):(?P<line{0}>\d+)"
_RACE = re.compile(rf"^{_ACCESS.format(1)} / {_ACCESS.format(2)}: race: (?P<message>.*)$", re.MULTILINE)
Place = tuple[str, int]


@dataclass(frozen=True)
class Race:
    """A write and a read of one object that nothing orders."""

    thing: str
    writer: str
    wrote: Place
    reader: str
    read: Place
    message: str

    @property
    def pair(self) -> tuple[Place, Place]:
        """Where it is written, where it is read."""
        return self.wrote, self.read

    @property
    def recorded(self) -> str:
        """What the schedule shows the writer record first after this write, and where; empty where it ends before that."""
        after = self.message.rpartition(f" {self.writer} write {self.thing}")[2]
        found = re.search(rf" {re.escape(self.writer)} {RECORDS} (\S+) at ([^\s;]+)", after)
        return f"{found[1]} at {found[2]}" if found and after != self.message else ""


Change = tuple[str, str, str]
"""Path, old text, new text."""


@dataclass(frozen=True)
class Confirmed:
    """A guard that ordered a pair."""

    candidate: Candidate
    race: Race
    undone_by: tuple[Change, ...]


@dataclass
class State:
    """What the conversation so far amounts to; rebuilt from it every time."""

    brief: str
    files: dict[str, str] = field(default_factory=dict)
    """Files that were viewed, as they stand after every edit."""
    found: dict[str, list[str]] = field(default_factory=dict)
    """Pattern that was searched -> paths with hits."""
    races: list[Race] | None = None
    """What the last look at the order of events showed; None before the first, and after an edit."""
    ordered: bool = False
    judged: Step | None = None
    """The last judged look, of the code as it stands."""
    edited: bool = False
    tried: list[set[str]] = field(default_factory=lambda: [set()])
    """Guards tried while as many as the place in this list were confirmed."""
    confirmed: list[Confirmed] = field(default_factory=list)
    refuted: int = 0
    hypothesis: str | None = None
    candidate: Candidate | None = None
    race: Race | None = None
    """The one that the hypothesis, or the search for one, is about; its lines are kept up with the edits."""
    since: list[Step] = field(default_factory=list)
    """Steps since the hypothesis was stated."""
    undo: list[Change] = field(default_factory=list)
    """What is left to do to undo a guard, last edit first."""


def next_call(history: Sequence[Step], given: Given) -> Call | str:
    """The next tool call, or the reason to stop."""
    state = _read(history, given)
    if history and history[-1].tool == "propose":
        return "the proposal did not pass the gate, and this rule knows nothing more"
    if state.hypothesis:
        return _pursue(state)
    if state.undo:
        return _change(state.undo[0])
    if state.races is None:
        return "events", {}
    if state.ordered:
        return _finish(state)
    if not state.races:
        return "no rule applies: no read is unordered with a write"
    return _choose(state, state.races[0])


def _read(history: Sequence[Step], given: Given) -> State:
    state = State(given.brief)
    for step in history:
        state.since.append(step)
        if step.tool == "events":
            state.races, state.ordered = races(step.text), step.status == "pass"
        elif step.tool == "accuracy":
            state.judged = step
        elif step.status == "pass":
            _read_text(state, step)
    return state


def races(text: str) -> list[Race]:
    """The pairs of a write and a read in what the events instrument said, whichever came first; worst first."""
    found = []
    for match in _RACE.finditer(text):
        write, read = (1, 2) if match["op1"] == "write" else (2, 1)
        if (match[f"op{write}"], match[f"op{read}"]) == ("write", "read"):
            wrote, seen = ((match[f"path{n}"], int(match[f"line{n}"])) for n in (write, read))
            found.append(Race(match["thing1"], match[f"who{write}"], wrote, match[f"who{read}"], seen, match["message"]))
    return found


def _read_text(state: State, step: Step) -> None:
    path = str(step.arguments.get("path", ""))
    if step.tool == "view" and path:
        lines = step.file_lines
        state.files[path] = "\n".join(lines[n] for n in sorted(lines))
    elif step.tool == "search":
        state.found[step.arguments["pattern"]] = list(dict.fromkeys(row.partition(":")[0] for row in step.text.splitlines()[1:]))
    elif step.tool == "hypothesis":
        _read_hypothesis(state, step)
    elif step.tool == "edit" and path in state.files:
        _read_edit(state, path, step.arguments["old"], step.arguments["new"])


def _read_edit(state: State, path: str, old: str, new: str) -> None:
    text = state.files[path]
    state.files[path] = text.replace(old, new, 1)
    state.races, state.ordered, state.judged, state.edited = None, False, None, True
    if not state.hypothesis and not state.undo and state.confirmed:
        state.undo = list(state.confirmed.pop().undone_by)  # no way on from there
        del state.tried[len(state.confirmed) + 1 :]
    if state.undo:
        state.undo.pop(0)
    if state.race:
        state.race = _moved(state.race, path, text, state.files[path])


def _moved(race: Race, path: str, before: str, after: str) -> Race:
    """Its lines after an edit: those below the first row that differs moved by as many rows as there are more."""
    rows, now = before.split("\n"), after.split("\n")
    first = next((n for n, (one, two) in enumerate(zip(rows, now, strict=False)) if one != two), len(rows)) + 1
    read, wrote = ((p, line + len(now) - len(rows) if p == path and line >= first else line) for p, line in (race.read, race.wrote))
    return Race(race.thing, race.writer, wrote, race.reader, read, race.message)


def _read_hypothesis(state: State, step: Step) -> None:
    if step.arguments["do"] == "state":
        named = re.search(r"(h-\d+) stated", step.text)
        first = next(iter(state.races or []), None)
        chosen = next((c for c in _candidates(state, first) if _claim(state, first, c) == step.arguments["claim"]), None) if first else None
        if named and chosen:
            state.hypothesis, state.candidate, state.race, state.since = named[1], chosen, first, []
            state.tried[len(state.confirmed)].add(_key(chosen))
    elif state.hypothesis and state.candidate and state.race:
        made = [s.arguments for s in reversed(state.since) if s.tool == "edit" and s.status == "pass"]
        back = [(edit["path"], edit["new"], edit["old"]) for edit in made]
        if step.arguments["outcome"] == "confirmed":
            state.confirmed.append(Confirmed(state.candidate, state.race, tuple(back)))
            state.tried.append(set())
        else:
            state.undo, state.refuted = back, state.refuted + 1
        state.hypothesis = state.candidate = state.race = None


def _key(candidate: Candidate) -> str:
    return f"{candidate.path} {candidate.scope} {candidate.guard} {' '.join(candidate.targets)}"


def _names_of(state: State, race: Race) -> list[str]:
    """What the reading line calls to get at what it reads."""
    reading = enclosing(state.files, *race.read)
    return [name for name in feeders(reading, race.read[1]) if name.isidentifier()] if reading else []


def _definitions(names: Sequence[str]) -> str:
    return rf"^\s*(?:async )?def (?:{'|'.join(names)})\b"


def _candidates(state: State, race: Race) -> list[Candidate]:
    """Guards of the siblings: of the functions that the read goes through, then of the one that reads."""
    names, reading = set(_names_of(state, race)), enclosing(state.files, *race.read)
    through = [f for f in everywhere(state.files) if f.name in names]
    levels = [through, [reading] if reading else []]
    return [c for level in levels for c in candidates(state.files, level) if may_edit(state.brief, c.path)]


def _choose(state: State, race: Race) -> Call | str:
    """Look until the code around both places is known, then the first guard that was not tried."""
    if looking := _look(state, race):
        return looking
    if state.judged is None and not state.edited:
        return "accuracy", {}  # what it was before
    if not race.recorded and recorded_after(state.files, *race.wrote) is None:
        return "no rule applies: nothing is recorded after the write, so that there is nothing to wait for"
    for candidate in _candidates(state, race):
        if _key(candidate) not in state.tried[-1]:
            return _state_hypothesis(state, race, candidate)
    if state.confirmed:
        return _change(state.confirmed[-1].undone_by[0])
    more = " any more" if state.tried[0] else ""
    return f"no rule applies{more}: no sibling of what reads at {_at(race.read)} waits for what it lacks"


def _look(state: State, race: Race) -> Call | None:
    """The step that shows what is not known yet; None once all is."""
    for path in (race.read[0], race.wrote[0]):
        if path not in state.files:
            return "view", {"path": path, "lines": 2000}
    names = _names_of(state, race)
    for pattern in (_WAITS, *([_definitions(names)] if names else [])):
        if pattern not in state.found:
            return "search", {"pattern": pattern, "glob": "*.py"}
        unseen = [path for path in state.found[pattern] if path not in state.files]
        if unseen and len(state.files) < _FILES:
            return "view", {"path": unseen[0], "lines": 2000}
    return None


def _change(change: Change) -> Call:
    path, old, new = change
    return "edit", {"path": path, "old": old, "new": new}


def _at(place: Place) -> str:
    return f"{place[0]}:{place[1]}"


def _claim(state: State, race: Race, candidate: Candidate) -> str:
    marked = race.recorded or f"what {race.wrote[0]}:{recorded_after(state.files, *race.wrote)} records"
    return (
        f"{race.reader} reads {race.thing} at {_at(race.read)} and does not wait for {marked}: in {candidate.path} "
        f"{', '.join(candidate.targets)} lack `{candidate.guard}`, which {', '.join(candidate.siblings)} begin with"
    )


def _state_hypothesis(state: State, race: Race, candidate: Candidate) -> Call:
    now = len({r.pair for r in state.races or []})
    return "hypothesis", {
        "do": "state",
        "claim": _claim(state, race, candidate),
        "prediction": f"pairs of lines that nothing orders fall from {now} to {now - 1}: the write at {_at(race.wrote)} and the read at "
        f"{_at(race.read)} are no longer among them, and every limit of accuracy holds once none is left",
        "check": "events, then accuracy",
    }


def _pursue(state: State) -> Call | str:
    """The steps of one hypothesis: an edit for each function that lacks the guard, order, limits, settle."""
    assert state.candidate and state.race
    edits = [step for step in state.since if step.tool == "edit"]
    if edits and edits[-1].status != "pass":
        return _settle(state, "refuted", edits[-1], "the guard could not be put there")
    if len(edits) < len(state.candidate.targets):
        return _edit(state, state.candidate, len(edits))
    order = next((step for step in state.since if step.tool == "events"), None)
    if order is None or state.races is None:
        return "events", {}
    pairs = {race.pair for race in state.races}
    if state.race.pair in pairs or not (state.ordered or pairs):
        return _settle(state, "refuted", order, "they are still not ordered" if pairs else "it fails in another way")
    if not state.ordered:
        return _settle(state, "confirmed", order, f"they are ordered now; {len(pairs)} other pairs are not")
    if state.judged is None:
        return "accuracy", {}
    if state.judged.status != "pass":
        return _settle(state, "refuted", state.judged, f"they are ordered now, but limits fail: {_failing(state.judged)}")
    return _settle(state, "confirmed", state.judged, "nothing is unordered, and every limit holds")


def _failing(judged: Step) -> str:
    over = [name for name, (value, target) in judged.metrics.items() if target is not None and value > target]
    return ", ".join(over) or judged.kind or judged.status


def _edit(state: State, candidate: Candidate, number: int) -> Call:
    name, guard = candidate.targets[number], candidate.guards[number]
    function = next(f for f in everywhere(state.files) if (f.path, f.scope, f.name) == (candidate.path, candidate.scope, name))
    old, new = inserted(state.files[candidate.path], function, guard)
    return "edit", {"path": candidate.path, "old": old, "new": new}


def _settle(state: State, outcome: str, by: Step, note: str) -> Call:
    return "hypothesis", {"do": "settle", "id": state.hypothesis, "outcome": outcome, "observation": by.action, "note": note}


def _finish(state: State) -> Call | str:
    """Nothing is unordered: propose what was confirmed."""
    if not state.confirmed:
        return "no rule applies: nothing is unordered"
    if state.judged is None:
        return "accuracy", {}
    if state.judged.status != "pass":
        return f"no rule applies any more: nothing is unordered, but limits fail: {_failing(state.judged)}"
    placed = sum(len(c.candidate.targets) for c in state.confirmed)
    told = " ".join(
        f"{race.reader} read {race.thing} while {race.writer} could still be writing it: {', '.join(candidate.targets)} in "
        f"{candidate.path} did not wait as {', '.join(candidate.siblings)} do, and now begin with `{candidate.guard}`."
        for candidate, race in ((c.candidate, c.race) for c in state.confirmed)
    )
    summary = (
        f"{told} `events` named the two accesses and finds nothing unordered now; `accuracy` shows every limit held. "
        f"{state.refuted} other guards were tried and undone."
    )
    return "propose", {"title": f"Wait before reading in {placed} functions, as their siblings do", "summary": summary}
