"""Give up every right, for good: the last thing a request's process does before it touches a candidate's byte."""

import ctypes
import os
import resource
import struct
from typing import NamedTuple

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

_PR_SET_DUMPABLE = 4
_PR_SET_KEEPCAPS = 8
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_CAP_VERSION_3 = 0x20080522
_LAST_CAP = 40
_CAP_KILL, _CAP_SETGID, _CAP_SETUID, _CAP_SETPCAP, _CAP_NET_ADMIN, _CAP_SYS_ADMIN = 5, 6, 7, 8, 12, 21
NESTING = (_CAP_SYS_ADMIN, _CAP_SETPCAP, _CAP_KILL, _CAP_NET_ADMIN)
"""What PID 1 keeps, in the cage's own user namespace, to wall off and end its requests."""
CHANGE_UID = (_CAP_SETUID, _CAP_SETGID)

libc = ctypes.CDLL(None, use_errno=True)


class Limits(NamedTuple):
    """What one request may use; 0 means that the host limits it from outside, or not at all."""

    address_space: int
    file_size: int
    processes: int
    cpu_s: int
    disk: int
    inodes: int
    open_files: int

    def apply(self) -> None:
        """Set the calling process's rlimits; its children inherit them."""
        wanted = {
            resource.RLIMIT_AS: self.address_space,
            resource.RLIMIT_FSIZE: self.file_size,
            resource.RLIMIT_NPROC: self.processes,
            resource.RLIMIT_CPU: self.cpu_s,
            # 1 and not 0: where cores go to a program of the host's, the kernel pipes them there whatever the limit, unless it is 1
            resource.RLIMIT_CORE: 1,
        }
        for limit, value in wanted.items():
            if value:
                resource.setrlimit(limit, (value, value))
        for limit in (resource.RLIMIT_MSGQUEUE, resource.RLIMIT_MEMLOCK):
            resource.setrlimit(limit, (0, 0))

    def limit_files(self) -> None:
        """The limit on descriptors, apart: those that are on their way through a socket count against it for all of a uid."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.open_files, self.open_files))


def check(result: int, what: str) -> None:
    """Raise OSError when a libc call returned non-zero."""
    if result:
        errno = ctypes.get_errno()
        raise OSError(errno, f"{what}: {os.strerror(errno)}")


def prctl(option: int, value: int, name: str) -> None:
    """Call prctl with one argument; raises OSError naming ``name``."""
    check(libc.prctl(option, value, 0, 0, 0), f"prctl({name})")


def hide() -> None:
    """No ptrace and no /proc/<pid>/mem for a process of the same uid."""
    prctl(_PR_SET_DUMPABLE, 0, "PR_SET_DUMPABLE")


def show() -> None:
    """The opposite of :func:`hide`: a profiler of the same request may look."""
    prctl(_PR_SET_DUMPABLE, 1, "PR_SET_DUMPABLE")


def adopt_orphans() -> None:
    """Descendants whose parent ended become children of the calling process, as they would of an init."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1, "PR_SET_CHILD_SUBREAPER")


def kill_me_first() -> None:
    """When the host runs out of memory it shall take a request before PID 1. Raising one's own score needs no right."""
    show()  # without it the files of /proc/self belong to nobody
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    hide()


def become(uid: int, kept: tuple[int, ...]) -> None:
    """Change to ``uid`` for good, keeping only the capabilities named."""
    prctl(_PR_SET_KEEPCAPS, 1, "PR_SET_KEEPCAPS")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    keep(kept)


def keep(kept: tuple[int, ...]) -> None:
    """Give up every capability but these."""
    bits = sum(1 << capability for capability in kept)
    header = struct.pack("Ii", _CAP_VERSION_3, 0)
    check(libc.capset(header, struct.pack("6I", bits, bits, 0, 0, 0, 0)), "capset")


def drop_bounding_set() -> None:
    """Nothing run from here on can gain a capability; without CAP_SETPCAP there is none to gain, thanks to no_new_privs."""
    for capability in range(_LAST_CAP + 1):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # an unknown number fails with EINVAL: nothing to drop


def drop_capabilities() -> None:
    """Empty the bounding, permitted, effective and inheritable sets."""
    drop_bounding_set()
    keep(())


def no_new_privileges() -> None:
    """A set-uid program gives nothing any more."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1, "PR_SET_NO_NEW_PRIVS")


def load_filter(program: bytes) -> None:
    """Load a seccomp filter. ``program`` is the BPF that the host compiled: 8 bytes an instruction."""

    class SockFprog(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    buffer = ctypes.create_string_buffer(program, len(program))
    fprog = SockFprog(len(program) // 8, ctypes.addressof(buffer))
    check(libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(fprog), 0, 0), "prctl(PR_SET_SECCOMP)")


def give_up_rights(bpf: bytes) -> None:
    """Bounding set, capabilities, no_new_privs, seccomp: in the only order that works."""
    hide()
    drop_capabilities()
    no_new_privileges()
    load_filter(bpf)
