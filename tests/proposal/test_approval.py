"""Who may approve what: tiers, several people, overrides by name, rejections, and several people at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from infra_agent.agent import session
from infra_agent.errors import JudgedError, UsageError
from infra_agent.models.base import Reply
from infra_agent.models.scripted import Scripted
from infra_agent.proposal import approval
from infra_agent.proposal.merge import Target, _calling_nobody, merge
from infra_agent.proposal.store import all_proposals, find_proposal, open_session
from infra_agent.replay.verify import verify
from infra_agent.session.budget import Limits
from infra_agent.session.events import ToolCall
from infra_agent.session.log import SessionLog
from infra_agent.task.repository import Repository
from tests.conftest import ROOT, Cli
from tests.proposal.recorded import EDIT, PROPOSE, session_of
from tests.support import call, mark_audited, rows_task

WRONG = call("edit", path="rows/entry.py", old="product = a @ b", new="product = b @ a")
HIDDEN = call("edit", path="rows/note.py", old="", new='NOTE = "a\u200bb"\n')


def made(tmp_path: Path, home: Path, *calls: tuple[str, str]) -> str:
    """A proposal out of these calls; returns its id."""
    task = rows_task(tmp_path)
    mark_audited(task, home)
    said = [Reply("", (ToolCall(id=f"c{n}", name=name, arguments=text),)) for n, (name, text) in enumerate(calls)]
    limits = Limits(steps=len(calls))
    _, outcome = session.run(task, Scripted(said), "model:scripted", session.Options(False, limits, home), lambda event: None)
    return outcome.proposal or all_proposals()[0][-1].id


def test_a_change_of_critical_risk_takes_two_people(tmp_path: Path, home: Path) -> None:
    identity = made(tmp_path, home, EDIT, HIDDEN, PROPOSE)
    proposal = find_proposal(identity)
    assert proposal.risk.tier == "critical" and proposal.risk.marks[0].detector == "hidden-characters"
    approval.decide(identity, "approve", "Ada Reviewer", "seen", minutes=3)
    assert find_proposal(identity).state == "approved by 1 of 2"
    with pytest.raises(UsageError, match=r"critical risk and takes 2 approvers; so far: Ada Reviewer"):
        merge(identity, Target(home))
    with pytest.raises(UsageError, match="approved by Ada Reviewer already; another approval must be another person's"):
        approval.decide(identity, "approve", " ada  reviewer ", "again")
    approval.decide(identity, "approve", "Grace", "seen too")
    merged = merge(identity, Target(home))
    message = Repository(home / "repos" / "rows.git").message(merged.commit)
    assert "Reviewed-by: Ada Reviewer\nReviewed-by: Grace\n" in message


def test_a_models_estimate_raises_the_tier(tmp_path: Path, home: Path) -> None:
    stated = call("propose", title="Sum rows", summary="s", risk="critical")
    proposal = find_proposal(made(tmp_path, home, EDIT, stated))
    assert proposal.risk.tier == "critical" and not proposal.risk.marks
    assert proposal.policy.approval_of(proposal.risk.tier).approvers == 2


def test_a_rejection_takes_earlier_approvals_with_it(tmp_path: Path, home: Path) -> None:
    _, identity = session_of(rows_task(tmp_path), home)
    approval.decide(identity, "approve", "Ada", "seen")
    approval.decide(identity, "reject", "Grace", "the summary is wrong")
    assert find_proposal(identity).state == "rejected"
    with pytest.raises(UsageError, match="is not approved"):
        merge(identity, Target(home))
    approval.decide(identity, "approve", "Ada", "talked it over")
    assert merge(identity, Target(home)).branch == "main"


def test_a_failed_check_is_set_aside_only_by_name(tmp_path: Path, home: Path) -> None:
    identity = made(tmp_path, home, WRONG, PROPOSE)
    proposal = find_proposal(identity)
    standing = approval.obstacles(proposal)
    assert standing["accuracy"] == "fail" and "held_out" in standing
    with pytest.raises(JudgedError, match=r"in its way: .*held_out \(fail\).*--override CHECK"):
        approval.decide(identity, "approve", "Ada", "known", overrides=["accuracy"])
    with pytest.raises(UsageError, match="--override timing: that check does not stand in the way"):
        approval.decide(identity, "approve", "Ada", "known", overrides=[*standing, "timing"])
    approval.decide(identity, "approve", "Ada", "known, and wanted", overrides=list(standing))
    merged = merge(identity, Target(home))
    message = Repository(home / "repos" / "rows.git").message(merged.commit)
    assert all(f"Infra-Agent-Override: {name}\n" in message for name in standing)
    assert verify(open_session(proposal.session.header.session)).agrees


def test_no_person_can_set_aside_what_says_what_would_be_merged(tmp_path: Path, home: Path) -> None:
    identity = made(tmp_path, home, PROPOSE)
    standing = approval.obstacles(find_proposal(identity))
    assert "scope" in standing, "an empty patch"
    with pytest.raises(JudgedError, match="the policy lets nobody set check scope aside"):
        approval.decide(identity, "approve", "Ada", "please", overrides=list(standing))


def test_each_approver_answers_for_each_override(tmp_path: Path, home: Path) -> None:
    identity = made(tmp_path, home, WRONG, HIDDEN, PROPOSE)
    standing = list(approval.obstacles(find_proposal(identity)))
    approval.decide(identity, "approve", "Ada", "known", overrides=standing)
    with pytest.raises(JudgedError, match="only a proposal that passed the gate"):
        approval.decide(identity, "approve", "Grace", "fine")
    approval.decide(identity, "approve", "Grace", "known too", overrides=standing)
    assert merge(identity, Target(home)).commit


def test_while_a_session_runs_nobody_writes_into_it(tmp_path: Path, home: Path, cli: Cli) -> None:
    name, identity = session_of(rows_task(tmp_path), home)
    with SessionLog(home / "sessions" / name):
        done = cli("approve", identity, "--reviewer", "Ada", "--reason", "seen")
    assert done.returncode == 2 and f"session {name} is being written by another process" in done.stderr
    assert cli("approve", identity, "--reviewer", "Ada", "--reason", "seen").returncode == 0


def at_once(home: Path, *commands: tuple[str, ...]) -> list[tuple[int, str]]:
    """Real processes, started together; exit code and what each said."""
    argv = [sys.executable, "-m", "infra_agent.cli.main"]
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "INFRA_AGENT_HOME": str(home), "HOME": str(home)}
    started = [subprocess.Popen([*argv, *c], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for c in commands]
    done = [process.communicate(timeout=120) for process in started]
    return [(process.returncode, out + err) for process, (out, err) in zip(started, done, strict=True)]


def test_of_two_reviewers_at_once_neither_is_lost_silently(tmp_path: Path, home: Path) -> None:
    _, identity = session_of(rows_task(tmp_path), home)
    ended = at_once(home, *[("approve", identity, "--reviewer", f"Person {n}", "--reason", "seen") for n in range(4)])
    won = [said for code, said in ended if code == 0]
    assert len(find_proposal(identity).approvals) == len(won) >= 1
    assert all("is being written by another process" in said for code, said in ended if code), ended


def test_of_merges_at_once_one_happens(tmp_path: Path, home: Path) -> None:
    task = rows_task(tmp_path)
    identities = [session_of(task, home)[1] for _ in range(2)]
    for identity in identities:
        approval.decide(identity, "approve", "Ada", "seen")
    repository = Repository(home / "repos" / "rows.git")
    before = repository.git("rev-list", "--count", "main")
    ended = at_once(home, *[("merge", identity) for identity in identities * 2])
    assert sorted(code == 0 for code, _ in ended) == [False, False, False, True], ended
    assert int(repository.git("rev-list", "--count", "main")) == int(before) + 1
    known = ("merged already", "being written by another process", "there is nothing to merge", "moved while")
    assert all(any(words in said for words in known) for code, said in ended if code), ended


def test_an_account_is_recorded_beside_the_name(tmp_path: Path, home: Path) -> None:
    _, identity = session_of(rows_task(tmp_path), home)
    event = approval.decide(identity, "approve", "Ada", "seen", minutes=2.5)
    assert (event.minutes, event.account) == (2.5, approval.account()) and event.account
    assert find_proposal(identity).session.header.operator == approval.account()


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("Fixes #3 as @grace asked", "Fixes # 3 as @ grace asked"),
        ("resolves https://example.org/o/r/issues/3, GH-4", "resolves https://example.org/o/r/ issues/3, GH- 4"),
        ("@triton.jit a@b.org C# 1.5x", "@ triton.jit a@b.org C# 1.5x"),
    ],
)
def test_a_commit_calls_nobody_and_closes_nothing(said: str, written: str) -> None:
    assert _calling_nobody(said) == written
