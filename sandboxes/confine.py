"""Give up every right, for good: the last thing a request's process does before it touches a candidate's byte."""

import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000

_PR_SET_DUMPABLE = 4
_PR_SET_KEEPCAPS = 8
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_CAP_VERSION_3 = 0x20080522
_LAST_CAP = 40
_CAP_KILL, _CAP_SETPCAP, _CAP_SYS_ADMIN = 5, 8, 21
_MS_NOSUID_NODEV = 2 | 4
_MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    """Raise OSError when a libc call returned non-zero."""
    if result:
        errno = ctypes.get_errno()
        raise OSError(errno, f"{what}: {os.strerror(errno)}")


def hide() -> None:
    """No ptrace and no /proc/<pid>/mem for a process of the same uid."""
    check(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")


def become(uid: int) -> None:
    """Change to ``uid`` for good, keeping only what PID 1 of a cage needs: SYS_ADMIN, SETPCAP, KILL in this namespace."""
    check(libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0), "prctl(PR_SET_KEEPCAPS)")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kept = (1 << _CAP_SYS_ADMIN) | (1 << _CAP_SETPCAP) | (1 << _CAP_KILL)
    header = struct.pack("Ii", _CAP_VERSION_3, 0)
    check(libc.capset(header, struct.pack("6I", kept, kept, 0, 0, 0, 0)), "capset")


def fresh_mounts(size_mb: int, inodes: int) -> None:
    """Replace every writable place with an empty tmpfs, and /proc with one of this pid namespace."""
    options = f"size={size_mb}m,nr_inodes={inodes},mode=1777".encode()
    for place in (b"/tmp", b"/ws", b"/dev/shm"):
        check(libc.mount(b"tmpfs", place, b"tmpfs", _MS_NOSUID_NODEV, options), f"mount {place.decode()}")
    check(libc.mount(b"proc", b"/proc", b"proc", _MS_NOSUID_NODEV_NOEXEC, None), "mount /proc")


def drop_capabilities() -> None:
    """Empty the bounding, permitted, effective and inheritable sets."""
    for capability in range(_LAST_CAP + 1):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # an unknown number fails with EINVAL: nothing to drop
    header = struct.pack("Ii", _CAP_VERSION_3, 0)
    check(libc.capset(header, bytes(24)), "capset")


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
    check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")
    load_filter(bpf)
