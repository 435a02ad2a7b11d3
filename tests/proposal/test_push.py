"""Push to a real git server and a stub of a forge; whatever breaks on the way, a second push completes it, and nothing is ever forced."""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infra_agent.errors import InfraAgentError, UsageError
from infra_agent.proposal import approval, pull_request
from infra_agent.proposal.forge import GitHub
from infra_agent.proposal.forge import host as forge_host
from infra_agent.proposal.push import Destination, prepare, push
from infra_agent.proposal.store import Proposal, find_proposal
from infra_agent.replay.verify import verify
from infra_agent.session import events
from infra_agent.task.repository import Repository
from tests.conftest import Cli
from tests.proposal.githost import TOKEN, Host, serving
from tests.proposal.recorded import copied, session_of
from tests.support import rows_task

TEMPLATE = "## Checklist\n\n- [ ] I searched for duplicates\n"


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("pushed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFRA_AGENT_HOME", str(folder / "home"))
        _, identity = session_of(rows_task(folder), folder / "home")
        approval.decide(identity, "approve", "Ada Reviewer", "the axis was wrong", minutes=4)
    return folder / "home", identity


@pytest.fixture
def proposal(approved: tuple[Path, str], home: Path) -> Proposal:
    copied(approved[0], home)
    return find_proposal(approved[1])


@pytest.fixture
def host(tmp_path: Path, proposal: Proposal, home: Path) -> Iterator[Host]:
    """A server with a repository that holds the workspace in a folder, and one that holds it at its root with its history."""
    root = tmp_path / "served"
    mine = home / "repos" / "rows.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(mine), str(root / "o" / "own.git")], check=True)
    target = Repository(root / "o" / "target.git")
    target.folder.mkdir(parents=True)
    target.git("init", "--quiet", "--bare", "--initial-branch=main")
    files = {f"py/{path}": data for path, data in Repository(mine).read_tree(proposal.made.base).items()}
    tree = target.write_tree({**files, "README": b"theirs\n", ".github/PULL_REQUEST_TEMPLATE.md": TEMPLATE.encode()})
    target.move_branch("main", target.commit_tree(tree, [], "theirs\n"), None)
    for name in ("own", "target"):
        Repository(root / "o" / f"{name}.git").git("config", "http.receivepack", "true")
    with serving(root) as served:
        yield served


def destination(host: Host, name: str = "target") -> Destination:
    return Destination(f"{host.address}/o/{name}.git", prefix="py" if name == "target" else "", secret=TOKEN)


def forge(host: Host) -> GitHub:
    return GitHub(destination(host).remote, TOKEN, f"{host.address}/api/v3")


def mine(home: Path) -> Repository:
    return Repository(home / "repos" / "rows.git")


def pushed(found: Proposal) -> list[events.Pushed]:
    return [e.event for e in find_proposal(found.id).session.entries if isinstance(e.event, events.Pushed)]


def test_one_commit_and_a_draft(proposal: Proposal, host: Host, home: Path) -> None:
    event = push(proposal, mine(home), destination(host), forge(host))
    theirs = Repository(host.root / "o" / "target.git")
    assert theirs.branch(event.branch) == event.commit and event.pull_request == host.pulls[0]["html_url"]
    assert theirs.git("rev-parse", f"{event.commit}^").decode().strip() == theirs.branch("main")
    files = theirs.read_tree(event.commit)
    assert b"cumsum(product, 0)" in files["py/rows/entry.py"] and files["README"] == b"theirs\n"
    assert "Reviewed-by: Ada Reviewer" in theirs.message(event.commit)
    draft = host.pulls[0]
    assert (draft["head"]["ref"], draft["base"]["ref"], draft["draft"]) == (f"infra-agent/{proposal.id}", "main", True)
    assert draft["body"].endswith(f"---\n\n{TEMPLATE}"), "their template follows, unfilled"
    assert verify(find_proposal(proposal.id).session).agrees


def test_a_second_push_changes_nothing(proposal: Proposal, host: Host, home: Path) -> None:
    first = push(proposal, mine(home), destination(host), forge(host))
    second = push(find_proposal(proposal.id), mine(home), destination(host), forge(host))
    assert first == second and len(host.pulls) == 1 and len(pushed(proposal)) == 2
    assert sum(asked.startswith("POST") and "git-receive-pack" in asked for asked in host.asked) == 1


def test_after_the_target_moved_the_branch_stands_as_it_was_pushed(proposal: Proposal, host: Host, home: Path) -> None:
    first = push(proposal, mine(home), destination(host), forge(host))
    theirs = Repository(host.root / "o" / "target.git")
    head = theirs.branch("main")
    assert head
    tree = theirs.write_tree({**theirs.read_tree(head), "NEWS": b"more\n"})
    theirs.move_branch("main", theirs.commit_tree(tree, [head], "more\n"), head)
    assert push(find_proposal(proposal.id), mine(home), destination(host), forge(host)).commit == first.commit


def test_a_branch_with_something_else_is_left_alone(proposal: Proposal, host: Host, home: Path) -> None:
    theirs = Repository(host.root / "o" / "target.git")
    head = theirs.branch("main")
    assert head
    other = theirs.commit_tree(theirs.write_tree({**theirs.read_tree(head), "x": b"x\n"}), [head], "somebody's\n")
    theirs.move_branch(f"infra-agent/{proposal.id}", other, None)
    with pytest.raises(UsageError, match="holds another commit"):
        push(proposal, mine(home), destination(host), forge(host))
    assert theirs.branch(f"infra-agent/{proposal.id}") == other and not host.pulls and not pushed(proposal)


def test_a_commit_below_ours_is_not_taken_for_ours(proposal: Proposal, host: Host, home: Path) -> None:
    """The same change and message on top of somebody's commit would bring that commit in with our evidence."""
    first = push(proposal, mine(home), destination(host), None)
    theirs = Repository(host.root / "o" / "target.git")
    head = theirs.branch("main")
    assert head
    below = theirs.commit_tree(theirs.write_tree({**theirs.read_tree(head), "more.py": b"x\n"}), [head], "somebody's\n")
    files = {**theirs.read_tree(first.commit), "more.py": b"x\n"}
    above = theirs.commit_tree(theirs.write_tree(files), [below], theirs.message(first.commit).rstrip("\n") + "\n")
    theirs.move_branch(first.branch, above, first.commit)
    with pytest.raises(UsageError, match="holds another commit"):
        push(find_proposal(proposal.id), mine(home), destination(host), forge(host))
    assert not host.pulls and theirs.branch(first.branch) == above


def test_other_contents_under_our_message_are_not_taken_for_ours(proposal: Proposal, host: Host, home: Path) -> None:
    first = push(proposal, mine(home), destination(host), None)
    theirs = Repository(host.root / "o" / "target.git")
    head = theirs.branch("main")
    assert head
    files = {**theirs.read_tree(first.commit), "py/data.bin": b"\0other"}
    other = theirs.commit_tree(theirs.write_tree(files), [head], theirs.message(first.commit).rstrip("\n") + "\n")
    theirs.move_branch(first.branch, other, first.commit)
    with pytest.raises(UsageError, match="holds another commit"):
        push(find_proposal(proposal.id), mine(home), destination(host), None)


def test_a_longer_name_that_ends_like_ours_is_not_ours(proposal: Proposal, host: Host, home: Path) -> None:
    theirs = Repository(host.root / "o" / "target.git")
    head = theirs.branch("main")
    assert head
    theirs.git("update-ref", f"refs/a/refs/heads/infra-agent/{proposal.id}", head)
    event = push(proposal, mine(home), destination(host), None)
    assert theirs.branch(event.branch) == event.commit


def test_two_pushes_of_one_task_at_once(proposal: Proposal, host: Host, home: Path) -> None:
    """Each makes its commit on its own target's head."""
    heads: dict[str, set[str]] = {"own": set(), "target": set()}

    def again(name: str) -> None:
        for _ in range(8):
            heads[name].add(prepare(proposal, mine(home), destination(host, name)).head)

    threads = [threading.Thread(target=again, args=(name,)) for name in heads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heads == {name: {Repository(host.root / "o" / f"{name}.git").branch("main")} for name in heads}


STEPS = [
    ("GET", "refs", "cut"), ("POST", "git-upload-pack", "cut"), ("POST", "git-receive-pack", "cut"), ("POST", "git-receive-pack", "late"),
    ("GET", "pulls", "cut"), ("GET", "pulls", "late"), ("POST", "pulls", "cut"), ("POST", "pulls", "late"), ("PATCH", "1", "cut"),
    ("PATCH", "1", "late"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "last", "how"), STEPS)
def test_what_breaks_on_the_way_a_second_push_completes(
    proposal: Proposal, host: Host, home: Path, method: str, last: str, how: str
) -> None:
    if method == "PATCH":
        push(proposal, mine(home), destination(host), forge(host))
        host.pulls[0]["title"] = "another"
    host.broken[(method, last)] = how
    with pytest.raises(InfraAgentError) as caught:
        push(find_proposal(proposal.id), mine(home), destination(host), forge(host))
    assert "\n" not in str(caught.value) and TOKEN not in str(caught.value)
    event = push(find_proposal(proposal.id), mine(home), destination(host), forge(host))
    assert Repository(host.root / "o" / "target.git").branch(event.branch) == event.commit
    assert [pull["title"] for pull in host.pulls] == [proposal.made.title]
    assert pushed(proposal)[-1] == event


def test_onto_the_very_history(proposal: Proposal, host: Host, home: Path) -> None:
    event = push(proposal, mine(home), destination(host, "own"), None)
    assert not event.pull_request
    assert Repository(host.root / "o" / "own.git").git("rev-parse", f"{event.commit}^").decode().strip() == proposal.made.base


def test_what_does_not_fit_there_is_refused(proposal: Proposal, host: Host, home: Path) -> None:
    with pytest.raises(InfraAgentError, match=r"does not fit onto main of .*give --prefix"):
        push(proposal, mine(home), replace(destination(host), prefix=""), None)
    with pytest.raises(UsageError, match="git fetch"):
        push(proposal, mine(home), replace(destination(host), onto="absent"), None)


@pytest.mark.parametrize(("secret", "path", "says"), [("wrong", "target", "may not do that"), (TOKEN, "absent", "422")])
def test_what_a_forge_refuses_says_what_to_do(host: Host, secret: str, path: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        GitHub(f"{host.address}/o/{path}.git", secret, f"{host.address}/api/v3").create("b", "main", "t", "b")


@pytest.mark.parametrize(
    ("remote", "named"),
    [
        ("https://github.com/o/r.git", "github.com"), ("git@github.com:o/r.git", "github.com"), ("ssh://git@github.com/o/r", "github.com"),
        ("https://example.org/github.com/r", "example.org"), ("https://github.com.example.org/o/r", "github.com.example.org"),
        ("https://github.com@example.org/o/r", "example.org"), ("/srv/github.com/r", ""), ("./github.com:o/r", ""),
    ],
)  # fmt: skip
def test_the_host_of_a_remote(remote: str, named: str) -> None:
    assert forge_host(remote) == named


def test_a_token_is_shown_to_no_other_host(proposal: Proposal, host: Host, cli: Cli) -> None:
    """A server that is not the forge asks for it in vain."""
    done = cli("push", proposal.id, "--remote", destination(host).remote, "--prefix", "py", GITHUB_TOKEN=TOKEN)
    assert done.returncode == 2 and "git fetch" in done.stderr and not any(host.authorised)


@pytest.mark.parametrize(
    "remote",
    [
        "https://hidden-word@github.com/o/r", "https://me:hidden-word@github.com/o/r/too/deep", "ssh://me:hidden-word@example.org/o/r",
        "https://[hidden-word/o/r",
    ],
)  # fmt: skip
def test_an_address_with_credentials_is_refused_and_not_shown(proposal: Proposal, cli: Cli, remote: str) -> None:
    done = cli("push", proposal.id, "--remote", remote, GITHUB_TOKEN=TOKEN)
    assert done.returncode == 2 and "hidden-word" not in done.stderr + done.stdout and done.stderr.count("\n") == 1
    assert not pushed(proposal)


def test_an_address_that_looks_like_an_option_runs_nothing(proposal: Proposal, home: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with pytest.raises(UsageError, match="not a path or an address"):
        prepare(proposal, mine(home), Destination(f"--upload-pack=touch {ran};false"))
    assert not ran.exists()


@pytest.mark.parametrize(
    ("remote", "sent"),
    [
        ("https://github.com/o/r", True), ("http://127.0.0.1:80/o/r", True), ("http://127.0.0.1.example.org/o/r", False),
        ("http://example.org/o/r", False), ("git@github.com:o/r", False), ("/srv/r", False),
    ],
)  # fmt: skip
def test_a_token_goes_over_nothing_that_others_can_read(remote: str, sent: bool) -> None:
    environment = Destination(remote, secret=TOKEN).environment
    assert ("GIT_CONFIG_VALUE_0" in environment) is sent and "BatchMode=yes" in environment["GIT_SSH_COMMAND"]


def test_a_token_is_in_no_argument(proposal: Proposal, host: Host, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A git in front of the real one writes down what it is called with."""
    real, folder, seen = shutil.which("git"), tmp_path / "bin", tmp_path / "arguments"
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {seen}\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    push(proposal, mine(home), destination(host), forge(host))
    said = seen.read_text()
    assert "ls-remote" in said and "push" in said
    for form in (TOKEN, destination(host).environment["GIT_CONFIG_VALUE_0"].rpartition(" ")[2]):
        assert form not in said
        assert not any(form.encode() in path.read_bytes() for path in home.rglob("*") if path.is_file())
    called = said.split("\n")
    assert not [word for word in called if word in ("-f", "--force", "--mirror") or word.startswith("--force-")]
    assert not [word for word in called if word.startswith("+") and ":refs/infra-agent/remote/" not in word], "only fetches into our own"


def test_an_unapproved_one_is_not_pushed(tmp_path: Path, host: Host, home: Path) -> None:
    _, other = session_of(rows_task(tmp_path / "other"), home)
    with pytest.raises(UsageError, match="is not approved"):
        push(find_proposal(other), mine(home), destination(host), None)


def test_the_text_says_what_maintainers_ask(proposal: Proposal) -> None:
    hostile = proposal.made.model_copy(update={"summary": "```\n# Mine\n@everyone fixes #3 <img src=x>\n"})
    text = pull_request.body(replace(proposal, made=hostile), "none in the tracker")
    for wanted in ("Ada Reviewer, 4 minutes of review: the axis was wrong", "none in the tracker", "AI assistance", "driver model:scripted",
                   "| accuracy | pass | in-process |", "Tier: low", "infra-agent gate rows", f"sha256:{proposal.made.patch}"):  # fmt: skip
        assert wanted in text, wanted
    outside = "\n".join(text.split("````")[::2])
    assert "# Mine" not in outside and "@everyone" not in outside
    assert "not done by this program" in pull_request.body(proposal)


def test_by_command_line(proposal: Proposal, host: Host, home: Path, cli: Cli) -> None:
    to = ("--remote", destination(host).remote, "--prefix", "py", "--api-url", f"{host.address}/api/v3", "--forge", "github")
    assert cli("push", proposal.id, *to).returncode == 2, "no token"
    dry = cli("push", proposal.id, *to, "--dry-run", GITHUB_TOKEN=TOKEN)
    assert dry.returncode == 0 and "## Who answers for it" in dry.stdout and not host.pulls and not pushed(proposal)
    done = cli("push", proposal.id, *to, "--json", GITHUB_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pull_request"] == host.pulls[0]["html_url"]
    written = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert TOKEN.encode() not in written, "the token is in no file"
