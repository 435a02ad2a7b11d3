"""Sandboxes without namespaces: PID 1 is an ordinary process of the host, and each request gives up rights by itself.

``landlock`` is for people who are inside a container already that refuses user namespaces. ``open`` gives up nothing.
"""

import os
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from infra_agent import share
from infra_agent.errors import SandboxError
from infra_agent.sandbox import landlock, processes, seccomp, userns
from infra_agent.sandbox.backend import Launch, Plain, Started, environment, python_prefixes, worker_argv
from infra_agent.sandbox.profile import Profile
from infra_agent.session.observation import Isolation

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime")
_KERNEL = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu")
PLACES = ("ws", "tmp", "shm")
_PREFIX = "infra-agent-cage-"


@dataclass
class _Loose(Plain):
    """PID 1 as an ordinary process. What it started is found by parentage."""

    killed: set[int] = field(default_factory=set)

    def kill(self) -> None:
        """Kill the whole tree, as long as its root is known to be ours."""
        if self.process.poll() is None:
            self.killed |= processes.kill_tree(self.process.pid)

    def wait(self, timeout_s: float) -> None:
        """Return when PID 1 and all that was killed with it are gone."""
        deadline = time.monotonic() + timeout_s
        super().wait(timeout_s)
        while processes.alive(self.killed):
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self.process.args, timeout_s)
            time.sleep(0.001)

    def refresh(self) -> None:
        """Empty the scratch folder: the last request may have left anything, the folders themselves replaced included."""
        if self.scratch is None:
            return
        try:
            empty(self.scratch)
            make_places(self.scratch)
        except OSError as error:
            raise SandboxError(f"the scratch folder cannot be emptied ({error}); an open sandbox lets code do that to it") from error

    def release(self) -> None:
        """Remove the scratch folder."""
        if self.scratch:
            _remove(self.scratch)


class _Direct:
    """What both have in common: a folder of the host for scratch, the worker started as a child of this process."""

    def _launch(self, launch: Launch, variables: dict[str, str]) -> Started:
        _sweep_up()
        scratch = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        try:
            make_places(scratch)
            if "CAGE_UIDS" in variables:
                os.chown(scratch, int(variables["CAGE_UIDS"]), -1)
            own = {"CAGE_SCRATCH": str(scratch), "CAGE_WORKSPACE": str(scratch / "ws")}
            base = environment(launch.profile, str(scratch / "tmp"), str(_python().parent), str(share.root()), launch.judge_fd)
            process = subprocess.Popen(
                worker_argv(str(_python())),
                stdin=subprocess.DEVNULL, stdout=launch.text_fd, stderr=launch.text_fd, env=base | own | variables,
                pass_fds=(launch.judge_fd,), start_new_session=True, cwd="/",
            )  # fmt: skip
        except BaseException:
            _remove(scratch)
            raise
        return _Loose(process, process.pid, scratch)

    def advice(self, text: str) -> str:
        """What it prints says it all."""
        return ""

    def process_limit(self, wanted: int, mounts: dict[str, Path]) -> int:
        """On top of what this user runs already, unless requests are another uid."""
        return wanted if self.own_uid(mounts) else wanted + processes.threads_of(os.getuid())

    def own_uid(self, mounts: dict[str, Path]) -> bool:
        """Are requests a uid of their own?"""
        return False

    def place(self, target: str, mounts: dict[str, Path]) -> str:
        """There are no mounts: the host's own path."""
        return str(mounts[target])


class Landlock(_Direct):
    """Files, TCP, signals and abstract sockets by Landlock; everything else by seccomp, rlimits and another uid where there is one."""

    name = "landlock"
    isolation: Isolation = "partial"

    @property
    def not_claimed(self) -> dict[str, str]:
        """What a path rule cannot hold."""
        reasons = {
            "key-metadata": "Landlock does not hide that a file is there, nor its size and times",
            "deleted-files": "what was deleted and is still open is not found by name",
            "oom-score": "without a /proc of its own a process may make itself a later victim",
        }
        bounding = {"nothing-kept": "the bounding set cannot be emptied without a right; no_new_privs stands in for it"}
        return reasons if os.geteuid() == 0 else reasons | bounding

    @property
    def not_held(self) -> tuple[str, ...]:
        """What Landlock cannot do, and what this kernel's cannot."""
        always = (
            "no namespaces: host name, process numbers and the host's clock are shared",
            "disk is watched, not held",
            "a request that forks and ends without pause can slip a stop or a count; the CPU time it takes is seen",
            "multiprocessing's semaphores and shared memory are refused",
        )
        same_uid = (
            "same uid as this program",
            "times of this user's files can be set to now",
            "chmod, chown, utime and extended attributes are refused, and with them some tools",
        )
        return (*always, *landlock.missing(), *(() if self.own_uid({}) else same_uid))

    def own_uid(self, mounts: dict[str, Path]) -> bool:
        """Only root can change it, and the other uid must be able to reach Python, this project and what is mounted."""
        needed = [*python_prefixes(), share.root(), *(path.resolve() for path in mounts.values())]
        return os.geteuid() == 0 and all(folder.stat().st_mode & stat.S_IXOTH for path in needed for folder in (path, *path.parents))

    def refusal(self) -> str | None:
        """No Landlock, no cage of this kind."""
        if not landlock.abi():
            return "landlock: this kernel has none (Linux 5.13 or newer, with landlock among the security modules of the boot line)"
        try:
            seccomp.program()
        except SandboxError as error:
            return str(error)
        return None

    def filter(self, profile: Profile, mounts: dict[str, Path], counted: bool) -> bytes:
        """Nothing but connected pairs of sockets: the host's network is right there."""
        return seccomp.program(profile.ptrace, namespaces=False, buffers=counted, metadata=self.own_uid(mounts))

    def launch(self, launch: Launch) -> Started:
        """Start the worker with the list of what its requests may read."""
        readable = [*_readable(), *map(str, (launch.profile.mounts | launch.mounts).values()), *launch.profile.devices]
        for path in launch.hidden:
            covering = next((shown for shown in readable if path.is_relative_to(os.path.realpath(shown))), None)
            if covering:
                raise SandboxError(f"landlock shows {covering} whole and cannot hide {path} in it; use bubblewrap, or move one of them")
        variables = {"CAGE_CONFINE": "landlock", "CAGE_READABLE": ":".join(readable)}
        if self.own_uid(launch.mounts):
            variables["CAGE_UIDS"] = str(userns.host_uid())
        return self._launch(launch, variables)


class Open(_Direct):
    """No isolation at all: for a machine that is thrown away afterwards, or code that is trusted. It must be asked for by name."""

    name = "open"
    isolation: Isolation = "none"
    not_held = ("nothing is held: the code runs with this user's rights",)
    not_claimed: dict[str, str] = {}  # noqa: RUF012 - nobody writes it

    def refusal(self) -> str | None:
        """It always works."""
        return None

    def filter(self, profile: Profile, mounts: dict[str, Path], counted: bool) -> bytes:
        """None."""
        return b""

    def launch(self, launch: Launch) -> Started:
        """Start the worker."""
        return self._launch(launch, {"CAGE_CONFINE": "none"})


def _python() -> Path:
    return Path(sys.executable)  # as it was called: resolved, a virtual environment would be lost


def _readable() -> list[str]:
    folders = [*_SYSTEM, *(f"/etc/{name}" for name in _ETC), *_KERNEL, *map(str, python_prefixes())]
    return [*folders, *(str(share.root() / name) for name in ("sandboxes", "feedback"))]


def _remove(folder: Path) -> None:
    """Remove a scratch folder; another program may be doing the same, and an open sandbox may have done it."""
    try:
        empty(folder)
        folder.rmdir()
    except FileNotFoundError:
        return  # it is gone


def _sweep_up() -> None:
    """Remove scratch folders whose host was killed before it could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}[0-9]*-*"):
        try:
            about = folder.lstat()
        except FileNotFoundError:
            continue
        gone = not Path(f"/proc/{folder.name.removeprefix(_PREFIX).split('-')[0]}").exists()
        if gone and stat.S_ISDIR(about.st_mode) and (about.st_uid == os.geteuid() or os.geteuid() == 0):
            _remove(folder)


def make_places(scratch: Path) -> None:
    """The writable folders of a request, empty."""
    for name in PLACES:
        (scratch / name).mkdir()
        (scratch / name).chmod(0o1777)


def empty(scratch: Path) -> None:
    """Remove everything below, without recursion and without following a link: a tree may be thousands of folders deep.

    Each folder found is moved up to the top before it is emptied, so that no path is ever longer than two parts.
    """
    root = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        moved = 0
        while names := os.listdir(root):
            for name in names:
                moved = _flatten(root, name, moved)
    finally:
        os.close(root)


def _flatten(root: int, name: str, moved: int) -> int:
    if not stat.S_ISDIR(os.stat(name, dir_fd=root, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=root)
        return moved
    os.chmod(name, 0o700, dir_fd=root)
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=root)
    try:
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                moved += 1
                os.chmod(entry.name, 0o700, dir_fd=folder)
                os.rename(entry.name, f".removing-{moved}", src_dir_fd=folder, dst_dir_fd=root)
            else:
                os.unlink(entry.name, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=root)
    return moved
