"""Which Landlock this kernel has, and what it lacks. The cage's side applies it (``sandboxes/landlock.py``)."""

import ctypes

_CREATE_RULESET = 444
_VERSION = 1
_SINCE = {
    2: "hard links and renames between folders are refused altogether",
    3: "truncating a readable file",
    4: "TCP is held by seccomp alone",
    6: "signals to this user's other processes",
}
"""ABI -> what is not held, or held otherwise, before it."""


def abi() -> int:
    """The kernel's Landlock ABI; 0 where there is none."""
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION))))


def missing() -> tuple[str, ...]:
    """What this kernel's Landlock does not hold that a newer one would."""
    return tuple(f"Landlock ABI {abi()}: {text}" for since, text in _SINCE.items() if abi() < since)
