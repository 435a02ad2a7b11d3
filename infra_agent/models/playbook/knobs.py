"""Rule: the code declares its knobs, and some setting of them keeps every limit.

Honest knowledge of a fault family: storage formats, split sizes, queueing rules and the like are chosen in a table, one value of a
declared list for each name, and the choice that stands is a bad one. The rule reads which limits fail and by how much from a judged
instrument, changes one knob at a time, keeps what brings the failing limits nearer, and undoes what does not: a coordinate search with a
prediction each. It knows nothing of what a knob means: no name, file or stage of a task is written here.
"""

import fnmatch
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from infra_agent.models.playbook.declared import Knob, Value, knobs
from infra_agent.models.playbook.limits import LATER, Look, excess, hold
from infra_agent.models.playbook.transcript import Call, Given, Step

NEEDS = frozenset({"accuracy", "view", "search", "edit", "hypothesis"})
_JUDGED = ("accuracy", "microbench")
"""Instruments whose figures are the judge's, in the order in which they are asked."""
_LITERALS = r"\bLiteral\["
_TRIES = 48
_FILES = 8
_LEAST_GAIN = 0.05
"""A fall of the excess by less is none; nor is one by less than figures of equal code differ, from one draw of contents to another."""
_CLAIM = re.compile(r"^(?P<path>\S+): (?P<name>\S+) = (?P<value>.+) is nearer to the limits than (?P<old>.+)$")
Setting = tuple[tuple[str, str, Value], ...]
Profile = dict[Value, dict[str, float]]


@dataclass(frozen=True)
class Trial:
    """One knob at another value."""

    path: str
    name: str
    value: Value
    old: Value


@dataclass
class State:
    """What the conversation so far amounts to; rebuilt from it every time."""

    brief: str
    files: dict[str, str] = field(default_factory=dict)
    """Files that were viewed, as they stand after every edit."""
    listed: list[str] | None = None
    literals: list[str] | None = None
    looks: dict[Setting, list[Look]] = field(default_factory=dict)
    trials: list[tuple[Trial, Setting, Setting]] = field(default_factory=list)
    """Those that were measured: the change, the setting before, the setting it made."""
    confirmed: list[Trial] = field(default_factory=list)
    hypothesis: str | None = None
    trial: Trial | None = None
    before: Setting = ()
    since: list[Step] = field(default_factory=list)
    """Steps since the hypothesis was stated."""
    undo: Trial | None = None
    """A refuted change that still stands."""

    @property
    def knobs(self) -> list[Knob]:
        """Every declared knob, as it stands."""
        return [knob for path, text in self.files.items() for knob in knobs(path, text)]

    @property
    def setting(self) -> Setting:
        """The values that stand."""
        return tuple((knob.path, knob.name, knob.value) for knob in self.knobs)

    def knob(self, path: str, name: str) -> Knob:
        """The knob of that name."""
        return next(knob for knob in self.knobs if (knob.path, knob.name) == (path, name))

    def limits(self, setting: Setting) -> dict[str, float]:
        """Limit -> ln(figure / limit), the worst of the looks at a setting."""
        seen = [look.limits(self.brief) for look in self.looks.get(setting, [])]
        return {name: max(found.get(name, -math.inf) for found in seen) for name in {name for found in seen for name in found}}

    def candidates(self) -> list[str]:
        """Files that may declare knobs and may be edited."""
        tables = [path for path in self.listed or [] if path.endswith(".toml")]
        return [path for path in [*tables, *(self.literals or [])] if may_edit(self.brief, path)][:_FILES]


def next_call(history: Sequence[Step], given: Given) -> Call | str:
    """The next tool call, or the reason to stop."""
    state = _read(history, given)
    if history and history[-1].tool == "propose":
        return "the proposal did not pass the gate, and this rule knows nothing more"
    if state.hypothesis:
        return _pursue(state, given)
    if state.undo:
        return _set(state, state.undo, state.undo.old)
    if looking := _look_for_knobs(state):
        return looking
    return _choose(state, given)


def may_edit(brief: str, path: str) -> bool:
    """Does the brief allow a change of this file?"""

    def listed(words: str) -> bool:
        found = re.search(rf"{words}: (.*?)\.(?: |$)", brief, re.MULTILINE)
        return found is not None and any(fnmatch.fnmatch(path, glob) for glob in found[1].split(", "))

    return listed("may edit") and not listed("Protected where they exist")


def _read(history: Sequence[Step], given: Given) -> State:
    state = State(given.brief)
    for step in history:
        state.since.append(step)
        if step.tool in _JUDGED:
            looks = state.looks.setdefault(state.setting, [])
            if step.tool == _JUDGED[0] or not looks:
                looks.append(Look())
            looks[-1].add(step)
        elif step.tool == "hypothesis" and step.status == "pass":
            _read_hypothesis(state, step)
        elif step.status == "pass":
            _read_text(state, step)
    return state


def _read_text(state: State, step: Step) -> None:
    path = str(step.arguments.get("path", ""))
    if step.tool == "view" and path:
        lines = step.file_lines
        state.files[path] = "\n".join(lines[n] for n in sorted(lines))
    elif step.tool == "view":
        state.listed = step.text.splitlines()[1:]
    elif step.tool == "search" and step.arguments["pattern"] == _LITERALS:
        state.literals = list(dict.fromkeys(row.partition(":")[0] for row in step.text.splitlines()[1:]))
    elif step.tool == "edit" and path in state.files:
        state.files[path] = state.files[path].replace(step.arguments["old"], step.arguments["new"], 1)
        state.undo = None


def _read_hypothesis(state: State, step: Step) -> None:
    if step.arguments["do"] == "state":
        claim, named = _CLAIM.match(step.arguments["claim"]), re.search(r"(h-\d+) stated", step.text)
        if claim and named:
            state.hypothesis, state.before, state.since = named[1], state.setting, []
            state.trial = Trial(claim["path"], claim["name"], json.loads(claim["value"]), json.loads(claim["old"]))
    elif state.hypothesis and state.trial:
        if state.setting != state.before:
            state.trials.append((state.trial, state.before, state.setting))
            state.undo = state.trial if step.arguments["outcome"] == "refuted" else None
        if step.arguments["outcome"] == "confirmed":
            state.confirmed.append(state.trial)
        state.hypothesis = state.trial = None


def _look_for_knobs(state: State) -> Call | str | None:
    """The steps that find every knob; None once they are known."""
    if state.listed is None:
        return "view", {}
    if state.literals is None:
        return "search", {"pattern": _LITERALS, "glob": "*.py"}
    unseen = [path for path in state.candidates() if path not in state.files]
    if unseen:
        return "view", {"path": unseen[0], "lines": 2000}
    return None if state.knobs else "no rule applies: no file declares knobs with the values they may have"


def _measure(state: State, given: Given, times: int) -> Call | None:
    """The next measurement of the setting that stands, until there are ``times`` whole looks; None then."""
    looks = state.looks.get(state.setting, [])
    if looks and "microbench" in given.offered and hold(looks[-1].limits(state.brief)) and "microbench" not in looks[-1].tools:
        return "microbench", {}
    return None if len(looks) >= times else ("accuracy", {})


def _choose(state: State, given: Given) -> Call | str:
    """Measure, propose when all holds, else the most promising change that was not tried. Fresh contents move figures: two looks count."""
    start = not state.trials
    if first := _measure(state, given, 1):
        return first
    if (start or hold(state.limits(state.setting))) and (again := _measure(state, given, 2)):
        return again
    if hold(state.limits(state.setting)):
        return _propose(state) if state.confirmed else "every limit holds already; there is nothing to change"
    if len(state.trials) >= _TRIES:
        return f"no rule applies: {_TRIES} changes of single knobs were measured, and some limits still fail"
    profiles = _profiles(state)
    ranked = sorted(_untried(state), key=lambda found: _rank(state, found[0], found[1], profiles.get((found[0].path, found[0].name), {})))
    if not ranked:
        return "no rule applies any more: from the best setting, every change of a single knob was measured"
    return _state_hypothesis(state, *ranked[0])


def _untried(state: State) -> Iterator[tuple[Knob, Value]]:
    """Single changes of the setting that stands whose result was not measured yet."""
    for knob in state.knobs:
        for value in knob.allowed:
            then = tuple((p, n, value if (p, n) == (knob.path, knob.name) else v) for p, n, v in state.setting)
            if then not in state.looks:
                yield knob, value


def _profiles(state: State) -> dict[tuple[str, str], Profile]:
    """What each measured value of each knob did to every limit, in ln, beside the value that the knob had first."""
    found: dict[tuple[str, str], Profile] = {}
    for trial, then, now in state.trials:
        profile = found.setdefault((trial.path, trial.name), {trial.old: {}})
        before, after, start = state.limits(then), state.limits(now), profile.get(trial.old, {})
        profile[trial.value] = {name: start.get(name, 0.0) + after[name] - before[name] for name in before if name in after}
    return found


def _rank(state: State, knob: Knob, value: Value, profile: Profile) -> tuple[bool, float]:
    """Smaller is more promising: a value not measured yet of a knob that moves what fails, or is named like it; last what did not help."""
    limits = state.limits(state.setting)
    failing = {name: over for name, over in limits.items() if over > 0}
    now = profile.get(knob.value, {})
    if value in profile:
        then = {name: over + profile[value].get(name, 0.0) - now.get(name, 0.0) for name, over in limits.items()}
        gain = excess(limits) - excess(then)
        return gain < _LEAST_GAIN, -gain
    words = set(re.split(r"[\W_]+", knob.name.lower())) - {""}
    related = sum(over for name, over in failing.items() if words & set(re.split(r"[\W_]+", name.lower())))
    effects = [
        sum(min(over, abs(other.get(name, 0.0) - now.get(name, 0.0))) for name, over in failing.items())
        for seen, other in profile.items()
        if seen != knob.value
    ]
    effect = max(effects, default=_LEAST_GAIN)
    return effect < _LEAST_GAIN, -related - effect


def _wanted(state: State, setting: Setting) -> float:
    """The excess that a change must reach to count: less than ``setting`` has, by more than figures move by themselves."""
    limits = state.limits(setting)
    now = excess(limits)
    looks = next((looks for looks in state.looks.values() if len(looks) >= 2), [])
    one, two = (look.limits(state.brief) for look in looks[:2]) if looks else ({}, {})
    noise = math.hypot(*(one[name] - two[name] for name, over in limits.items() if over > 0 and name in one and name in two))
    return max(0.0, now - max(_LEAST_GAIN, noise))


def _state_hypothesis(state: State, knob: Knob, value: Value) -> Call:
    limits = state.limits(state.setting)
    worst = max(limits, key=lambda name: limits[name])
    return "hypothesis", {
        "do": "state",
        "claim": f"{knob.path}: {knob.name} = {json.dumps(value)} is nearer to the limits than {json.dumps(knob.value)}",
        "prediction": f"the sum of ln(figure / limit) over the limits that fail falls from {excess(limits):.3f} to at most "
        f"{_wanted(state, state.setting):.3f}; {worst} is {math.exp(min(limits[worst], 700)):.3g} times its limit now",
        "check": "accuracy on every cheap case",
    }


def _pursue(state: State, given: Given) -> Call | str:
    """The steps of one hypothesis: edit, measure, settle."""
    assert state.trial and state.hypothesis
    edit = next((step for step in state.since if step.tool == "edit"), None)
    if edit is None:
        return _set(state, state.trial, state.trial.value)
    if edit.status != "pass":
        return _settle(state, "refuted", edit, "the value could not be set")
    if looking := _measure(state, given, 1):
        return looking
    later = {name: over for name, over in state.limits(state.before).items() if name.startswith(LATER)}
    now, wanted = excess({**later, **state.limits(state.setting)}), _wanted(state, state.before)
    by = next(step for step in reversed(state.since) if step.tool in _JUDGED)
    return _settle(state, "confirmed" if now <= wanted else "refuted", by, f"the sum is {now:.3f}, at most {wanted:.3f} was predicted")


def _set(state: State, trial: Trial, value: Value) -> Call:
    old, new = state.knob(trial.path, trial.name).moved(state.files[trial.path], value)
    return "edit", {"path": trial.path, "old": old, "new": new}


def _settle(state: State, outcome: str, by: Step, note: str) -> Call:
    return "hypothesis", {"do": "settle", "id": state.hypothesis, "outcome": outcome, "observation": by.action, "note": note}


def _propose(state: State) -> Call:
    """What stands against what stood first, knob by knob."""
    first: dict[tuple[str, str], Value] = {}
    for trial in state.confirmed:
        first.setdefault((trial.path, trial.name), trial.old)
    moved = [(path, name, old, state.knob(path, name).value) for (path, name), old in first.items()]
    told = [f"{name} = {json.dumps(new)} (was {json.dumps(old)}) in {path}" for path, name, old, new in moved if new != old]
    title = "Set " + ", ".join(f"{name} to {new}" for _, name, old, new in moved if new != old)
    if len(title) > 72:
        title = f"Set {len(told)} declared knobs so that every limit holds"
    summary = (
        f"Declared knobs were set so that some limits failed. {'; '.join(told)}. Each was changed alone and kept because `accuracy` showed "
        f"the failing limits nearer; with all of them every limit that is measured holds, twice on fresh contents. "
        f"{len(state.trials) - len(state.confirmed)} other changes were measured and undone."
    )
    return "propose", {"title": title, "summary": summary}
