"""Whole sessions on a small task: scripted model, real cages, real git, real judge."""

from itertools import pairwise
from pathlib import Path

import pytest

from infra_agent.agent import session, tools
from infra_agent.agent.loop import Outcome
from infra_agent.errors import JudgedError, UsageError
from infra_agent.models.base import Reply
from infra_agent.models.scripted import Scripted
from infra_agent.proposal import approval
from infra_agent.proposal.attest import statements
from infra_agent.proposal.merge import Target, merge, message
from infra_agent.proposal.review import render
from infra_agent.proposal.store import find_proposal, open_session
from infra_agent.replay.verify import verify
from infra_agent.session import events
from infra_agent.session.budget import Limits
from infra_agent.session.context import project
from infra_agent.session.events import ToolCall, Usage
from infra_agent.session.log import SessionLog
from infra_agent.task.load import Task, load
from infra_agent.task.repository import Repository
from tests.support import call, mark_audited, rows_task

STATE = call("hypothesis", do="state", claim="the sum runs along the wrong axis", prediction="running falls under 1e-5", check="accuracy")
SETTLE = call("hypothesis", do="settle", id="h-1", outcome="confirmed", observation="a-4", note="seen")
EDIT = call("edit", path="rows/entry.py", old="torch.cumsum(product, 1)", new="torch.cumsum(product, 0)")
PROPOSE = call("propose", title="Sum rows along axis 0", summary="The running sum ran along columns.")
WORK = [call("accuracy"), STATE, EDIT, call("accuracy"), SETTLE, PROPOSE]


def replies(*calls: tuple[str, str], usd: float | None = None) -> list[Reply]:
    return [Reply("", (ToolCall(id=f"c{n}", name=name, arguments=text),), Usage(cost_usd=usd)) for n, (name, text) in enumerate(calls)]


@pytest.fixture
def task(tmp_path: Path, home: Path) -> Task:
    made = rows_task(tmp_path)
    mark_audited(made, home)
    return made


def run(
    task: Task, home: Path, *calls: tuple[str, str], sparse: bool = False, limits: Limits | None = None, usd: float | None = None
) -> tuple[str, Outcome]:
    options = session.Options(sparse, limits or Limits(steps=30), home)
    return session.run(task, Scripted(replies(*calls, usd=usd)), "model:scripted", options, lambda event: None)


def observations(name: str) -> list[events.ObservationMade]:
    return [e.event for e in open_session(name).entries if isinstance(e.event, events.ObservationMade)]


def test_from_fault_to_merged_commit(task: Task, home: Path) -> None:
    name, outcome = run(task, home, *WORK)
    assert outcome.exit_code == 0 and outcome.proposal
    seen = observations(name)
    assert [o.observation.status for o in seen] == ["fail", "pass", "pass", "pass", "pass", "pass"]
    assert "small: stage running" in str(seen[0].observation.findings[0].where)
    proposal = find_proposal(outcome.proposal)
    text = render(proposal)
    assert "h-1 confirmed: the sum runs along the wrong axis" in text and "-    return" in text and "held_out" in text
    with pytest.raises(UsageError, match="not approved"):
        merge(proposal.id, Target(home))
    approval.decide(proposal.id, "approve", "A Reviewer", "the axis was wrong")
    merged = merge(outcome.proposal, Target(home))
    repository = Repository(home / "repos" / "rows.git")
    assert repository.branch("main") == merged.commit
    message = repository.git("log", "-1", "--format=%B", "main").decode()
    for trailer in (f"Infra-Agent-Session: {name}", "Infra-Agent-Evidence: sha256:", "Reviewed-by: A Reviewer", "Assisted-by: infra-agent"):
        assert trailer in message
    assert b"cumsum(product, 0)" in repository.read_tree("main")["rows/entry.py"]
    assert find_proposal(outcome.proposal).state == "merged"
    with pytest.raises(UsageError, match="merged already"):
        merge(outcome.proposal, Target(home))
    assert verify(open_session(name)).agrees


def test_an_approval_dies_with_what_it_binds_to(task: Task, home: Path) -> None:
    name, outcome = run(task, home, *WORK)
    assert outcome.proposal
    approval.decide(outcome.proposal, "approve", "A Reviewer", "fine")
    with SessionLog(home / "sessions" / name) as log:  # a second verdict arrives after the approval
        given = next(e.event for e in log.entries if isinstance(e.event, events.VerdictGiven))
        log.append(given.model_copy(update={"verdict": given.verdict.model_copy(update={"level": "L1"})}))
    with pytest.raises(JudgedError, match="approval is void"):
        merge(outcome.proposal, Target(home))


def test_changed_evidence_voids_an_approval(task: Task, home: Path) -> None:
    name, outcome = run(task, home, *WORK)
    assert outcome.proposal
    proposal = find_proposal(outcome.proposal)
    approval.decide(proposal.id, "approve", "A Reviewer", "fine")
    patch = home / "sessions" / name / "blobs" / proposal.made.patch
    patch.write_bytes(patch.read_bytes().replace(b"product, 0", b"product, 1"))
    with pytest.raises(UsageError, match="do not have the digest"):
        merge(outcome.proposal, Target(home))


def test_a_failed_proposal_is_told_and_may_be_mended(task: Task, home: Path) -> None:
    early = call("propose", title="Nothing yet", summary="unchanged")
    name, outcome = run(task, home, early, EDIT, PROPOSE)
    assert outcome.exit_code == 0
    told = observations(name)[0].observation
    assert told.status == "fail" and told.body and "scope: fail (empty)" in told.body


def test_a_wrong_proposal_fails_and_cannot_be_approved(task: Task, home: Path) -> None:
    wrong = call("edit", path="rows/entry.py", old="product = a @ b", new="product = b @ a")
    name, outcome = run(task, home, wrong, PROPOSE, PROPOSE, PROPOSE)
    assert outcome.exit_code == 1 and outcome.proposal
    body = observations(name)[-1].observation.body or ""
    assert "held_out: fail (incorrect) — 0 of 1 cases" in body
    assert "hidden" not in "".join(m.text for m in project(open_session(name).entries, open_session(name).blobs, None)), (
        "a held-out name reached the model"
    )
    with pytest.raises(JudgedError, match="only a proposal that passed"):
        approval.decide(outcome.proposal, "approve", "A Reviewer", "no")


def test_denied_and_malformed_calls_are_observations(task: Task, home: Path) -> None:
    name, outcome = run(
        task, home,
        call("edit", path="tests/test_rows.py", old="1 + 1", new="2"),
        call("edit", path="setup.py", old="", new="x"),
        ("edit", '{"path": "rows/entry.py"'),
        call("view", path="rows/entry.py", colour="red"),
        call("view", path="absent.py"),
        call("edit", path="rows/entry.py", old="a", new="b"),
        call("accuracy", cases="nope"),
        call("fly"),
        call("hypothesis", do="settle", id="h-9", outcome="confirmed", observation="a-1"),
    )  # fmt: skip
    told = [(o.observation.kind, o.observation.headline) for o in observations(name)]
    assert [kind for kind, _ in told] == ["denied", "denied", *["bad_arguments"] * 7]
    for (_, headline), expected in zip(
        told,
        [
            "protected",
            "no rule allows",
            "not JSON",
            "colour",
            "no such file",
            "exactly once",
            "public cases: small, large",
            "there is no tool 'fly'",
            "no open",
        ],
        strict=True,
    ):
        assert expected in headline
    assert outcome.exit_code == 7 and "no more replies" in outcome.reason


def test_editing_version_control_aborts(task: Task, home: Path) -> None:
    _, outcome = run(task, home, call("edit", path=".git/config", old="", new="x"))
    assert outcome.exit_code == 1 and "version-control" in outcome.reason


def test_budgets_end_a_session_that_can_be_read(task: Task, home: Path) -> None:
    name, outcome = run(task, home, *[call("view")] * 5, limits=Limits(steps=2))
    assert outcome.exit_code == 4 and "2 steps" in outcome.reason
    assert verify(open_session(name)).agrees
    _, outcome = run(task, home, *[call("view")] * 5, limits=Limits(usd=0.05), usd=0.03)
    assert outcome.exit_code == 4 and "$0.05" in outcome.reason


def test_text_alone_is_nudged_then_ends(task: Task, home: Path) -> None:
    model = Scripted([Reply("let me think"), Reply("done"), Reply("really done")])
    _, outcome = session.run(task, model, "model:scripted", session.Options(False, Limits(steps=9), home), lambda event: None)
    assert outcome.exit_code == 1 and "really done" in outcome.reason


def test_sparse_hides_everything_but_the_metric(task: Task, home: Path) -> None:
    name, _ = run(task, home, call("accuracy"), sparse=True)
    opened = open_session(name)
    metric = "error.running@small"
    said = project(opened.entries, opened.blobs, metric)[-1].text
    assert metric in said and "product" not in said and "tile" not in said and "large" not in said
    assert verify(opened).agrees


def test_the_conversation_only_grows(task: Task, home: Path) -> None:
    """A provider's prefix cache hits only when earlier messages stay what they were."""
    name, _ = run(task, home, *WORK)
    opened = open_session(name)
    asked = [e.seq for e in opened.entries if isinstance(e.event, events.ModelRequested)]
    conversations = [project(opened.entries[:seq], opened.blobs, None) for seq in asked]
    for earlier, later in pairwise(conversations):
        assert later[: len(earlier)] == earlier


def test_shell_runs_in_the_cage_and_changes_nothing(task: Task, home: Path) -> None:
    name, _ = run(
        task, home, call("shell", command="echo hello > rows/new.py; ls rows; pwd"), call("view"), call("search", pattern="cumsum")
    )
    shell, view, search = (o.observation for o in observations(name))
    assert shell.status == "pass" and "new.py" in (shell.body or "") and "/ws" in (shell.body or "")
    assert "new.py" not in (view.body or "")
    assert (search.body or "").startswith("rows/entry.py:")


def test_an_unaudited_task_is_refused_before_anything_runs(tmp_path: Path, home: Path) -> None:
    unaudited = rows_task(tmp_path)
    with pytest.raises(UsageError, match="never audited; run: infra-agent audit"):
        run(unaudited, home, *WORK)
    assert not (home / "sessions").exists()


def test_a_pathological_pattern_is_the_cages_problem(task: Task, home: Path) -> None:
    line = call("edit", path="rows/long.py", old="", new="# " + "a" * 40)
    name, _ = run(task, home, line, call("search", pattern="(a+)+!"), call("search", pattern="("), call("search", pattern="cumsum"))
    _, endless, broken, fine = (o.observation for o in observations(name))
    assert "timeout" in endless.headline and "pattern" in broken.headline and fine.body


def moved_branch(home: Path, **files: bytes) -> Repository:
    """Somebody else commits to main."""
    repository = Repository(home / "repos" / "rows.git")
    head = repository.branch("main")
    assert head
    tree = repository.write_tree({**repository.read_tree(head), **{f"rows/{name}.py": data for name, data in files.items()}})
    repository.move_branch("main", repository.commit_tree(tree, [head], "other\n"), head)
    return repository


def test_on_a_moved_branch_the_merged_files_are_judged_before_they_are_merged(task: Task, home: Path) -> None:
    name, outcome = run(task, home, *WORK)
    assert outcome.proposal
    approval.decide(outcome.proposal, "approve", "A Reviewer", "fine")
    repository = moved_branch(home, other=b"x = 1\n")
    made = merge(outcome.proposal, Target(home, task=str(task.folder)))
    merged = repository.read_tree("main")
    assert merged["rows/other.py"] == b"x = 1\n" and b"cumsum(product, 0)" in merged["rows/entry.py"]
    entry, checked = next((e, e.event) for e in open_session(name).entries if isinstance(e.event, events.MergeChecked))
    assert checked.verdict.decision == "pass" and {c.name for c in checked.verdict.checks} >= {"accuracy", "held_out", "repeat"}
    assert made.checked == entry.hash and verify(open_session(name)).agrees
    tests, provenance = statements(find_proposal(outcome.proposal))
    assert [subject["name"] for subject in tests["subject"]] == [f"{outcome.proposal}.patch"], "its checks are not of this commit"
    listed = {made["name"]: made["digest"] for made in provenance["predicate"]["runDetails"]["byproducts"]}
    assert (listed["main"], listed["merge.checked"]) == ({"gitCommit": made.commit}, {"sha256": entry.hash})


def test_a_merge_by_a_check_that_did_not_pass_is_a_difference(task: Task, home: Path) -> None:
    name, outcome = run(task, home, *WORK)
    assert outcome.proposal
    approval.decide(outcome.proposal, "approve", "A Reviewer", "fine")
    moved_branch(home, __init__=b"raise RuntimeError('half done')\n")
    with pytest.raises(JudgedError, match="does not pass"):
        merge(outcome.proposal, Target(home, task=str(task.folder)))
    with SessionLog(open_session(name).folder) as log:
        failed = log.entries[-1]
        assert isinstance(failed.event, events.MergeChecked)
        log.append(events.Merged(proposal=outcome.proposal, commit="c" * 40, branch="main", checked=failed.hash))
    (difference,) = verify(open_session(name)).differences
    assert "did not pass" in difference


def test_a_merge_onto_a_moved_branch_that_broke_off_is_recorded_with_its_check(task: Task, home: Path) -> None:
    _, outcome = run(task, home, *WORK)
    assert outcome.proposal
    approval.decide(outcome.proposal, "approve", "A Reviewer", "fine")
    moved_branch(home, other=b"x = 1\n")

    def broken_off(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("infra_agent.proposal.merge._record", broken_off)
        with pytest.raises(KeyboardInterrupt):
            merge(outcome.proposal, Target(home, task=str(task.folder)))
    made = merge(outcome.proposal, Target(home, task=str(task.folder)))
    assert made.checked and verify(find_proposal(outcome.proposal).session).agrees


def test_a_moved_branch_with_which_the_change_fails_is_left_alone(task: Task, home: Path) -> None:
    name, outcome = run(task, home, *WORK)
    assert outcome.proposal
    approval.decide(outcome.proposal, "approve", "A Reviewer", "fine")
    repository = moved_branch(home, __init__=b"raise RuntimeError('half done')\n")
    head = repository.branch("main")
    with pytest.raises(JudgedError, match=r"does not pass: accuracy fail.*merge into a new branch"):
        merge(outcome.proposal, Target(home, task=str(task.folder)))
    assert repository.branch("main") == head and find_proposal(outcome.proposal).state == "approved"
    assert verify(open_session(name)).agrees, "the second verdict follows from its records"
    assert merge(outcome.proposal, Target(home, "fix/axis")).branch == "fix/axis"


def test_a_merge_that_broke_off_before_it_was_recorded_is_found_by_its_commit(task: Task, home: Path) -> None:
    _, outcome = run(task, home, *WORK)
    assert outcome.proposal
    approval.decide(outcome.proposal, "approve", "A Reviewer", "fine")
    repository, proposal = Repository(home / "repos" / "rows.git"), find_proposal(outcome.proposal)
    head = repository.branch("main")
    assert head
    tree = repository.apply(proposal.made.base, proposal.session.blobs.get(proposal.made.patch))
    repository.move_branch("main", repository.commit_tree(tree, [head], message(proposal)), head)
    assert merge(outcome.proposal, Target(home)).commit == repository.branch("main")
    assert find_proposal(outcome.proposal).state == "merged"


def test_a_changed_workspace_is_another_base(task: Task, home: Path) -> None:
    """The first import is on main; a proposal on a later one goes to a branch of its own."""
    run(task, home, call("view"))
    (task.workspace / "rows" / "note.py").write_text("x = 1\n")
    changed = load(str(task.folder))
    mark_audited(changed, home)
    _, outcome = run(changed, home, *WORK)
    assert outcome.proposal
    approval.decide(outcome.proposal, "approve", "A Reviewer", "fine")
    with pytest.raises(UsageError, match="does not contain base"):
        merge(outcome.proposal, Target(home))
    assert merge(outcome.proposal, Target(home, "later")).commit


@pytest.mark.parametrize("text", ["[" * 100_000, '{"start": ' + "9" * 5_000 + "}"])
def test_arguments_that_no_parser_takes_are_an_observation(text: str) -> None:
    assert "arguments are not JSON" in (tools.parse("view", text, ())[1] or "")
