"""Landlock: a process gives up files, TCP, signals and abstract sockets beyond what it names, without any privilege.

The kernel's ABI number says what can be given up: 1 files, 2 links, 3 truncation, 4 TCP, 5 device ioctls, 6 signals and abstract
sockets (kernel documentation, userspace-api/landlock).
"""

import ctypes
import os
import stat
import struct

from sandboxes.confine import check, libc

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_MAKE_DEVICES = 1 << 6 | 1 << 11
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_ON_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | 1 << 15
_TCP, _SCOPES = 0b11, 0b11


def abi() -> int:
    """The kernel's Landlock ABI; 0 where there is none."""
    return max(0, int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION))))


def _handled(version: int) -> int:
    return _FILE_RIGHTS[max(known for known in _FILE_RIGHTS if known <= version)]


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Add a rule for ``path`` and what is beneath it; a path that is not there needs none."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _ON_A_FILE
        rule = struct.pack("<Qi", rights, descriptor)
        check(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.c_char_p(rule), 0), f"landlock rule for {path}")
    finally:
        os.close(descriptor)


def restrict(readable: list[str], writable: list[str]) -> None:
    """Leave the calling process only ``readable`` (read, execute) and ``writable`` (everything but devices), and no network.

    Needs no_new_privs. Raises OSError where the kernel has no Landlock.
    """
    version = abi()
    if not version:
        raise OSError("this kernel has no Landlock")
    files = _handled(version)
    attributes = struct.pack("<QQQ", files, _TCP if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else (16 if version >= 4 else 8)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.c_char_p(attributes), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        check(-1, "landlock_create_ruleset")
    for path in readable:
        _allow(ruleset, path, files & (_EXECUTE | _READ_FILE | _READ_DIR))
    for path in writable:
        _allow(ruleset, path, files & ~_MAKE_DEVICES)
    check(libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)
