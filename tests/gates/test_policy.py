"""The action gate: the shipped rules, layers on top, and what is wrong with a policy file, with its line."""

from itertools import pairwise
from pathlib import Path

import pytest

from infra_agent.errors import UsageError
from infra_agent.gates import policy
from infra_agent.gates.action import describe
from infra_agent.gates.effects import Effect, effects
from infra_agent.gates.policy import Action, Approval, parse, shipped
from infra_agent.gates.risk import TIERS
from tests.support import rows_task

POLICY = shipped()
RULES = policy.SHIPPED[0].read_text()
BASE = frozenset({"rows/entry.py", "tests/test_rows.py"})
LAYER = """
[[rule]]
id = "no-network-words"
tools = ["shell"]
effects = ["network", "opaque"]
decision = "ask"
reason = "somebody should look"
match = [{ tool = "shell", effects = ["network"] }]
not_match = [{ tool = "shell", effects = ["writes"] }]
"""


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


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls -la | sort", ()),
        ("cat < a.txt 2>/dev/null", ()),
        ("nvcc -o a b.cu", ()),
        ("grep -n curl src", ()),
        ("echo rm -rf /", ()),
        ("curl https://x", ("network",)),
        ("/usr/bin/curl x", ("network",)),
        ("PROXY=1 env -i curl x", ("network",)),
        ("true && timeout 5 wget x", ("network",)),
        ("git push origin main", ("network",)),
        ("git log --stat", ()),
        ("git reset --hard", ("history",)),
        ("pip install x", ("installs",)),
        ("ls; rm -rf x", ("deletes",)),
        ("find src -name '*.o' -delete", ("deletes",)),
        ("find src -exec rm {} +", ("deletes",)),
        ("ls | xargs rm", ("deletes",)),
        ("if true; then rm x; fi", ("deletes",)),
        ("echo x > a.py", ("writes",)),
        ("sed -i s/a/b/ a.py", ("writes",)),
        ("sed -n 1,3p a.py", ()),
        ("nohup sleep 9 &", ("processes",)),
        ("sudo ls", ("privileges",)),
        ("bash -c 'curl x'", ("opaque",)),
        ("sh script", ("opaque",)),
        ("./run.sh", ("opaque",)),
        ("$(echo curl) x", ("opaque",)),
        ("`echo curl` x", ("opaque",)),
        ("diff <(ls a) b", ("opaque",)),
        ("python3.11 -c 'x'", ("opaque",)),
        ("cat 'unfinished", ("opaque",)),
        ("(curl x)", ("network",)),
        ("ls\nrm x", ("deletes",)),
    ],
)
def test_effects_of_a_command(command: str, expected: tuple[Effect, ...]) -> None:
    """A wrapper around a command does not hide what it does: it shows, or the command is opaque."""
    assert effects(command) == expected


def test_the_strictest_rule_wins() -> None:
    decision = POLICY.decide(Action(tool="edit", path="tests/a.py", scope=True, protected=True))
    assert decision.ruling == "deny"


def test_an_edit_has_the_risk_of_its_lines(tmp_path: Path) -> None:
    spec = rows_task(tmp_path).spec
    edit = {"path": "rows/entry.py", "old": "def run(a):\n    return a", "new": "def run(a):\n    lock = Lock()\n    return a"}
    seen = describe("edit", edit, spec, BASE, POLICY.detector)
    assert seen.risk == "high" and seen.size == len("    lock = Lock()\n")
    quiet = describe("edit", {**edit, "new": "def run(a):\n    return a + 1"}, spec, BASE, POLICY.detector)
    assert quiet.risk == "low"
    assert describe("propose", {"title": "t", "summary": "s", "risk": "critical"}, spec, BASE).risk == "critical"


def test_a_layer_on_top_can_only_be_stricter(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(LAYER)
    both = policy.add_layer(POLICY, file, "task")
    assert both.decide(Action(tool="shell", effects=("opaque",))).ruling == "ask"
    assert both.decide(Action(tool="shell")).ruling == "allow"
    assert [rule.layer for rule in both.applying(Action(tool="shell", effects=("network",)))] == ["task", "shipped"]
    file.write_text(LAYER.replace('"ask"', '"allow"'))
    with pytest.raises(UsageError, match=r"policy.toml:3: rule 'no-network-words' allows: a layer on top can only be stricter"):
        policy.add_layer(POLICY, file, "task")


def test_a_layer_on_top_may_leave_a_rule_below_nothing_to_decide_but_not_the_other_way_round(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(
        LAYER.replace('effects = ["network", "opaque"]\n', "")
        .replace('["writes"]', '["writes"], path = "x"')
        .replace('"shell", effects = ["writes"]', '"edit"')
    )
    assert policy.add_layer(POLICY, file, "task").decide(Action(tool="shell")).ruling == "ask"
    file.write_text(
        '[[rule]]\nid = "git-too"\ntools = ["edit"]\nglobs = [".git/**"]\ndecision = "deny"\nreason = "r"\n'
        'match = [{ tool = "edit", path = ".git/x" }]\nnot_match = [{ tool = "view" }]\n'
    )
    with pytest.raises(UsageError, match=r"policy.toml:2: .*rule 'git-too' is shadowed: rule 'version-control'"):
        policy.add_layer(POLICY, file, "task")


def test_layers_of_task_and_user_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    policy.user_file().parent.mkdir(parents=True)
    policy.user_file().write_text('isolation = "full"\n[approval.low]\napprovers = 3\n')
    (tmp_path / "policy.toml").write_text(LAYER + '[approval.high]\nchecks = ["tests"]\n')
    found = policy.for_task(tmp_path)
    assert found.isolation == "full" and "no-network-words" in {rule.id for rule in found.rule}
    assert found.approval_of("low") == Approval(approvers=3)
    assert found.approval_of("high").approvers == 3 and "tests" in found.approval_of("high").checks
    assert policy.pinned(found.encoded()) == found


def test_a_higher_tier_never_takes_less() -> None:
    asked = [POLICY.approval_of(tier) for tier in TIERS]
    assert [a.approvers for a in asked] == sorted(a.approvers for a in asked)
    assert all(set(low.checks) <= set(high.checks) for low, high in pairwise(asked))


WRONG = {
    "its own example": (LAYER.replace('match = [{ tool = "shell", effects = ["network"] }]', 'match = [{ tool = "shell" }]', 1), 2),
    "which it says it does not": (LAYER.replace('["writes"]', '["opaque"]'), 2),
    "effects.0: Input should be": (LAYER.replace('effects = ["network", "opaque"]', 'effects = ["internet"]'), 5),
    "rule.0.ruling: Extra inputs are not permitted": (LAYER.replace("decision =", "ruling ="), 6),
    "decision: Field required": (LAYER.replace('decision = "ask"\n', ""), 2),
    "is shadowed: rule 'no-network-words' applies wherever it does": (
        LAYER + LAYER.replace("no-network-words", "second").replace('["network", "opaque"]', '["network"]'), 12,
    ),
    "is there twice": (LAYER + LAYER, 3),
    "isolation: Input should be": ('\nisolation = "total"\n', 2),
    "not a regular expression": (
        '\n[[detector]]\nid = "d"\ntier = "high"\nreason = "r"\nadded = "("\nhit = [{}]\nnear_miss = [{}]\n', 2,
    ),
    "does not see its own example": (
        '\n[[detector]]\nid = "d"\ntier = "high"\nreason = "r"\nadded = "x"\nhit = [{}]\nnear_miss = [{}]\n', 2,
    ),
    "looks for nothing": ('\n[[detector]]\nid = "d"\ntier = "high"\nreason = "r"\nhit = [{}]\nnear_miss = [{}]\n', 2),
    "Expected '=' after a key": ("\nrule\n", None),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_with_a_policy_is_said_with_its_line(message: str) -> None:
    text, line = WRONG[message]
    with pytest.raises(UsageError) as caught:
        parse(text, "p.toml")
    said = str(caught.value)
    assert message in said and "\n" not in said
    assert line is None or said.startswith(f"p.toml:{line}: "), said


def test_the_shipped_rules_are_tried_on_their_examples() -> None:
    """Each of them fails to load when one of its examples is turned round."""
    for rule in POLICY.rule:
        turned = rule.model_dump(exclude={"match", "not_match"}) | {"match": rule.not_match, "not_match": rule.match}
        with pytest.raises(ValueError, match=f"rule '{rule.id}' does not match its own example"):
            policy.Rule.model_validate(turned)


def test_a_session_from_before_layers_pins_the_file_itself() -> None:
    assert policy.pinned(RULES.encode()).decide(Action(tool="view")).rule == "read"


def test_there_are_many_examples() -> None:
    rules = sum(len(r.match) + len(r.not_match) for r in POLICY.rule)
    detectors = sum(len(d.hit) + len(d.near_miss) for d in POLICY.detector)
    assert rules + detectors >= 60
