"""The bubblewrap command line of a cage: an allow-list of mounts, no network, a cleared environment."""

import os
import shutil
import sys
from pathlib import Path

from infra_agent import share
from infra_agent.errors import SandboxError
from infra_agent.sandbox.profile import Profile

_SYSTEM_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime")
_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_KILL")
APP = "/app"


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
    base, own = Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve()
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
    return argv


def _python_mounts() -> list[str]:
    """The interpreter and its packages."""
    argv: list[str] = []
    made: set[Path] = set()
    for folder, place in _python_folders().items():
        argv += [*_parents(Path(place), made), "--ro-bind", str(folder), place]
    return argv


def _covers(hidden: tuple[Path, ...]) -> list[str]:
    """An empty tmpfs over every hidden folder that lies under something the cage shows: a judge is not for candidates' eyes.

    It matters where a checkout lies under /usr, or a virtual environment was made in the checkout itself.
    """
    shown = {Path("/usr"): "/usr", **_python_folders()}
    places = [f"{place}/{path.relative_to(folder)}" for path in hidden for folder, place in shown.items() if path.is_relative_to(folder)]
    return [argument for place in dict.fromkeys(places) for argument in ("--tmpfs", place)]


def _own_mounts(extra: dict[str, Path]) -> list[str]:
    argv = ["--perms", "0755", "--dir", APP]
    for name in ("sandboxes", "feedback"):
        argv += ["--ro-bind", str(share.root() / name), f"{APP}/{name}"]
    for target, source in extra.items():
        argv += ["--ro-bind", str(source), target]
    return argv


def _scratch_mounts(size_mb: int) -> list[str]:
    size = str(size_mb << 20)
    argv = ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    for place in ("/tmp", "/ws"):
        argv += ["--perms", "1777", "--size", size, "--tmpfs", place]
    return [*argv, "--remount-ro", "/"]


def command(
    profile: Profile,
    extra: dict[str, Path],
    hidden: tuple[Path, ...],
    user_namespace: int | None,
    worker_fds: tuple[int, int, int],
    info_fd: int,
) -> list[str]:
    """The argv that starts a cage of ``profile``.

    ``extra`` maps places in the cage to host folders, read-only; ``hidden`` are existing host folders that must not show.
    ``user_namespace`` is a descriptor from :mod:`userns` on a root host, else None. ``worker_fds`` are the descriptors
    the worker inherits: the judge's socket, the input mapping, the output mapping. Bubblewrap writes PID 1's pid to
    ``info_fd``.
    """
    # Without --die-with-parent, which fires when the *thread* that started the cage ends: PID 1 ends by itself when the
    # judge's socket closes.
    argv = [executable(), "--unshare-pid", "--as-pid-1", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    argv += ["--unshare-cgroup-try", "--new-session", "--hostname", "cage", "--info-fd", str(info_fd), "--clearenv", "--cap-drop", "ALL"]
    capabilities = list(_CAPABILITIES)
    environment = {"PATH": f"{Path(_python()).parent}:/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
    if user_namespace is None:
        # uid 0 of its own namespace: for any other, bubblewrap makes a second user namespace to map back, and the worker
        # would have no say over the pid namespace that the first one owns
        argv += ["--unshare-user", "--uid", "0", "--gid", "0"]
    else:
        from infra_agent.sandbox.userns import CAGE_UID

        argv += ["--userns", str(user_namespace)]
        capabilities += ["CAP_SETUID", "CAP_SETGID"]
        environment["CAGE_SETUID"] = str(CAGE_UID)
    for capability in capabilities:
        argv += ["--cap-add", capability]
    argv += [*_system_mounts(), *_python_mounts(), *_covers(hidden), *_own_mounts(extra), *_scratch_mounts(profile.limits.tmpfs_mb)]
    environment |= {
        "CAGE_FDS": ",".join(map(str, worker_fds)),
        "PYTHONPATH": APP,
        "PYTHONDONTWRITEBYTECODE": "1",
        "CAGE_PRELOAD": ",".join(profile.preload),
    }
    for key, value in (environment | profile.environment).items():
        argv += ["--setenv", key, value]
    return [*argv, "--chdir", "/", "--", _python(), "-P", "-s", "-B", "-m", "sandboxes.worker"]
