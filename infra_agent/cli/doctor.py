"""``infra-agent doctor``: what this machine can do, and the line that mends what it cannot."""

import importlib.util
import shutil
import subprocess
import sys
from typing import Annotated, NamedTuple

import typer

from infra_agent.cli.output import answer, document, table


class Item(NamedTuple):
    """One thing looked at; ``fix`` is empty when there is nothing to mend."""

    name: str
    ok: bool
    found: str
    fix: str


def _git() -> Item:
    path = shutil.which("git")
    if path is None:
        return Item("git", False, "missing", "apt install git")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.split()[-1]
    new_enough = tuple(int(part) for part in version.split(".")[:2]) >= (2, 38)
    return Item("git", new_enough, version, "" if new_enough else "git 2.38 or newer is needed for merge-tree --write-tree")


def _package(name: str, extra: str) -> Item:
    there = importlib.util.find_spec(name) is not None
    return Item(name, there, "installed" if there else "missing", "" if there else f"pip install 'infra-agent-framework[{extra}]'")


def _seccomp() -> Item:
    from infra_agent.errors import SandboxError
    from infra_agent.sandbox import seccomp

    try:
        return Item("seccomp", True, f"filter of {len(seccomp.program()) // 8} instructions", "")
    except SandboxError as error:
        return Item("seccomp", False, str(error), "apt install libseccomp2")


def _cage() -> Item:
    """Start a real cage and run a real request in it."""
    from infra_agent.errors import SandboxError
    from infra_agent.sandbox.cage import Cage
    from infra_agent.sandbox.profile import load

    try:
        cage = Cage(load("reference"))
    except SandboxError as error:
        return Item("cage", False, str(error), "see the message")
    try:
        result = cage.run("sandboxes.runtime.shell", {"command": "echo alive"})
        alive = result.ok and result.text == b"alive\n"
        return Item(
            "cage",
            alive,
            f"bubblewrap, isolation {cage.isolation}",
            "" if alive else f"a request ended with {result.ended}: {result.text[-200:]!r}",
        )
    finally:
        cage.close()


def doctor(as_json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False) -> None:
    """Check this machine; exit 6 when no cage can be had, 2 when something else is missing."""
    version = sys.version.split()[0]
    items = [
        Item("python", sys.version_info >= (3, 11), version, "" if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed"),
        _git(),
    ]
    items += [_package("torch", "kernels"), _package("triton", "kernels"), _seccomp(), _cage()]
    if as_json:
        document([item._asdict() for item in items])
    else:
        answer(table([(i.name, "ok" if i.ok else "MISSING", i.found, i.fix) for i in items], ("what", "state", "found", "fix")))
    bad = {item.name for item in items if not item.ok}
    raise typer.Exit(6 if bad & {"cage", "seccomp"} else (2 if bad else 0))
