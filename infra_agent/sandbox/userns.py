"""On a root host: a user namespace in which the cage's processes are not uid 0 of the host.

Mapped are 0, the host's root, under which bubblewrap reaches the folders it binds, and UIDS, host uids that own nothing. The worker
leaves 0 before it does anything else and cannot come back: it keeps no CAP_SETUID, except where requests cannot have namespaces
of their own and each becomes another of these uids instead. An ordinary user needs none of this: bubblewrap maps the user to itself.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from infra_agent.errors import SandboxError

UIDS = range(1, 65)
_HOST_UID_BASE = 600_000
_CAGES = 500_000  # so many that two cages hardly ever share uids, and with them RLIMIT_NPROC
_HOLDER = ("unshare", "--user", "sh", "-c", "echo; exec cat")


def host_uid() -> int:
    """The first of a random run of host uids that own nothing."""
    return _HOST_UID_BASE + int.from_bytes(os.urandom(4), "little") % _CAGES * len(UIDS)


@contextmanager
def mapped_namespace() -> Iterator[int]:
    """A descriptor of a user namespace that maps 0 to the host's root and UIDS to some of the host's uids from 600000 up."""
    base = host_uid()
    if shutil.which(_HOLDER[0]) is None:
        raise SandboxError("unshare is missing; install it: apt install util-linux")
    with ExitStack() as held:
        # Pipes of our own: Popen's leak when it runs out of descriptors half way (CPython 3.11.2)
        stay, let_go = _pipe(held)
        told, tell = _pipe(held)
        holder = subprocess.Popen(_HOLDER, stdin=stay, stdout=tell, stderr=subprocess.DEVNULL)
        held.callback(holder.wait)
        held.callback(let_go.close)  # first: cat ends
        tell.close()
        if told.readline() != b"\n":
            raise SandboxError("user namespaces are refused on this host; allow them: sysctl user.max_user_namespaces=10000")
        try:
            for kind in ("uid", "gid"):
                with open(f"/proc/{holder.pid}/{kind}_map", "w") as file:
                    file.write(f"0 0 1\n{UIDS.start} {base} {len(UIDS)}\n")
        except OSError as error:
            advice = "this root is one of a container: run outside it, or as an ordinary user"
            raise SandboxError(f"uids from {_HOST_UID_BASE} up cannot be mapped ({error.strerror}); {advice}") from error
        descriptor = os.open(f"/proc/{holder.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        held.callback(os.close, descriptor)
        let_go.close()  # cat ends; the descriptor keeps the namespace
        yield descriptor


def _pipe(held: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    read, write = os.pipe()
    return held.enter_context(os.fdopen(read, "rb")), held.enter_context(os.fdopen(write, "wb"))
