"""The seccomp filter of a request's child, compiled on the host to BPF bytes.

The filter denies; what it allows is what numerical code needs. It is loaded after the request's own mounts
are made, so it may deny mount and unshare.
"""

import tempfile
from functools import cache

from infra_agent.errors import SandboxError

EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97

_TRACING = "ptrace process_vm_readv process_vm_writev kcmp".split()
_DENIED = """
pidfd_getfd
mount umount2 pivot_root chroot unshare setns fsopen fsconfig fsmount move_mount open_tree mount_setattr
bpf perf_event_open userfaultfd keyctl add_key request_key io_uring_setup io_uring_enter io_uring_register
open_by_handle_at name_to_handle_at kexec_load kexec_file_load init_module finit_module delete_module
reboot swapon swapoff acct quotactl settimeofday clock_settime adjtimex clock_adjtime personality syslog vhangup
memfd_create memfd_secret shmget shmat shmctl msgget msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open mq_unlink
sched_setaffinity sched_setscheduler sched_setparam sched_setattr setpriority ioprio_set
""".split()
_NAMESPACE_FLAGS = (0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x08000000, 0x04000000, 0x02000000)
_DENIED_FAMILIES = (16, 17, 38, 40)  # netlink, packet, alg, vsock
_SOCKET_TYPE, _DATAGRAM = 0xF, 2
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C


@cache
def program(ptrace: bool = False, sockets: bool = True) -> bytes:
    """BPF bytes (8 an instruction). Raises SandboxError when libseccomp is missing: never a silent skip.

    ``ptrace`` lets processes of a request trace each other. Without ``sockets`` none can be made but connected pairs: for
    where there is no network namespace.
    """
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError) as error:
        raise SandboxError(f"libseccomp is missing ({error}); install it: apt install libseccomp2") from error
    deny = pyseccomp.ERRNO(EPERM)
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in _DENIED + ([] if ptrace else _TRACING):
        _add(rules, deny, name)
    if not sockets:
        _add(rules, deny, "socket")
        # an end of a pair of datagram sockets can still send to any address
        rules.add_rule(deny, "socketpair", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, _SOCKET_TYPE, _DATAGRAM))
    for flag in _NAMESPACE_FLAGS:
        rules.add_rule(deny, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    rules.add_rule(pyseccomp.ERRNO(ENOSYS), "clone3")  # glibc falls back to clone, whose flags a filter can see
    rules.add_rule(deny, "prlimit64", pyseccomp.Arg(0, pyseccomp.NE, 0))  # limits of oneself only
    for request in (_TIOCSTI, _TIOCLINUX):
        rules.add_rule(deny, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
    for family in _DENIED_FAMILIES if sockets else ():
        rules.add_rule(pyseccomp.ERRNO(EAFNOSUPPORT), "socket", pyseccomp.Arg(0, pyseccomp.EQ, family))
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def _add(rules: object, action: object, name: str) -> None:
    """Add a rule; a call that this libseccomp does not know by name cannot be filtered, which must be loud."""
    try:
        rules.add_rule(action, name)  # type: ignore[attr-defined]
    except (ValueError, RuntimeError, OSError) as error:
        raise SandboxError(f"seccomp filter: cannot deny '{name}' ({error}); a newer libseccomp2 is needed") from error
