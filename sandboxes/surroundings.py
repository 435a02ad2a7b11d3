"""What a request finds around it, made by PID 1 or by its child before that gives up its rights: scratch space, /proc, loopback."""

import fcntl
import os
import socket
import struct

from sandboxes.confine import Limits, check, libc

SCRATCH = "/scratch"
PLACES = {"ws": "/ws", "tmp": "/tmp", "shm": "/dev/shm"}
"""Folders of a request's scratch space -> where a cage shows them."""
_READ_ONLY, _NOSUID_NODEV, _NOSUID_NODEV_NOEXEC, _REMOUNT, _BIND, _DETACH = 1, 2 | 4, 2 | 4 | 8, 32, 4096, 2
# No port stays taken after its use, no connection holds megabytes.
_NETWORK = {"tcp_max_tw_buckets": "0", "tcp_wmem": "4096 16384 212992", "tcp_rmem": "4096 87380 212992"}
_SIOCSIFFLAGS, _UP_RUNNING = 0x8914, 0x1 | 0x40


def mount_scratch(limits: Limits) -> None:
    """One empty tmpfs, bounded in bytes and inodes, behind every writable place; it stays mounted at SCRATCH."""
    options = f"size={limits.disk},nr_inodes={limits.inodes},mode=0755".encode()
    check(libc.mount(b"tmpfs", SCRATCH.encode(), b"tmpfs", _NOSUID_NODEV, options), "mount the scratch space")
    for name, place in PLACES.items():
        folder = f"{SCRATCH}/{name}"
        os.mkdir(folder)
        os.chmod(folder, 0o1777)  # mkdir's mode is cut by the umask
        check(libc.mount(folder.encode(), place.encode(), None, _BIND, None), f"mount {place}")


def mount_proc() -> None:
    """A /proc of the caller's own pid and network namespace, read-only once the network is set up."""
    check(libc.mount(b"proc", b"/proc", b"proc", _NOSUID_NODEV_NOEXEC, None), "mount /proc")
    for name, value in _NETWORK.items():
        with open(f"/proc/sys/net/ipv4/{name}", "w") as file:
            file.write(value)
    check(libc.mount(None, b"/proc", None, _NOSUID_NODEV_NOEXEC | _READ_ONLY | _REMOUNT | _BIND, None), "remount /proc")


def raise_loopback() -> None:
    """A new network namespace has its loopback down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        fcntl.ioctl(made, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP_RUNNING))


def unmount(place: str) -> None:
    """Take a mount away; what still has it open keeps it alive."""
    check(libc.umount2(place.encode(), _DETACH), f"unmount {place}")
