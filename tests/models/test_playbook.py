"""The playbook's rule on conversations written by hand: it decides from what the tools said, and from nothing else."""

import json

import pytest

from infra_agent.models.base import ToolSchema
from infra_agent.models.playbook import Playbook
from infra_agent.models.playbook.precision import promote
from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall

TOOLS = [ToolSchema(name, "", {}) for name in ("view", "edit", "hypothesis", "propose", "accuracy", "numerics", "static")]
SOURCE = """\
    1 @triton.jit
    2 def k(a, b):
    3     x = tl.dot(a, b)
    4     y = tl.dot(b, a, input_precision="tf32")
    5     return x + y"""


class Conversation:
    """Answers the playbook's calls with given texts and remembers what it asked."""

    def __init__(self) -> None:
        self.messages = [Message("system", ""), Message("user", "")]
        self.asked: list[tuple[str, dict[str, object]]] = []

    def next(self) -> tuple[str, dict[str, object]] | str:
        reply = Playbook().complete(self.messages, TOOLS)
        if not reply.tool_calls:
            return reply.text
        self._pending = reply.tool_calls[0]
        self.messages.append(Message("assistant", "", reply.tool_calls))
        self.asked.append((self._pending.name, json.loads(self._pending.arguments)))
        return self.asked[-1]

    def answer(self, text: str) -> tuple[str, dict[str, object]] | str:
        self.messages.append(Message("tool", f"[a-{len(self.asked)}] {text}", call=self._pending.id))
        return self.next()


def accuracy(**errors: tuple[float, float]) -> str:
    lines = [f"error.{name.replace('_at_', '@')} = {value:.4g} (target {limit:.3g})" for name, (value, limit) in errors.items()]
    status = "fail (incorrect)" if any(value > limit for value, limit in errors.values()) else "pass"
    return "\n".join([f"accuracy: {status} — said", *lines])


NUMERICS = (
    "numerics: pass — error by stage\n"
    "m.py:3: what_if: promote this tf32 dot to ieee: out 1.00e-02 -> 9.00e-03\n"
    "m.py:4: what_if: promote this tf32 dot to ieee: out 1.00e-02 -> 1.00e-05, side 1.0e-03 -> 1.0e-09\n"
    "m.py:4: rounding: dot tf32 fp32: introduces 3.0e-4, carries 1.0e-2 (8 times)"
)
KEPT = "static: pass — 1 kernels compiled for sm_90"
LOST = "static: fail (lost_tensor_cores) — said\nm.py:4: lost_tensor_cores: tl.dot at ieee runs on FMA units on sm_90; k has 1024 fma"


def test_it_follows_the_what_if_table_and_prefers_what_keeps_tensor_cores() -> None:
    talk = Conversation()
    assert talk.next() == ("accuracy", {})
    assert talk.answer(accuracy(out_at_small=(1e-2, 1e-4), side_at_small=(1e-3, 1e-2))) == ("numerics", {"case": "small"})
    stated = talk.answer(NUMERICS)
    assert stated[0] == "hypothesis" and "m.py:4" in str(stated[1]) and "promote it to ieee" in str(stated[1])
    assert talk.answer("hypothesis: pass — h-1 stated") == ("view", {"path": "m.py"})
    edit = talk.answer(f"view: pass — m.py\n{SOURCE}")
    assert edit == (
        "edit",
        {"path": "m.py", "old": '    y = tl.dot(b, a, input_precision="tf32")', "new": '    y = tl.dot(b, a, input_precision="ieee")'},
    )
    assert talk.answer("edit: pass — m.py:4 edited") == ("static", {})
    settled = talk.answer(LOST)
    assert settled[0] == "hypothesis" and settled[1]["outcome"] == "refuted"  # type: ignore[index]
    again = talk.answer("hypothesis: pass — h-1 refuted by a-6")
    assert again[0] == "hypothesis" and "m.py:4" in str(again[1]) and "promote it to tf32x3" in str(again[1])
    talk.answer("hypothesis: pass — h-2 stated")
    talk.answer("view: pass — m.py\n" + SOURCE.replace('"tf32"', '"ieee"'))
    assert talk.answer("edit: pass — m.py:4 edited") == ("static", {})
    assert talk.answer(KEPT) == ("accuracy", {"cases": "small"})
    confirmed = talk.answer(accuracy(out_at_small=(1.2e-5, 1e-4), side_at_small=(1e-9, 1e-2)))
    assert confirmed[1]["outcome"] == "confirmed"  # type: ignore[index]
    assert talk.answer("hypothesis: pass — h-2 confirmed by a-12") == ("accuracy", {})
    proposed = talk.answer(accuracy(out_at_small=(1.2e-5, 1e-4), side_at_small=(1e-9, 1e-2)))
    assert proposed[0] == "propose" and "tf32x3" in str(proposed[1])


def test_ieee_stays_when_static_says_that_it_costs_nothing() -> None:
    """The preference comes from the evidence, not from a constant."""
    talk = Conversation()
    talk.next()
    talk.answer(accuracy(out_at_small=(1e-2, 1e-4)))
    talk.answer(NUMERICS)
    talk.answer("hypothesis: pass — h-1 stated")
    talk.answer(f"view: pass — m.py\n{SOURCE}")
    talk.answer("edit: pass — m.py:4 edited")
    assert talk.answer(KEPT)[0] == "accuracy"
    talk.answer(accuracy(out_at_small=(1e-5, 1e-4)))
    assert talk.answer("hypothesis: pass — h-1 confirmed by a-7") == ("accuracy", {})
    assert "ieee" in str(talk.answer(accuracy(out_at_small=(1e-5, 1e-4))))


def test_a_refuted_line_is_undone_and_the_next_one_tried() -> None:
    talk = Conversation()
    talk.next()
    talk.answer(accuracy(out_at_small=(1e-2, 1e-4)))
    talk.answer(NUMERICS.replace("9.00e-03", "2.00e-03"))
    talk.answer("hypothesis: pass — h-1 stated")
    talk.answer(f"view: pass — m.py\n{SOURCE}")
    talk.answer("edit: pass — m.py:4 edited")
    talk.answer(KEPT)
    refuted = talk.answer(accuracy(out_at_small=(0.99e-2, 1e-4)))
    assert refuted[1]["outcome"] == "refuted"  # type: ignore[index]
    undo = talk.answer("hypothesis: pass — h-1 refuted by a-7")
    assert undo == (
        "edit",
        {"path": "m.py", "old": '    y = tl.dot(b, a, input_precision="ieee")', "new": '    y = tl.dot(b, a, input_precision="tf32")'},
    )
    following = talk.answer("edit: pass — m.py:4 edited")
    assert following[0] == "hypothesis" and "m.py:3" in str(following[1])


def test_nothing_to_fix_is_said_not_proposed() -> None:
    talk = Conversation()
    talk.next()
    assert "nothing to change" in str(talk.answer(accuracy(out_at_small=(1e-6, 1e-4))))


def test_no_line_worth_trying_is_said() -> None:
    talk = Conversation()
    talk.next()
    talk.answer(accuracy(out_at_small=(1e-2, 1e-4)))
    assert "no single dot" in str(talk.answer("numerics: pass — nothing"))


def test_without_its_instruments_the_rule_does_not_apply() -> None:
    reply = Playbook().complete([Message("system", "")], TOOLS[:5])
    assert not reply.tool_calls and "numerics" in reply.text


IEEE = ', input_precision="ieee"'
SPREAD = "x = tl.dot(\n    a,\n    b,\n)"
TWICE = "y = 2\nm = tl.dot(s, m)"


@pytest.mark.parametrize(
    ("source", "line", "old", "new"),
    [
        ("x = tl.dot(a, b)", 1, "x = tl.dot(a, b)", f"x = tl.dot(a, b{IEEE})"),
        ("x = a - tl.dot(tl.trans(k), v)", 1, "x = a - tl.dot(tl.trans(k), v)", f"x = a - tl.dot(tl.trans(k), v{IEEE})"),
        (
            'x = tl.dot(a, b, input_precision="tf32", acc=c)',
            1,
            'x = tl.dot(a, b, input_precision="tf32", acc=c)',
            f"x = tl.dot(a, b{IEEE}, acc=c)",
        ),
        (f"y = 1\n{SPREAD}", 3, SPREAD, SPREAD.replace("b,", f"b{IEEE},")),
        (f"x = 1\nm = tl.dot(s, m)\n{TWICE}", 4, TWICE, TWICE.replace("m)", f"m{IEEE})")),
    ],
)
def test_promote_edits_one_call_and_stays_unique(source: str, line: int, old: str, new: str) -> None:
    found = promote(source, line, "ieee")
    assert source.count(found[0]) == 1
    assert found == (old, new)
    compile(source.replace(*found), "edited", "exec")


def test_calls_have_ids_of_their_own() -> None:
    talk = Conversation()
    talk.next()
    talk.answer(accuracy(out_at_small=(1e-2, 1e-4)))
    ids = [call.id for message in talk.messages for call in message.tool_calls]
    assert len(ids) == len(set(ids)) == 2 and all(isinstance(call, ToolCall) for m in talk.messages for call in m.tool_calls)
