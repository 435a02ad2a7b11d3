"""``infra-agent doctor``: what this machine can do, the line that mends what it cannot, and what its sandbox holds when it is tried."""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from infra_agent.cli.output import answer, document, progress, table
from infra_agent.errors import SandboxError

if TYPE_CHECKING:
    from infra_agent.sandbox.attacks.suite import Row
    from infra_agent.sandbox.backend import Backend

_STATES = {"held": "held", "escaped": "ESCAPED", "not_run": "not run"}


class Item(NamedTuple):
    """One thing looked at; ``fix`` is empty when there is nothing to mend."""

    name: str
    state: str
    found: str
    fix: str


def _item(name: str, ok: bool, found: str, fix: str) -> Item:
    return Item(name, "ok" if ok else "MISSING", found, "" if ok else fix)


def _git() -> Item:
    path = shutil.which("git")
    if path is None:
        return _item("git", False, "missing", "apt install git")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.split()[-1]
    new_enough = tuple(int(part) for part in version.split(".")[:2]) >= (2, 38)
    return _item("git", new_enough, version, "git 2.38 or newer is needed for merge-tree --write-tree")


def _package(name: str, extra: str) -> Item:
    there = importlib.util.find_spec(name) is not None
    return _item(name, there, "installed" if there else "missing", f"pip install 'infra-agent-framework[{extra}]'")


def _backend(backend: "Backend") -> Item:
    """Start a real cage and run a real request in it."""
    from infra_agent.sandbox.cage import Cage
    from infra_agent.sandbox.profile import load

    name = f"sandbox {backend.name}"
    refusal = backend.refusal()
    if refusal is not None:
        return Item(name, "NOT HERE", f"isolation {backend.isolation}", refusal)
    try:
        with Cage(load("reference"), backend=backend) as cage:
            result = cage.run("sandboxes.runtime.shell", {"command": "echo alive"})
            notes = "; ".join(cage.notes) or "everything in docs/threat-model.md"
    except SandboxError as error:
        return Item(name, "BROKEN", f"isolation {backend.isolation}", str(error))
    alive = result.ok and result.text == b"alive\n"
    holds = f"isolation {backend.isolation}; {'holds' if not cage.notes else 'not held'}: {notes}"
    return Item(name, "ok" if alive else "BROKEN", holds, "" if alive else f"a request: {result.why}: {result.text[-200:]!r}")


def _limits() -> Item:
    from infra_agent.sandbox import accounting

    found = accounting.mechanism()
    better = "run under: systemd-run --user --scope -p Delegate=yes infra-agent ..."
    return Item("limits", "ok", found, better if "watchdog" in found else "")


def _rows(every: bool) -> "Iterator[Row]":
    """The self-check: quick families in the sandbox that auto picks, or everything in each there is."""
    from infra_agent.sandbox.attacks import suite
    from infra_agent.sandbox.choose import BACKENDS, pick

    if not every:
        yield from suite.run(pick(), suite.QUICK)
        return
    for backend in (BACKENDS["bubblewrap"], BACKENDS["landlock"]):
        if backend.refusal() is None:
            yield from suite.run(backend)


def _self_check(every: bool) -> "list[Row]":
    rows = []
    try:
        for row in _rows(every):
            rows.append(row)
            if row.trial.state != "held":
                progress(f"  {row.arena}: {row.attack.name} ({row.attack.about}): {_STATES[row.trial.state]}: {row.trial.detail}")
    except SandboxError as error:
        progress(f"  the self-check could not be run: {error}")
    return rows


def _families(rows: "list[Row]") -> list[tuple[str, ...]]:
    """One line for each sandbox and family of attacks."""
    cells: dict[tuple[str, str], dict[str, int]] = {}
    for row in rows:
        counts = cells.setdefault((row.arena, row.attack.family), dict.fromkeys(_STATES, 0))
        counts[row.trial.state] += 1
    return [(*key, *(str(counts[state]) for state in _STATES)) for key, counts in cells.items()]


def doctor(
    attacks: Annotated[bool, typer.Option("--attacks", help="the whole self-check in every sandbox there is: minutes")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False,
) -> None:
    """Check this machine and try its sandbox. Exit 6 when no cage can be had or something got out, 2 when something else is missing."""
    from infra_agent.sandbox.choose import BACKENDS

    items = [_item("python", sys.version_info >= (3, 11), sys.version.split()[0], "Python 3.11 or newer is needed")]
    items += [_git(), _package("torch", "kernels"), _package("triton", "kernels"), _limits(), *map(_backend, BACKENDS.values())]
    if not as_json:
        answer(table([tuple(item) for item in items], ("what", "state", "found", "fix")))
        progress("\ntrying the sandbox ...")
    rows = _self_check(attacks)
    if as_json:
        trials = [{"sandbox": r.arena, "attack": r.attack.name, "family": r.attack.family, **vars(r.trial)} for r in rows]
        document({"machine": [item._asdict() for item in items], "attacks": trials})
    else:
        answer(table(_families(rows), ("sandbox", "attacks on", *_STATES.values())))
    walled = any(i.state == "ok" for i in items if i.name in ("sandbox bubblewrap", "sandbox landlock"))
    if not walled or not rows or any(row.trial.state == "escaped" for row in rows):
        raise typer.Exit(6)
    raise typer.Exit(2 if any(item.state == "MISSING" for item in items) else 0)
