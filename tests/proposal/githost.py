"""A git server and a GitHub of their own on loopback: real ``git http-backend``, and a stub that checks every field it is sent."""

import base64
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "tok-0123456789abcdef"
_BASIC = "Basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()


class Host(ThreadingHTTPServer):
    """``broken``: what the next request of that kind (method, last part of the path) meets: ``cut`` before, ``late`` after it was done.

    ``canned``: what the forge answers whatever it is asked; ``unfiltered``: it lists every pull request, as GitHub did for some queries.
    """

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.broken: dict[tuple[str, str], str] = {}
        self.canned: tuple[int, bytes] | None = None
        self.unfiltered = False
        self.pulls: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.authorised: list[bool] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Host

    def log_message(self, *_: object) -> None:
        return

    def _serve(self) -> None:
        path = urlsplit(self.path)
        body = self._body()
        how = self.server.broken.pop((self.command, path.path.rpartition("/")[2]), "")
        self.server.asked.append(f"{self.command} {self.path}")
        self.server.authorised.append("Authorization" in self.headers)
        if how == "cut":
            self.connection.close()
            return
        status, kind, data = (
            self._api(path.path, path.query, body) if path.path.startswith("/api/") else self._git(path.path, path.query, body)
        )
        if how == "late":
            self.connection.close()
            return
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if status == 401:
            self.send_header("WWW-Authenticate", "Basic realm=git")
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = _serve  # noqa: N815 (http.server asks for these names)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _git(self, path: str, query: str, body: bytes) -> tuple[int, str, bytes]:
        if self.headers.get("Authorization") != _BASIC:
            return 401, "text/plain", b"no"
        env = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.server.root), "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": "me",
            "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type") or "", "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
        }  # fmt: skip
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=False)
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        return int(fields.get("Status", "200").split()[0]), fields.get("Content-Type", "text/plain"), data

    def _api(self, path: str, query: str, body: bytes) -> tuple[int, str, bytes]:
        wanted = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        if any(self.headers.get(name) != value for name, value in wanted.items()):
            return 401, "application/json", b"{}"
        if self.server.canned:
            return self.server.canned[0], "application/json", self.server.canned[1]
        status, answer = self._pulls(path.removeprefix("/api/v3/repos/o/target/pulls"), parse_qs(query), json.loads(body or b"{}"))
        return status, "application/json", json.dumps(answer).encode()

    def _pulls(self, rest: str, query: dict[str, list[str]], given: dict[str, Any]) -> tuple[int, Any]:
        pulls = self.server.pulls
        if self.command == "GET" and not rest and query["state"] == ["open"]:
            return 200, [pull for pull in pulls if self.server.unfiltered or pull["head"]["label"] == query["head"][0]]
        if self.command == "POST" and not rest and set(given) == {"head", "base", "title", "body", "draft"} and given["draft"] is True:
            ends = {end: {"ref": given[end], "label": f"o:{given[end]}"} for end in ("head", "base")}
            made = {**given, **ends, "number": len(pulls) + 1, "html_url": f"{self.server.address}/o/target/pull/{len(pulls) + 1}"}
            pulls.append(made)
            return 201, made
        if self.command == "PATCH" and set(given) == {"title", "body"}:
            pulls[int(rest.strip("/")) - 1].update(given)
            return 200, pulls[int(rest.strip("/")) - 1]
        return 422, {"message": "not like that"}


@contextmanager
def serving(root: Path) -> Iterator[Host]:
    """A host whose repositories lie under ``root``."""
    host = Host(root)
    thread = threading.Thread(target=host.serve_forever)
    thread.start()
    try:
        yield host
    finally:
        host.shutdown()
        thread.join()
        host.server_close()
