"""The forge's interface against a server on loopback: what it answers, and what a person is told when it does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra_agent.errors import UsageError
from infra_agent.proposal.forge import GitHub, token
from tests.proposal.githost import TOKEN, Host, serving


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with serving(tmp_path) as served:
        yield served


def forge(host: Host) -> GitHub:
    return GitHub(f"{host.address}/o/target.git", TOKEN, f"{host.address}/api/v3")


def test_a_draft_is_made_found_and_changed(host: Host) -> None:
    made = forge(host).create("infra-agent/p-1", "main", "title", "text")
    assert forge(host).find_open("infra-agent/p-1") == made and host.pulls[0]["draft"] is True
    assert forge(host).update(made.number, "title", "more").body == "more" and len(host.pulls) == 1


def test_a_pull_request_of_another_branch_or_owner_is_not_ours(host: Host) -> None:
    """A list that the server did not narrow down holds strangers', whose text must stay as it is."""
    forge(host).create("somebody/else", "main", "theirs", "theirs")
    forge(host).create("infra-agent/p-1", "main", "theirs", "a fork's branch of the same name")
    host.pulls[1]["head"]["label"] = "fork:infra-agent/p-1"
    host.unfiltered = True
    assert forge(host).find_open("infra-agent/p-1") is None
    ours = forge(host).create("infra-agent/p-1", "main", "ours", "ours")
    host.pulls[2]["head"]["label"] = "O:infra-agent/p-1"
    assert forge(host).find_open("infra-agent/p-1") == ours


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (301, "has moved"), (401, "may not do that"), (403, "a limit of requests"), (404, "no such repository"),
        (422, "refused: not like that"), (429, "push again later"), (500, "push again later"), (503, "push again later"),
    ],
)  # fmt: skip
def test_each_refusal_is_one_line_that_says_what_to_do(host: Host, status: int, says: str) -> None:
    host.canned = (status, b"not\nlike that")
    for ask in (
        lambda: forge(host).find_open("b"),
        lambda: forge(host).create("b", "main", "t", "t"),
        lambda: forge(host).update(1, "t", "t"),
    ):
        with pytest.raises(UsageError, match=f"{status} .*{says}") as caught:
            ask()
        assert "\n" not in str(caught.value) and TOKEN not in str(caught.value) and caught.value.exit_code == 2


@pytest.mark.parametrize("answer", [b"<html>", b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_said_to_be_that(host: Host, answer: bytes) -> None:
    host.canned = (200, answer)
    with pytest.raises(UsageError, match="is --api-url right"):
        forge(host).find_open("b")


@pytest.mark.parametrize("answer", [b"3", b"null", b"[]", b'{"number": "x", "html_url": 1, "title": 2, "body": 3}', b'{"number": 1}'])
def test_what_is_not_a_pull_request_is_said_to_be_that(host: Host, answer: bytes) -> None:
    host.canned = (201, answer)
    with pytest.raises(UsageError, match="not a pull request"):
        forge(host).create("b", "main", "t", "t")


def test_nobody_there(host: Host) -> None:
    gone = GitHub("https://example.org/o/target", TOKEN, "http://127.0.0.1:9/api/v3")
    with pytest.raises(UsageError, match="push again"):
        gone.find_open("b")


@pytest.mark.parametrize(
    "api", ["http://example.org/api/v3", "example.org", "https://[bad", "https://example.org:bad", "ftp://127.0.0.1/x"]
)
def test_a_token_is_sent_over_https_alone(api: str) -> None:
    with pytest.raises(UsageError, match="sent over nothing else"):
        GitHub("https://github.com/o/r", TOKEN, api)


@pytest.mark.parametrize(
    "remote", ["https://github.com/o", "https://github.com/o/r/x", "https://github.com/../r", "https://github.com/o/a b"]
)
def test_an_address_that_names_no_repository(remote: str) -> None:
    with pytest.raises(UsageError, match="use --forge none"):
        GitHub(remote, TOKEN)


def test_a_token_from_a_file_loses_its_newline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GH_TOKEN", raising=False)
    monkeypatch.setenv("GITHUB_TOKEN", f"{TOKEN}\n")
    assert token() == TOKEN
