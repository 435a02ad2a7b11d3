"""Cages behind bubblewrap: an allow-list of mounts, no network, a cleared environment, namespaces of their own."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from infra_agent import share
from infra_agent.errors import SandboxError
from infra_agent.sandbox import seccomp, userns
from infra_agent.sandbox.backend import Launch, Plain, Started, environment, python_prefixes, worker_argv
from infra_agent.sandbox.profile import Profile
from infra_agent.session.observation import Isolation

_SYSTEM_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime")
_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_KILL", "CAP_NET_ADMIN")
APP = "/app"
_OWN_TMP = 64 << 20


def executable() -> str:
    """Path of bwrap; raises SandboxError with the line that installs it."""
    path = shutil.which("bwrap")
    if path is None:
        raise SandboxError("bubblewrap is missing; install it: apt install bubblewrap")
    return path


def _python_folders() -> dict[Path, str]:
    """Folders outside /usr that this interpreter needs -> where the cage has them.

    A virtual environment is always at /venv: it may lie under /tmp on the host, where the cage has a tmpfs.
    """
    base, own = python_prefixes()
    folders = {} if base.is_relative_to("/usr") else {base: str(base)}
    return folders if own == base else folders | {own: "/venv"}


def _python() -> str:
    """Path of the interpreter inside the cage."""
    folder = _python_folders().get(Path(sys.prefix).resolve())
    return f"{folder}/bin/python" if folder else os.path.realpath(sys.executable)


def _parents(path: Path, made: set[Path]) -> list[str]:
    """--dir arguments for the parents of ``path``; bwrap by itself would make them 0700."""
    argv: list[str] = []
    for parent in reversed(path.parents):
        if parent != Path("/") and parent not in made:
            made.add(parent)
            argv += ["--perms", "0755", "--dir", str(parent)]
    return argv


def _system_mounts() -> list[str]:
    argv = ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM_LINKS:
        path = Path("/") / name
        if path.is_symlink():
            argv += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            argv += ["--ro-bind", str(path), str(path)]
    argv += ["--perms", "0755", "--dir", "/etc"]
    for name in _ETC:
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return [*argv, "--ro-bind", str(share.root() / "sandboxes" / "hosts"), "/etc/hosts"]


def _python_mounts() -> list[str]:
    """The interpreter and its packages."""
    argv: list[str] = []
    made: set[Path] = set()
    for folder, place in _python_folders().items():
        argv += [*_parents(Path(place), made), "--ro-bind", str(folder), place]
    return argv


def _covers(hidden: tuple[Path, ...], mounts: dict[str, Path]) -> list[str]:
    """An empty tmpfs over every hidden folder that lies under something the cage shows: a judge is not for candidates' eyes.

    It matters where a checkout lies under /usr, a virtual environment was made in the checkout itself, or a mount is too wide.
    What was asked for by name, as the judge's own folder in a reference cage, is shown.
    """
    own = {f"{APP}/{name}": share.root() / name for name in ("sandboxes", "feedback")}
    shown = {"/usr": Path("/usr"), **{place: folder for folder, place in _python_folders().items()}, **own, **mounts}
    places = []
    for place, folder in shown.items():
        for path in hidden:
            inside = path.resolve()
            if inside.is_relative_to(folder.resolve()) and (inside != folder.resolve() or place not in mounts):
                places.append(str(Path(place, inside.relative_to(folder.resolve()))))
    return [argument for place in dict.fromkeys(places) for argument in ("--tmpfs", place)]


def _own_mounts(mounts: dict[str, Path]) -> list[str]:
    argv = ["--perms", "0755", "--dir", APP]
    for name in ("sandboxes", "feedback"):
        argv += ["--ro-bind", str(share.root() / name), f"{APP}/{name}"]
    made: set[Path] = set()
    for target, source in mounts.items():
        argv += [*_parents(Path(target), made), "--ro-bind", str(source), target]
    return argv


def _device_mounts(patterns: tuple[str, ...]) -> list[str]:
    """Device files come after --dev, which would cover them; a driver also reads /sys."""
    found = sorted({path for pattern in patterns for path in Path("/").glob(pattern.lstrip("/"))})
    argv = [argument for path in found for argument in ("--dev-bind", str(path), str(path))]
    return [*argv, "--ro-bind", "/sys", "/sys"] if found else argv


def _scratch_mounts(devices: tuple[str, ...]) -> list[str]:
    """PID 1's own /tmp, and the places over which each request mounts its scratch space."""
    argv = ["--proc", "/proc", "--dev", "/dev", *_device_mounts(devices), "--remount-ro", "/dev"]
    # No pseudo-terminals: when one is hung up the kernel continues whoever was stopped on it.
    argv += ["--size", "4096", "--tmpfs", "/dev/pts", "--remount-ro", "/dev/pts"]
    argv += ["--perms", "1777", "--size", str(_OWN_TMP), "--tmpfs", "/tmp"]
    for place in ("/ws", "/scratch"):
        argv += ["--perms", "0755", "--dir", place]
    return [*argv, "--remount-ro", "/"]


def command(launch: Launch, user_namespace: int | None, info_fd: int) -> list[str]:
    """The argv that starts a cage.

    ``user_namespace`` is a descriptor from :mod:`userns` on a root host, else None. Bubblewrap writes PID 1's pid to ``info_fd``.
    """
    # Without --die-with-parent, which fires when the *thread* that started the cage ends: PID 1 ends by itself when the
    # judge's socket closes.
    argv = [executable(), "--unshare-pid", "--as-pid-1", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    argv += ["--unshare-cgroup-try", "--new-session", "--hostname", "cage", "--info-fd", str(info_fd), "--clearenv", "--cap-drop", "ALL"]
    capabilities = list(_CAPABILITIES)
    variables = environment(launch.profile, "/tmp", str(Path(_python()).parent), APP, launch.judge_fd) | {"CAGE_CONFINE": "full"}
    if user_namespace is None:
        # uid 0 of its own namespace: for any other, bubblewrap makes a second user namespace to map back, and the worker
        # would have no say over the pid namespace that the first one owns
        argv += ["--unshare-user", "--uid", "0", "--gid", "0"]
    else:
        argv += ["--userns", str(user_namespace)]
        capabilities += ["CAP_SETUID", "CAP_SETGID"]
        variables["CAGE_UIDS"] = f"{userns.UIDS.start}-{userns.UIDS.stop}"
    for capability in capabilities:
        argv += ["--cap-add", capability]
    mounts = launch.profile.mounts | launch.mounts
    argv += [*_system_mounts(), *_python_mounts(), *_own_mounts(mounts), *_covers(launch.hidden, mounts)]
    argv += _scratch_mounts(launch.profile.devices)
    for key, value in variables.items():
        argv += ["--setenv", key, value]
    return [*argv, "--chdir", "/", "--", *worker_argv(_python())]


@dataclass
class _Behind(Plain):
    """PID 1 behind bubblewrap. When it is gone, so is everything in its pid namespace."""

    pidfd: int = -1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def kill(self) -> None:
        """Kill PID 1 by its descriptor, and bubblewrap unless that has been waited for: its number may be somebody else's by now."""
        with self._lock:
            try:
                if self.pidfd >= 0:
                    signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
                if self.process.poll() is None:
                    os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return  # it ended by itself; nothing is left to kill

    def wait(self, timeout_s: float) -> None:
        """Return when PID 1 is gone, which it is only after all the others are."""
        if self.pidfd >= 0:
            poller = select.poll()
            poller.register(self.pidfd, select.POLLIN)
            poller.poll(1000 * timeout_s)
        super().wait(timeout_s)

    def refresh(self) -> None:
        """Every request gets a new tmpfs."""

    def release(self) -> None:
        """Close the descriptor."""
        with self._lock:
            if self.pidfd >= 0:
                os.close(self.pidfd)
                self.pidfd = -1


class Bubblewrap:
    """Namespaces of its own for everything, an allow-list of mounts: the default."""

    name = "bubblewrap"
    isolation: Isolation = "full"
    not_held = ()
    not_claimed: dict[str, str] = {}  # noqa: RUF012 - nobody writes it

    def refusal(self) -> str | None:
        """Try the namespaces that a cage is made of."""
        try:
            argv = [executable(), "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--ro-bind", "/", "/"]
            argv += ["--proc", "/proc", "--dev", "/dev", "true"]
            done = subprocess.run(argv, capture_output=True, text=True, check=False, env={})
            seccomp.program()
        except SandboxError as error:
            return str(error)
        if done.returncode == 0:
            return None
        text = done.stderr.strip().splitlines()
        return f"bubblewrap: {text[-1] if text else 'no message'}{advice(done.stderr)}"

    def filter(self, profile: Profile, mounts: dict[str, Path], counted: bool) -> bytes:
        """Sockets are harmless in a network namespace of its own."""
        return seccomp.program(profile.ptrace, buffers=counted)

    def advice(self, text: str) -> str:
        """Namespaces are what is refused as a rule."""
        return advice(text)

    def process_limit(self, wanted: int, mounts: dict[str, Path]) -> int:
        """A cage has a user namespace, or uids, of its own."""
        return wanted

    def place(self, target: str, mounts: dict[str, Path]) -> str:
        """Just there."""
        return target

    def launch(self, launch: Launch) -> Started:
        """Start bubblewrap; on a root host inside a user namespace that maps the worker to another uid."""
        executable()
        if os.geteuid() != 0:
            return self._launch(launch, None)
        with userns.mapped_namespace() as namespace:
            return self._launch(launch, namespace)

    @staticmethod
    def _launch(launch: Launch, namespace: int | None) -> Started:
        info_read, info_write = os.pipe()
        with os.fdopen(info_read, "rb") as info:
            try:
                argv = command(launch, namespace, info_write)
                passed = (launch.judge_fd, info_write, *(() if namespace is None else (namespace,)))
                text = launch.text_fd
                process = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=text, stderr=text, env={}, pass_fds=passed, start_new_session=True
                )
            finally:
                os.close(info_write)
            said = info.read()  # until bubblewrap has closed it, which it does before it runs anything of ours
        try:
            pid = int(json.loads(said)["child-pid"])
            return _Behind(process, pid, pidfd=os.pidfd_open(pid))
        except (ValueError, KeyError, ProcessLookupError):
            return _Behind(process, -1)  # it did not get that far; what it printed says why


def advice(text: str) -> str:
    """The line that usually helps when bubblewrap cannot make its namespaces."""
    if "setting up uid map" in text or "Operation not permitted" in text or "No permissions to create" in text:
        return (
            "; user namespaces are refused: run 'sysctl -w kernel.apparmor_restrict_unprivileged_userns=0' as root "
            "(Ubuntu 24.04) or 'sysctl -w kernel.unprivileged_userns_clone=1' (older Debian)"
        )
    return ""
