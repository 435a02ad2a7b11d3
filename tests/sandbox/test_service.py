"""Services: a process tree on the cage's own loopback, with a real server and a real client."""

import http.client
from collections.abc import Iterator

import pytest

from infra_agent.errors import SandboxError
from infra_agent.sandbox.base import Sandbox
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.profile import load
from infra_agent.sandbox.service import Service, ServiceSpec
from infra_agent.task.tree import pack

SERVER = b"""
import http.server, os, pathlib

class Counter(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/health" and not pathlib.Path("ready").exists():
            pathlib.Path("ready").touch()
            self.send_error(503)
            return
        with open("count", "a") as file:
            file.write("x")
        body = str(len(open("count").read())).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Counter).serve_forever()
"""
SPEC = ServiceSpec("setsid sleep 600 & exec python3 server.py", 8000, "/health", ready_s=20, files=pack({"server.py": SERVER}))


@pytest.fixture
def cage() -> Iterator[Cage]:
    made = Cage(load("reference"))
    yield made
    made.close()


def ask(service: Service, path: str = "/") -> int:
    connection = service.connection()
    connection.request("GET", path)
    answer = int(connection.getresponse().read())
    connection.close()
    return answer


def test_ready_when_its_health_says_so_and_reset_starts_from_nothing(cage: Cage) -> None:
    service = Service(cage, SPEC)
    assert service.ready_after_s > 0
    assert [ask(service), ask(service)] == [2, 3], "the health check that passed was the first"
    assert service.reset().ended == "stopped"
    assert ask(service) == 2
    result = service.stop()
    assert result.ended == "stopped" and result.cpu_s > 0 and b"GET /health" in result.text


def test_the_whole_tree_ends(cage: Cage) -> None:
    Service(cage, SPEC).stop()
    left = cage.run("sandboxes.runtime.shell", {"command": "ps -e -o comm="}).text.decode().split()
    assert "sleep" not in left and cage.alive


def test_two_cages_may_use_the_same_port(cage: Cage) -> None:
    with Cage(load("reference")) as other:
        services = [Service(made, SPEC) for made in (cage, other)]
        assert [ask(service) for service in services] == [2, 2]


def test_a_service_that_ends_says_how(cage: Cage) -> None:
    with pytest.raises(SandboxError, match="ended before it was ready: exit status 3; out of cheese"):
        Service(cage, ServiceSpec("echo out of cheese; exit 3", 8000))


def test_a_service_that_never_listens_is_given_up(cage: Cage) -> None:
    with pytest.raises(SandboxError, match=r"not ready after 0\.3 s"):
        Service(cage, ServiceSpec("sleep 60", 8000, ready_s=0.3))


def test_a_service_that_dies_later_is_a_connection_error(cage: Cage) -> None:
    service = Service(cage, ServiceSpec("timeout 0.5 python3 -m http.server 8000 --bind 127.0.0.1; exit 0", 8000))

    def ask_until_it_is_gone() -> None:
        while True:
            service.connect().close()

    with pytest.raises((ConnectionError, http.client.HTTPException)):
        ask_until_it_is_gone()
    assert service.stop().ended in ("ok", "stopped")


def test_below_full_isolation_there_is_no_service(landlocked: Sandbox) -> None:
    with pytest.raises(SandboxError, match="isolation full"):
        Service(landlocked, SPEC)
    assert landlocked.alive
