"""On a root host: a user namespace in which the cage's processes are not uid 0 of the host.

Two uids are mapped: 0 is the host's root, under which bubblewrap reaches the folders it binds, and CAGE_UID is a
host uid that owns nothing. The worker leaves 0 before it does anything else and cannot come back: it keeps
no CAP_SETUID. An ordinary user needs none of this: bubblewrap maps the user to itself.
"""

import ctypes
import os
from contextlib import contextmanager
from typing import Iterator

from infra_agent.errors import SandboxError

CAGE_UID = 1
_HOST_UID_BASE = 600_000
_CLONE_NEWUSER = 0x10000000


@contextmanager
def mapped_namespace(offset: int) -> Iterator[int]:
    """A descriptor of a user namespace that maps 0 to the host's root and CAGE_UID to host uid 600000 + offset."""
    libc = ctypes.CDLL(None, use_errno=True)
    ready_read, ready_write = os.pipe()
    done_read, done_write = os.pipe()
    holder = os.fork()
    if holder == 0:
        os.close(ready_read)
        os.close(done_write)
        os.write(ready_write, b"0" if libc.unshare(_CLONE_NEWUSER) == 0 else b"1")
        os.read(done_read, 1)
        os._exit(0)
    os.close(ready_write)
    os.close(done_read)
    try:
        if os.read(ready_read, 1) != b"0":
            raise SandboxError("user namespaces are refused on this host; allow them: sysctl user.max_user_namespaces=10000")
        for kind in ("uid", "gid"):
            with open(f"/proc/{holder}/{kind}_map", "w") as file:
                file.write(f"0 0 1\n{CAGE_UID} {_HOST_UID_BASE + offset} 1\n")
        descriptor = os.open(f"/proc/{holder}/ns/user", os.O_RDONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    finally:
        os.close(done_write)
        os.close(ready_read)
        os.waitpid(holder, 0)
