"""What a model wrote must not move a reviewer's cursor."""

import pytest

from infra_agent.cli.inspect import _as_tree
from infra_agent.cli.output import table, visible


@pytest.mark.parametrize("bad", ["\x1b[2K", "\r", "\x9b1A", "\u202e", "\u2066", "\x00", "\u200b", "\x7f"])
def test_control_and_bidirectional_characters_are_shown_not_obeyed(bad: str) -> None:
    assert bad not in visible(f"+ safe{bad}line") and "\\u" in visible(bad)


def test_ordinary_text_is_untouched() -> None:
    text = "tab\there\nnew line — ünïcode 漢字 → 1e-4"
    assert visible(text) == text


def test_columns_line_up() -> None:
    assert table([("a", "bb"), ("ccc", "d")], ("x", "y")).splitlines() == ["x    y", "a    bb", "ccc  d"]


def test_a_fork_stands_below_the_session_that_it_comes_from_and_no_session_is_lost() -> None:
    rows = [("a", "-"), ("b", "-"), ("c", "a@3"), ("d", "c@9"), ("e", "gone@1"), ("f", "a@5"), ("g", "h@1"), ("h", "g@1")]
    assert [row[0] for row in _as_tree(rows)] == ["a", "  c", "    d", "  f", "b", "e", "g", "h"]
