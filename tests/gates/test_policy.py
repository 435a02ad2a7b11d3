"""The action gate."""

from pathlib import Path

import pytest

from infra_agent.errors import UsageError
from infra_agent.gates.action import describe
from infra_agent.gates.policy import DEFAULT, Action, parse
from tests.support import rows_task

POLICY = parse(DEFAULT.read_text(), "default")
BASE = frozenset({"rows/entry.py", "tests/test_rows.py"})


@pytest.mark.parametrize(
    ("tool", "path", "ruling", "rule"),
    [
        ("edit", "rows/entry.py", "allow", "edit-in-scope"),
        ("edit", "tests/test_new.py", "allow", "edit-in-scope"),
        ("edit", "tests/test_rows.py", "deny", "protected-file"),
        ("edit", "setup.py", "deny", "no-match"),
        ("edit", "/etc/passwd", "deny", "no-match"),
        ("edit", "rows/../../x.py", "deny", "no-match"),
        ("edit", "rows//entry.py", "deny", "no-match"),
        ("edit", 'rows/x".py', "deny", "no-match"),
        ("edit", "rows/a\nb.py", "deny", "no-match"),
        ("edit", ".git/hooks/pre-commit", "abort", "version-control"),
        ("view", "anything", "allow", "read"),
        ("accuracy", "", "allow", "measure"),
        ("numerics", "", "deny", "no-match"),
        ("shell", "", "allow", "shell-in-cage"),
        ("teleport", "", "deny", "no-match"),
    ],
)
def test_rulings(tmp_path: Path, tool: str, path: str, ruling: str, rule: str) -> None:
    spec = rows_task(tmp_path).spec
    decision = POLICY.decide(describe(tool, {"path": path} if path else {}, spec, BASE))
    assert (decision.ruling, decision.rule) == (ruling, rule)


def test_the_strictest_rule_wins() -> None:
    decision = POLICY.decide(Action(tool="edit", path="tests/a.py", scope=True, protected=True))
    assert decision.ruling == "deny"


def test_a_rule_that_fails_its_own_example_is_refused() -> None:
    bad = DEFAULT.read_text().replace('match = [{ tool = "propose" }]', 'match = [{ tool = "shell" }]')
    with pytest.raises(UsageError, match="rule 'propose' does not match its own example"):
        parse(bad, "bad.toml")
    worse = DEFAULT.read_text().replace('not_match = [{ tool = "shell" }]', 'not_match = [{ tool = "propose" }]')
    with pytest.raises(UsageError, match="which it says it does not"):
        parse(worse, "worse.toml")


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(UsageError, match="ruling"):
        parse(DEFAULT.read_text() + '\nruling = "allow"\n', "bad.toml")
