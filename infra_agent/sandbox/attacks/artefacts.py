"""What the host reads back after a program planted it: nothing but a plain file of its own, and never for long."""

import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from infra_agent.errors import ArtefactError
from infra_agent.sandbox.attacks.base import Arena, Attack, Trial

_LIMIT = 4096
_SOON_S = 1.0
_PATIENCE_S = 3.0
"""After that a read counts as blocked; its thread is left behind, which costs nothing."""
_BINARY = bytes(range(256)) * (_LIMIT // 256)
_DEEP, _LONG = 400, "long-names-" * 2
_SPARE = 64
"""Descriptors that a reader may need on top of what the host has open."""

_HEAD = """
import json, os, stat, sys
scene = json.load(open("scene.json"))
key = scene["key_file"]

def planted(act):
    try:
        act()
        print("PLANTED")
    except OSError as error:
        print("HELD it cannot be made:", error)
"""
"""``planted(callable)`` says whether the host has something to read."""


@dataclass
class _Taken:
    """What a read by the host came to: bytes, or an error; neither while it blocks."""

    data: bytes | None = None
    error: Exception | None = None
    seconds: float = field(default=0.0)


Wanted = Callable[[_Taken], str | None]
"""What is wrong with what the host got; None when it is as it should be."""


def _take(arena: Arena, path: str, limit: int) -> _Taken:
    """Read as the host would, in a thread, so that a read that blocks is found and not suffered."""
    taken = _Taken()

    def read() -> None:
        try:
            taken.data = arena.get(path, limit)
        except Exception as error:
            taken.error = error

    began = time.monotonic()
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(_PATIENCE_S)
    taken.seconds = time.monotonic() - began
    return taken


def _refused(taken: _Taken) -> str | None:
    """An ArtefactError is wanted, and soon."""
    if taken.data is not None:
        return f"the host got {len(taken.data)} bytes"
    if taken.error is None:
        return f"the host's read blocked for {taken.seconds:.0f} s"
    return None if isinstance(taken.error, ArtefactError) else f"{type(taken.error).__name__}, not ArtefactError: {taken.error}"


def _equal(data: bytes) -> Wanted:
    """These bytes are wanted."""
    return lambda taken: None if taken.data == data else f"not as it was written: {taken.error or (taken.data or b'')[:40]!r}"


def _either(data: bytes) -> Wanted:
    """These bytes or an ArtefactError: which of them depends on whose file the host may open."""
    return lambda taken: _equal(data)(taken) if taken.data is not None else _refused(taken)


@contextmanager
def _few_descriptors() -> Iterator[None]:
    """This process may open few files more: one that walks a path needs two at a time, however long it is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + _SPARE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _judged(arena: Arena, path: str, limit: int, wanted: Wanted) -> Trial:
    taken = _take(arena, path, limit)
    if taken.data is not None and arena.scene.secret.encode() in taken.data:
        return Trial("escaped", f"{path[:60]!r} gave the host's own secret away")
    wrong = wanted(taken) or (f"it took {taken.seconds:.1f} s" if taken.seconds > _SOON_S else None)
    if wrong:
        return Trial("escaped", f"{path[:60]!r}: {wrong}")
    return Trial("held", str(taken.error)[:200] if taken.error else f"{len(taken.data or b'')} bytes as written")


def _planted(
    name: str, about: str, code: str, paths: tuple[str, ...] = ("ws/loot",), *, limit: int = _LIMIT, wanted: Wanted = _refused
) -> Attack:
    """An attack on the host's reader: the program plants, the host reads each of ``paths``; ``{key}`` in one is the key file's path."""

    def attempt(arena: Arena) -> Trial:
        outcome = arena.run(_HEAD + code, 10.0)
        wrong = arena.scene.damage(outcome.text)
        said = outcome.text.decode(errors="replace")
        if wrong:
            return Trial("escaped", wrong)
        if "HELD" in said:
            return Trial("held", said[said.index("HELD") + 5 :].strip())
        if outcome.ended == "disk_limit":
            return Trial("held", "the host ended it for what it planted")
        if "PLANTED" not in said or outcome.ended != "ok":
            return Trial("escaped", f"the attack did not do its work: {outcome.ended}: {said[-300:]}")
        trial = Trial("held", "no path")
        with _few_descriptors():
            for path in paths:
                trial = _judged(arena, path.replace("{key}", str(arena.scene.key_file)), limit, wanted)
                if trial.state == "escaped":
                    break
        return trial

    return Attack(name, "artefacts", about, attempt)


_PLAIN = f"""
def act():
    os.makedirs("a/b")
    for path in ("loot", "a/b/loot", "odd name \\u00e9"):
        with open(path, "wb") as file:
            file.write(bytes(range(256)) * {_LIMIT // 256})

planted(act)
"""

FAMILY: tuple[Attack, ...] = (
    _planted(
        "plain-file", "the control: a plain file of exactly the limit comes back byte for byte, from a folder too",
        _PLAIN, ("ws/loot", "ws/a/b/loot", "ws/odd name \u00e9"), wanted=_equal(_BINARY),
    ),
    _planted("symlink-to-key", "a symbolic link to the key file", 'planted(lambda: os.symlink(key, "loot"))'),
    _planted(
        "symlink-to-own-environment", "a link that means something else to the host: /proc/self/environ holds the host's own secret",
        'planted(lambda: os.symlink("/proc/self/environ", "loot"))',
    ),
    _planted(
        "symlink-to-plain", "a link to a plain file beside it: even that is not what was asked for",
        'open("real", "w").write("x"); planted(lambda: os.symlink("real", "loot"))',
    ),
    _planted(
        "symlink-folder", "a folder that is a link to the key file's folder, and one to /",
        'planted(lambda: (os.symlink(os.path.dirname(key), "dir"), os.symlink("/", "root")))',
        ("ws/dir/id_ed25519", "ws/root{key}"),
    ),
    _planted(
        "symlink-workspace", "the working folder itself replaced by a link to the key file's folder",
        """
own = os.getcwd()
os.chdir("/")
planted(lambda: (os.rename(own, own + ".moved"), os.symlink(os.path.dirname(key), own)))
""",
        ("ws/id_ed25519",),
    ),
    _planted("hard-link", "a file with two names", 'open("real", "w").write("x"); planted(lambda: os.link("real", "loot"))'),
    _planted("hard-link-to-key", "another name of the key file", 'planted(lambda: os.link(key, "loot"))'),
    _planted("fifo", "a FIFO: opening it would block the host", 'planted(lambda: os.mkfifo("loot"))'),
    _planted("device", "a device node", 'planted(lambda: os.mknod("loot", 0o666 | stat.S_IFCHR, os.makedev(1, 3)))'),
    _planted("symlink-to-device", "a link to a device", 'planted(lambda: os.symlink("/dev/null", "loot"))'),
    _planted("folder", "a folder where a file was asked for", 'planted(lambda: os.mkdir("loot"))', ("ws/loot", "ws")),
    _planted(
        "socket", "a UNIX socket's file",
        """
import socket
planted(lambda: socket.socket(socket.AF_UNIX).bind("loot"))
""",
    ),
    _planted(
        "sparse", "45 MiB of nothing that take no space",
        'planted(lambda: os.truncate(os.open("loot", os.O_CREAT | os.O_RDWR), 45 << 20))',
    ),
    _planted("over-the-cap", "one byte more than the limit", f'planted(lambda: open("loot", "wb").write(bytes({_LIMIT + 1})))'),
    _planted(
        "paths", "a path with '..', an absolute one, one with empty parts, and none at all: none may leave the working folder",
        _PLAIN,
        ("ws/" + "../" * 32 + "{key}", "{key}", "ws/{key}", "/{key}", "ws/./loot", "ws/a/../loot", "ws/loot/", "ws//loot", "", ".", ".."),
    ),
    _planted(
        "odd-paths", "a path with a NUL, one that no file system can say, one too long: an ArtefactError, not a crash of the host",
        _PLAIN, ("ws/loot\0", "ws/\ud800", "ws/" + "x" * 5000, "\0"),
    ),
    _planted(
        "no-permissions", "a file without permission bits",
        'open("loot", "w").write("mine"); planted(lambda: os.chmod("loot", 0))', wanted=_either(b"mine"),
    ),
    _planted(
        "no-permissions-folder", "a file in a folder without permission bits",
        """
os.mkdir("dir")
open("dir/loot", "w").write("mine")
planted(lambda: os.chmod("dir", 0))
""",
        ("ws/dir/loot",), wanted=_either(b"mine"),
    ),
    _planted(
        "deep", f"a file {_DEEP} folders down, its path longer than the kernel takes; to read it may not use up the host's descriptors",
        f"""
def act():
    for _ in range({_DEEP}):
        os.mkdir("{_LONG}")
        os.chdir("{_LONG}")
    open("loot", "w").write("mine")

planted(act)
""",
        ("ws/" + f"{_LONG}/" * _DEEP + "loot",), wanted=_equal(b"mine"),
    ),
    _planted(
        "swap", "a process left behind swaps a plain file for a link to the key file while the host reads",
        """
import time
if os.fork() == 0:
    os.setsid()
    until = time.monotonic() + 2
    while time.monotonic() < until:
        with open("new", "w") as file:
            file.write("x")
        os.rename("new", "loot")
        os.symlink(key, "new")
        os.rename("new", "loot")
    os._exit(0)
time.sleep(0.1)
planted(lambda: None)
""",
        ("ws/loot",) * 200, wanted=_either(b"x"),
    ),
)  # fmt: skip
