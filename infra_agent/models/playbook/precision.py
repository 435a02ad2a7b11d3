"""Rule: a dot whose operands are rounded too coarsely ruins what is computed from it.

Honest knowledge of a fault family: float32 products default to tf32, whose rounding accumulates along a chain. The
what-if table of a numerics instrument names the line to promote. ``ieee`` is exact but leaves the tensor cores on most
GPUs, which a static instrument shows; split products (tf32x3) keep both. The rule reads what the tools said and knows
nothing of the task: no file, line, stage or case is named here.
"""

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from infra_agent.models.playbook.transcript import Call, Given, Step

NEEDS = frozenset({"accuracy", "numerics", "static"})
_WORTH_TRYING = 1.3
"""A what-if that lowers an error by less than this is not worth an edit."""
_CLEAR = 5.0
"""The same, from a table that an edit has made old: only a clear case is worth it without a new one."""
_AS_PREDICTED = 0.5
"""Confirmed when at least this share of the predicted fall, in log, is seen."""
_WHAT_IF = re.compile(r"(?P<stage>\w+) (?P<before>\d\.\d+e[+-]\d+) -> (?P<after>\d\.\d+e[+-]\d+)")
Place = tuple[str, int]


@dataclass(frozen=True)
class WhatIf:
    """What promoting one line would do: stage -> (error now, error then)."""

    place: Place
    stages: dict[str, tuple[float, float]]

    def gain(self, failing: set[str]) -> float:
        """The largest factor by which a failing stage's error would fall."""
        return max((before / max(after, 1e-12) for stage, (before, after) in self.stages.items() if stage in failing), default=1.0)


@dataclass
class State:
    """What the conversation so far amounts to; rebuilt from it every time."""

    errors: dict[str, tuple[float, float]] = field(default_factory=dict)
    """``stage@case`` -> (error, limit), latest."""
    what_ifs: list[WhatIf] = field(default_factory=list)
    what_if_is_new: bool = False
    """True until an edit is confirmed: a table of older code predicts less well."""
    edits: dict[Place, list[tuple[str, str]]] = field(default_factory=dict)
    """Edits that stand at a line, as (old, new); undoing pops them."""
    promoted: dict[Place, str] = field(default_factory=dict)
    tried: set[Place] = field(default_factory=set)
    leaves_tensor_cores: set[str] = field(default_factory=set)
    keeps_tensor_cores: set[str] = field(default_factory=set)
    """Precisions that static has passed in this conversation; the gate compiles the whole once more."""
    hypothesis: str | None = None
    place: Place | None = None
    precision: str = ""
    expected: tuple[str, float, float] = ("", 0.0, 0.0)
    """Stage, error before, error predicted."""
    since: list[Step] = field(default_factory=list)
    """Steps since the hypothesis was stated."""
    undo: Place | None = None
    """A refuted line whose edits are still there."""
    full_check: bool = False
    """All cheap cases were measured after the last edit."""
    static_check: bool = False

    @property
    def failing(self) -> dict[str, tuple[float, float]]:
        """``stage@case`` whose latest error is over its limit."""
        return {key: value for key, value in self.errors.items() if value[0] > value[1]}


def next_call(history: Sequence[Step], given: Given) -> Call | str:
    """The next tool call, or the reason to stop."""
    state = _read(history)
    if history and history[-1].tool == "propose":
        return "the proposal did not pass the gate, and this rule knows nothing more"
    if state.hypothesis:
        return _pursue(state)
    if state.undo:
        old, new = state.edits[state.undo][-1]
        return "edit", {"path": state.undo[0], "old": new, "new": old}
    if not state.errors or (not state.failing and not state.full_check):
        return "accuracy", {}
    return _choose(state) if state.failing else _finish(state)


def _read(history: Sequence[Step]) -> State:
    state = State()
    for step in history:
        state.since.append(step)
        reader = {
            "accuracy": _read_accuracy,
            "numerics": _read_numerics,
            "static": _read_static,
            "hypothesis": _read_hypothesis,
            "edit": _read_edit,
        }
        if step.tool in reader:
            reader[step.tool](state, step)
    return state


def _read_accuracy(state: State, step: Step) -> None:
    for name, (value, target) in step.metrics.items():
        if name.startswith("error.") and target is not None:
            state.errors[name.removeprefix("error.")] = (value, target)
    state.full_check = state.full_check or not step.arguments.get("cases")


def _read_numerics(state: State, step: Step) -> None:
    state.what_if_is_new = True
    state.what_ifs = []
    for finding in step.line_findings:
        if finding.kind == "what_if":
            stages = {m["stage"]: (float(m["before"]), float(m["after"])) for m in _WHAT_IF.finditer(finding.message)}
            state.what_ifs.append(WhatIf((finding.path, finding.line), stages))


def _read_static(state: State, step: Step) -> None:
    state.static_check = step.status == "pass"
    if state.static_check and state.hypothesis and "edit" in {s.tool for s in state.since}:
        state.keeps_tensor_cores.add(state.precision)
    for finding in step.line_findings:
        if finding.kind == "lost_tensor_cores":
            asked = re.search(r"tl\.dot at (\w+)", finding.message)
            state.leaves_tensor_cores |= {asked[1]} if asked else set()


def _read_hypothesis(state: State, step: Step) -> None:
    if step.status != "pass":
        return
    if step.arguments["do"] == "settle":
        _read_settled(state, step.arguments["outcome"])
        return
    claim = re.search(r"tl\.dot at (\S+):(\d+) .* to (\w+)", step.arguments["claim"])
    predicted = re.search(r"error of (\w+) falls from (\S+) to (\S+)", step.arguments["prediction"])
    named = re.search(r"(h-\d+) stated", step.text)
    if claim and predicted and named:
        state.hypothesis, state.place, state.precision = named[1], (claim[1], int(claim[2])), claim[3]
        state.expected = (predicted[1], float(predicted[2]), float(predicted[3]))
        state.tried.add(state.place)
        state.since = []


def _read_settled(state: State, outcome: str) -> None:
    place, state.hypothesis = state.place, None
    assert place
    if outcome == "confirmed":
        state.what_if_is_new = False
        state.promoted[place] = state.precision
    elif state.precision == "ieee" and "ieee" in state.leaves_tensor_cores:
        state.tried.discard(place)  # the line is right, the precision is not: the next hypothesis takes another
    elif state.edits.get(place):
        state.undo = place


def _read_edit(state: State, step: Step) -> None:
    if step.status != "pass":
        return
    state.full_check = state.static_check = False
    if state.undo:
        state.edits[state.undo].pop()
        state.undo = state.undo if state.edits[state.undo] else None
    elif state.place:
        state.edits.setdefault(state.place, []).append((step.arguments["old"], step.arguments["new"]))


def _choose(state: State) -> Call | str:
    """The most promising line not tried yet; a new table when the old one is used up."""
    stages = {key.partition("@")[0] for key in state.failing}
    worth = _WORTH_TRYING if state.what_if_is_new else _CLEAR
    for what_if in sorted(state.what_ifs, key=lambda w: -w.gain(stages)):
        if what_if.place not in state.tried and what_if.gain(stages) >= worth:
            return _state_hypothesis(state, what_if, stages)
    if not state.full_check:
        return "accuracy", {}
    if not state.what_if_is_new:
        return "numerics", {"case": _case_to_study(state)}
    return "no single dot explains the error that is left"


def _case_to_study(state: State) -> str:
    """The failing case that shows the most failing stages; the first of them."""
    counts: dict[str, int] = {}
    for key in state.failing:
        case = key.partition("@")[2]
        counts[case] = counts.get(case, 0) + 1
    return max(counts, key=lambda case: counts[case])


def _state_hypothesis(state: State, what_if: WhatIf, stages: set[str]) -> Call:
    stage, (before, after) = max(
        ((s, e) for s, e in what_if.stages.items() if s in stages), key=lambda item: item[1][0] / max(item[1][1], 1e-12)
    )
    precision = "tf32x3" if "ieee" in state.leaves_tensor_cores else "ieee"
    path, line = what_if.place
    return "hypothesis", {
        "do": "state",
        "claim": f"the tl.dot at {path}:{line} rounds its operands too coarsely; promote it to {precision}",
        "prediction": f"error of {stage} falls from {before:.2e} to {after:.2e}",
        "check": f"accuracy on {_case_with(state, stage, before)}, then static",
    }


def _case_with(state: State, stage: str, before: float) -> str:
    """The measured case of ``stage`` whose error is nearest to what the what-if started from."""
    near = {key: abs(error / before - 1) for key, (error, _) in state.errors.items() if key.startswith(f"{stage}@")}
    return min(near, key=lambda key: near[key]).partition("@")[2]


def _pursue(state: State) -> Call | str:
    """The steps of one hypothesis: look, edit, check cost, check accuracy, settle."""
    assert state.place and state.hypothesis
    done = {step.tool: step for step in state.since}
    if "edit" not in done:
        if "view" not in done:
            return "view", {"path": state.place[0]}
        return _edit(done["view"], state)
    if done["edit"].status != "pass":
        return _settle(state, "refuted", done["edit"], "the line could not be edited")
    if "static" not in done and state.precision not in state.keeps_tensor_cores:
        return "static", {}
    if "static" in done and done["static"].status == "fail":
        return _after_cost(state, done["static"])
    if "accuracy" not in done:
        stage, before, _ = state.expected
        return "accuracy", {"cases": _case_with(state, stage, before)}
    return _after_accuracy(state, done["accuracy"])


def _after_cost(state: State, static: Step) -> Call:
    """Too expensive: settle, and the next hypothesis tries the cheaper precision on the same line."""
    return _settle(state, "refuted", static, f"{state.precision} at this line {static.kind or 'is too expensive'}")


def _after_accuracy(state: State, accuracy: Step) -> Call:
    stage, before, predicted = state.expected
    seen = [value for name, (value, _) in accuracy.metrics.items() if name.startswith(f"error.{stage}@")]
    share = _fall(before, seen[0]) / max(_fall(before, predicted), 1e-9) if seen else 0.0
    outcome = "confirmed" if share >= _AS_PREDICTED else "refuted"
    return _settle(state, outcome, accuracy, f"error of {stage} is {seen[0]:.2e}" if seen else "no figure")


def _fall(before: float, after: float) -> float:
    """How far an error fell, in powers of e."""
    return math.log(before / max(after, 1e-12))


def _settle(state: State, outcome: str, by: Step, note: str) -> Call:
    return "hypothesis", {"do": "settle", "id": state.hypothesis, "outcome": outcome, "observation": by.action, "note": note}


def _edit(view: Step, state: State) -> Call:
    """Rewrite the one call at the line; enough of the lines before it to be unique."""
    assert state.place
    lines = view.file_lines
    number = state.place[1]
    old, new = promote("\n".join(lines[n] for n in sorted(lines)), number, state.precision)
    return "edit", {"path": state.place[0], "old": old, "new": new}


def promote(source: str, line: int, precision: str) -> tuple[str, str]:
    """Old and new text that give the ``dot`` call at ``line`` another input_precision; the old text is unique."""
    rows = source.split("\n")
    call = _dot_call(source, line)
    last_row = call.end_lineno or call.lineno
    changed = rows[call.lineno - 1 : last_row]
    keyword = next((k for k in call.keywords if k.arg == "input_precision"), None)
    if keyword:
        row, start, stop = keyword.value.lineno, keyword.value.col_offset, keyword.value.end_col_offset or 0
        text = f'"{precision}"'
    else:
        arguments = [*call.args, *(k.value for k in call.keywords)]
        row, stop = max((a.end_lineno or a.lineno, a.end_col_offset or 0) for a in arguments)
        start, text = stop, f', input_precision="{precision}"'
    row -= call.lineno
    data = changed[row].encode()  # columns of the syntax tree count bytes
    changed[row] = (data[:start] + text.encode() + data[stop:]).decode()
    first = call.lineno
    while source.count("\n".join(rows[first - 1 : last_row])) > 1 and first > 1:
        first -= 1
    before = rows[first - 1 : call.lineno - 1]
    return "\n".join(rows[first - 1 : last_row]), "\n".join([*before, *changed])


def _dot_call(source: str, line: int) -> ast.Call:
    """The first call of something named ``dot`` that covers ``line``."""
    return next(
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "dot"
        and node.lineno <= line <= (node.end_lineno or 0)
    )


def _finish(state: State) -> Call | str:
    """Every cheap case holds: propose, after a look at the cost if no look has passed with these precisions."""
    kept = state.promoted
    if not kept:
        return "every limit holds already; there is nothing to change"
    if not state.static_check and not set(kept.values()) <= state.keeps_tensor_cores:
        return "static", {}
    places = ", ".join(f"{path}:{line}" for path, line in sorted(kept))
    precision = ", ".join(sorted(set(kept.values())))
    summary = (
        f"The float32 products at {places} rounded their operands to tf32, and the error grew with every link of the chain they stand in. "
        f"They now run as {precision}: the what-if table of `numerics` named the lines, `accuracy` shows every stage within its limit, "
        f"and `static` shows that every product stays on tensor cores."
    )
    return "propose", {"title": f"Compute {len(kept)} chained products as {precision}", "summary": summary}
