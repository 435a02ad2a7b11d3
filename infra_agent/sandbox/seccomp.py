"""The seccomp filter of a request's child, compiled on the host to BPF bytes.

The filter denies; what it allows is what numerical code needs. It is loaded after the request's own mounts
are made, so it may deny mount and unshare.
"""

import tempfile
from functools import cache
from typing import Any

from infra_agent.errors import SandboxError

EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97

_TRACING = "ptrace process_vm_readv process_vm_writev kcmp".split()
_DENIED = """
pidfd_getfd io_setup
mount umount2 pivot_root chroot unshare setns fsopen fsconfig fsmount move_mount open_tree mount_setattr
bpf perf_event_open userfaultfd keyctl add_key request_key io_uring_setup io_uring_enter io_uring_register
open_by_handle_at name_to_handle_at kexec_load kexec_file_load init_module finit_module delete_module
reboot swapon swapoff acct quotactl settimeofday clock_settime adjtimex clock_adjtime personality syslog vhangup
memfd_create memfd_secret shmget shmat shmctl msgget msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open mq_unlink
sched_setaffinity sched_setscheduler sched_setparam sched_setattr setpriority ioprio_set
""".split()
_NAMESPACE_FLAGS = (0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x08000000, 0x04000000, 0x02000000)
_DENIED_FAMILIES = tuple(family for family in range(64) if family not in (1, 2, 10))  # all but UNIX, IPv4 and IPv6
_SOCKET_TYPE, _UNCONNECTED = 0xF, (2, 3)  # datagram; raw, which UNIX sockets take for datagram
_RLIMIT_CORE = 4
_SENDS = {
    "kill": 1, "tkill": 1, "tgkill": 2, "rt_sigqueueinfo": 1, "rt_tgsigqueueinfo": 2, "pidfd_send_signal": 1,
}  # fmt: skip
"""Calls that send a signal -> which argument it is."""
_SIGCONT, _EXIT_SIGNAL, _F_SETSIG, _PR_SET_PDEATHSIG = 18, 0xFF, 10, 1
"""What could continue a process that PID 1 stopped: see also timer_create."""
_SOL_SOCKET, _BUFFER_OPTIONS = 1, (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF, and the same with FORCE
_METADATA = """
chmod fchmod fchmodat chown fchown lchown fchownat utime utimes futimesat setxattr lsetxattr fsetxattr removexattr lremovexattr
fremovexattr
""".split()
"""Calls that Landlock does not rule on."""
_LATER = tuple(range(450, 512))
"""System calls newer than Linux 5.19: nothing here needs them, and a filter that denies by name would let them all pass."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C


@cache
def program(ptrace: bool = False, namespaces: bool = True, buffers: bool = True, metadata: bool = True) -> bytes:
    """BPF bytes (8 an instruction). Raises SandboxError when libseccomp is missing: never a silent skip.

    ``ptrace`` lets processes of a request trace each other. Without ``namespaces`` no sockets can be made but connected pairs: the host's
    network is right there. Without ``metadata`` no file's mode, owner or times can be changed: the host's files are there, and of the same
    uid. Without ``buffers`` sockets keep the size they are born with: for where nobody counts what they hold.
    """
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError) as error:
        raise SandboxError(f"libseccomp is missing ({error}); install it: apt install libseccomp2") from error
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    deny = pyseccomp.ERRNO(EPERM)
    for name in _DENIED + ([] if ptrace else _TRACING):
        _add(rules, deny, name)
    # A timer could continue a stopped process, or a thousand of them interrupt the core while another process is timed there.
    for number in ("timer_create", "timerfd_create", "timerfd_settime", *_LATER):  # programs do without
        rules.add_rule(pyseccomp.ERRNO(ENOSYS), number)
    _deny_by_argument(rules, pyseccomp)
    if namespaces:
        for family in _DENIED_FAMILIES:
            rules.add_rule(pyseccomp.ERRNO(EAFNOSUPPORT), "socket", _is(pyseccomp, 0, family))
    else:
        _deny_the_hosts_network(rules, pyseccomp)
    for name in () if metadata else _METADATA:
        _add(rules, deny, name)
    if not metadata:
        rules.add_rule(deny, "utimensat", pyseccomp.Arg(2, pyseccomp.NE, 0))  # with no times given it is what touch does
    for option in () if buffers else _BUFFER_OPTIONS:
        rules.add_rule(deny, "setsockopt", _is(pyseccomp, 1, _SOL_SOCKET), _is(pyseccomp, 2, option))
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def _is(seccomp: Any, argument: int, value: int, bits: int = 0xFFFFFFFF) -> Any:
    """A condition on an int argument: the kernel looks at its low 32 bits, so the filter must."""
    return seccomp.Arg(argument, seccomp.MASKED_EQ, bits, value)


def _deny_by_argument(rules: Any, seccomp: Any) -> None:
    """Calls of which only some forms are harmful."""
    deny = seccomp.ERRNO(EPERM)
    for flag in _NAMESPACE_FLAGS:
        rules.add_rule(deny, "clone", _is(seccomp, 0, flag, flag))
    rules.add_rule(seccomp.ERRNO(ENOSYS), "clone3")  # glibc falls back to clone, whose flags a filter can see
    rules.add_rule(deny, "prlimit64", seccomp.Arg(0, seccomp.NE, 0))  # limits of oneself only
    rules.add_rule(deny, "prlimit64", _is(seccomp, 1, _RLIMIT_CORE), seccomp.Arg(2, seccomp.NE, 0))
    rules.add_rule(deny, "setrlimit", _is(seccomp, 0, _RLIMIT_CORE))
    for request in (_TIOCSTI, _TIOCLINUX):
        rules.add_rule(deny, "ioctl", _is(seccomp, 1, request))
    for name, argument in _SENDS.items():
        rules.add_rule(deny, name, _is(seccomp, argument, _SIGCONT))
    rules.add_rule(deny, "clone", _is(seccomp, 0, _SIGCONT, _EXIT_SIGNAL))
    rules.add_rule(deny, "fcntl", _is(seccomp, 1, _F_SETSIG))
    rules.add_rule(deny, "prctl", _is(seccomp, 0, _PR_SET_PDEATHSIG), _is(seccomp, 1, _SIGCONT))


def _deny_the_hosts_network(rules: Any, seccomp: Any) -> None:
    """For where there is no network namespace."""
    deny = seccomp.ERRNO(EPERM)
    _add(rules, deny, "socket")
    for kind in _UNCONNECTED:  # an end of such a pair can still send to any address
        rules.add_rule(deny, "socketpair", _is(seccomp, 1, kind, _SOCKET_TYPE))


def _add(rules: Any, action: Any, name: str) -> None:
    """Add a rule; a call that this libseccomp does not know by name cannot be filtered, which must be loud."""
    try:
        rules.add_rule(action, name)
    except (ValueError, RuntimeError, OSError) as error:
        raise SandboxError(f"seccomp filter: cannot deny '{name}' ({error}); a newer libseccomp2 is needed") from error
