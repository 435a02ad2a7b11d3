"""Two programs, one after the other, in the same arena: the first leaves something, the second looks."""

from collections.abc import Callable

from infra_agent.errors import InfraAgentError
from infra_agent.sandbox.attacks.base import Arena, Attack, Family, Outcome, Trial

_SOON_S = 3.0
TIMEOUT_S = 10.0

HEAD = """
import builtins, errno, os, shutil, socket, sys, time
import json
scene = json.load(open("scene.json"))
mark = f"leftover-{scene['host_pid']}"
port = 20000 + scene["host_pid"] % 20000

def scratch():  # where any program may write
    names = [".", os.environ.get("TMPDIR", "/tmp"), os.environ.get("HOME", "/tmp"), "/tmp", "/var/tmp", "/dev/shm"]
    return list(dict.fromkeys(map(os.path.abspath, names)))

def tried(act):
    try:
        return act() or True
    except OSError:
        return False

def daemon(act):  # twice forked, in a session of its own, without a descriptor
    if os.fork():
        time.sleep(0.3)
        return
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 24)
        act()
    os._exit(0)
"""

CLEAN = 'print("HELD nothing was left")'


def said(text: bytes, word: str) -> str | None:
    """The first line that starts with ``word``, without it; None when there is none."""
    lines = [line for line in text.decode(errors="replace").splitlines() if line.startswith(word)]
    return lines[0].removeprefix(word).strip() if lines else None


def judged(arena: Arena, outcome: Outcome) -> Trial | None:
    """What went wrong already; None when the program did what it was to do."""
    wrong = arena.scene.damage(outcome.text) or said(outcome.text, "ESCAPED")
    if wrong:
        return Trial("escaped", wrong)
    if (held := said(outcome.text, "HELD")) is not None:
        return Trial("held", held)
    if (not_run := said(outcome.text, "NOT RUN")) is not None:
        return Trial("not_run", not_run)
    if outcome.ended != "ok":
        return Trial("escaped", f"the attack did not do its work: {outcome.ended}: {outcome.text[-300:].decode(errors='replace')}")
    return None


def two(
    name: str, about: str, first: str, second: str = CLEAN, *, head: str = "",
    between: Callable[[Arena], str | None] = lambda _: None, family: Family = "leftovers", may_end: tuple[str, ...] = (),
) -> Attack:  # fmt: skip
    """Two programs, one after the other, in the same arena. The first says HELD when it cannot leave anything, the second looks.

    The second must start as soon as ever. ``head``: what both begin with. ``between``: the host's look after the first, which may cost the
    cage when it ends as one of ``may_end``.
    """

    def attempt(arena: Arena) -> Trial:
        try:
            outcome = arena.run(f"{HEAD}{head}\n{first}", TIMEOUT_S)
            stopped = outcome.ended in may_end
            trial = None if stopped else judged(arena, outcome)
            wrong = between(arena)
            if wrong:
                return Trial("escaped", wrong)
            if trial:
                return trial
            sandbox = arena.sandbox
            if sandbox and not sandbox.alive and not stopped:
                return Trial("escaped", "the first program ended well and cost the cage all the same")
            outcome = arena.run(f"{HEAD}{head}\n{second}", TIMEOUT_S)
        except (OSError, RuntimeError, InfraAgentError) as error:
            return Trial("escaped", f"the host failed on what was left: {type(error).__name__}: {error}")
        if sandbox is not arena.sandbox and not stopped:
            return Trial("escaped", "what was left broke the cage")
        if outcome.wall_s > _SOON_S:
            return Trial("escaped", f"the next program took {outcome.wall_s:.1f} s; {_SOON_S} s are allowed")
        return judged(arena, outcome) or Trial("escaped", f"the second program said nothing: {outcome.text[-300:]!r}")

    return Attack(name, family, about, attempt)
