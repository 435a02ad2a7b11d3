"""Pull requests on a forge. Another forge is another small class."""

import os
import re
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from infra_agent.errors import UsageError

_TIMEOUT_S = 30.0
_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._-]+")
_LOOPBACK = ("127.0.0.1", "::1")


@dataclass(frozen=True)
class PullRequest:
    """An open pull request."""

    number: int
    url: str
    title: str
    body: str


class Forge(Protocol):
    """What ``push`` needs. Each raises UsageError in one line that says what to do."""

    def find_open(self, branch: str) -> PullRequest | None:
        """The open pull request of a branch."""

    def create(self, branch: str, onto: str, title: str, body: str) -> PullRequest:
        """A new one, as a draft."""

    def update(self, number: int, title: str, body: str) -> PullRequest:
        """Another title and text."""


def token() -> str:
    """The forge's token, from the environment alone; empty when there is none."""
    return (os.environ.get("GITHUB_TOKEN") or os.environ.get("GH_TOKEN") or "").strip()


def refuse_credentials(remote: str) -> None:
    """Raises UsageError, which does not show the address, for one with credentials: git would put it into arguments and messages."""
    try:
        parts = urlsplit(remote)
        named, asked = bool(parts.username), bool(parts.password)
    except ValueError as error:
        raise UsageError(f"the remote is not an address ({error}); give a path, https://HOST/OWNER/NAME or git@HOST:OWNER/NAME") from error
    if asked or (named and parts.scheme in ("http", "https")):
        raise UsageError("the remote's address holds credentials; leave them out and put a token into GITHUB_TOKEN")
    if remote.startswith("-"):
        raise UsageError(f"{remote}: not a path or an address; write a path that begins with '-' as ./-...")


def host(remote: str) -> str:
    """The host of an address or of ``user@host:path``; empty for a path."""
    if "://" in remote:
        return urlsplit(remote).hostname or ""
    head, colon, _ = remote.partition(":")
    return head.rpartition("@")[2] if colon and "/" not in head else ""


class GitHub:
    """GitHub's REST interface, version 2022-11-28."""

    def __init__(self, remote: str, secret: str, api: str = "") -> None:
        """``api``: its address, where the remote's host does not tell."""
        named, where = host(remote), urlsplit(remote).path if "://" in remote else remote.partition(":")[2]
        path = where.strip("/").removesuffix(".git").split("/")
        if len(path) != 2 or not all(map(_NAME.fullmatch, path)) or not named:
            raise UsageError(f"{remote}: not OWNER/NAME on a GitHub server; use --forge none to push the branch alone")
        self._owner, self._name = path
        self._api = (api or ("https://api.github.com" if named == "github.com" else f"https://{named}/api/v3")).rstrip("/")
        _refuse_clear_text(self._api)
        self._secret = secret

    def find_open(self, branch: str) -> PullRequest | None:
        """The open pull request whose head is the branch."""
        found = self._ask("GET", "/pulls", {"head": f"{self._owner}:{branch}", "state": "open"}, None)
        if not isinstance(found, list):
            raise UsageError(f"{self._api}: the list of pull requests is not a list; is --api-url right?")
        # GitHub has answered with others than were asked for, and a stranger's text would be overwritten.
        mine = [each for each in found if isinstance(each, dict) and _is_head(each.get("head"), self._owner, branch)]
        return self._read(mine[0]) if mine else None

    def create(self, branch: str, onto: str, title: str, body: str) -> PullRequest:
        """A draft."""
        return self._read(self._ask("POST", "/pulls", {}, {"head": branch, "base": onto, "title": title, "body": body, "draft": True}))

    def update(self, number: int, title: str, body: str) -> PullRequest:
        """Title and text, nothing else."""
        return self._read(self._ask("PATCH", f"/pulls/{number}", {}, {"title": title, "body": body}))

    def _ask(self, method: str, path: str, query: dict[str, str], document: dict[str, Any] | None) -> Any:
        import httpx

        headers = {"Authorization": f"Bearer {self._secret}", "Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        url = f"{self._api}/repos/{self._owner}/{self._name}{path}"
        try:
            answer = httpx.request(method, url, params=query, json=document, headers=headers, timeout=_TIMEOUT_S)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # ValueError: a token that no header can hold
            raise UsageError(f"{method} {url}: {type(error).__name__}; nothing is lost: push again") from error
        if not answer.is_success:
            raise UsageError(f"{method} {url}: {answer.status_code} {_reason(answer.status_code, answer.text)}")
        try:
            return answer.json()
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{method} {url}: what came back is not JSON; is --api-url right?") from error

    def _read(self, found: Any) -> PullRequest:
        try:
            return PullRequest(int(found["number"]), str(found["html_url"]), str(found["title"]), str(found["body"] or ""))
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{self._api}: what came back is not a pull request ({type(error).__name__}); push again") from error


def _refuse_clear_text(api: str) -> None:
    """Raises UsageError for an address over which anybody on the way could read the token."""
    try:
        parts = urlsplit(api)
        fits = bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK))
        _ = parts.port
    except ValueError:
        fits = False
    if not fits:
        raise UsageError(f"--api-url {api}: not https://HOST/...; a token is sent over nothing else")


def _is_head(head: Any, owner: str, branch: str) -> bool:
    """True for the branch of that owner; GitHub compares owners without case."""
    label = head.get("label") if isinstance(head, dict) else None
    return isinstance(label, str) and label.partition(":")[0].lower() == owner.lower() and label.partition(":")[2] == branch


def _reason(status: int, text: str) -> str:
    if 300 <= status < 400:
        return "it has moved, and a token does not follow; push to the repository's address of today"
    if status in (401, 403):
        return "the token in GITHUB_TOKEN or GH_TOKEN may not do that, or a limit of requests is reached"
    if status == 404:
        return "there is no such repository for this token"
    if status == 429 or status >= 500:
        return "the server cannot now; push again later"
    return f"refused: {' '.join(text.split())[:200]}"
