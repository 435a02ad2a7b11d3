"""An ordinary user, made for one run of the suite and removed after it, with a copy of this program that it may read."""

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from infra_agent import share

_PACKAGES = ("pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection", "pyseccomp", "typer", "rich")
_TOOLS = ("useradd", "userdel", "setpriv")


class OrdinaryUser:
    """Use as a context manager, as root. ``refusal`` says why it cannot be had; else ``argv`` and ``environment`` start Python as it."""

    def __init__(self) -> None:
        self.refusal: str | None = None
        self.name = f"infra-agent-{os.urandom(3).hex()}"
        self._folder = Path(tempfile.mkdtemp(prefix="infra-agent-user-"))
        self._python = _python()
        folders = {"HOME": str(self._folder / "home"), "PYTHONPATH": str(self._folder / "lib")}
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **folders}

    def __enter__(self) -> "OrdinaryUser":
        missing = [tool for tool in _TOOLS if shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is None]
        if missing:
            self.refusal = f"{', '.join(missing)} missing"
        elif self._python is None:
            self.refusal = f"no Python {sys.version_info.major}.{sys.version_info.minor} that other users may run"
        else:
            self._make()
        return self

    def __exit__(self, *_: object) -> None:
        if self.refusal is None:
            subprocess.run([_tool("userdel"), self.name], check=True, capture_output=True)
        shutil.rmtree(self._folder)

    def _make(self) -> None:
        library = self._folder / "lib"
        for name in _PACKAGES:
            _copy(name, library)
        for name in ("infra_agent", "sandboxes", "feedback"):
            source = Path(__file__).parents[2] if name == "infra_agent" else share.root() / name
            shutil.copytree(source, library / name, ignore=shutil.ignore_patterns("__pycache__", "share"))
        (self._folder / "home").mkdir()
        subprocess.run([_tool("useradd"), "--no-create-home", "--home-dir", str(self._folder / "home"), self.name], check=True)
        shutil.chown(self._folder / "home", self.name, self.name)
        subprocess.run(["chmod", "-R", "a+rX", str(self._folder)], check=True)

    def argv(self, *arguments: str) -> list[str]:
        """The command line that runs Python as this user."""
        as_user = [_tool("setpriv"), "--reuid", self.name, "--regid", self.name, "--clear-groups", "--no-new-privs"]
        return [*as_user, str(self._python), *arguments]


def _tool(name: str) -> str:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") or name


def _python() -> str | None:
    """An interpreter of this very version whose every folder other users may enter: compiled packages fit no other."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = [os.path.realpath(sys.executable), *(str(Path(folder, name)) for folder in ("/usr/local/bin", "/usr/bin"))]
    return next((path for path in found if Path(path).is_file() and _others_may_run(Path(path).resolve())), None)


def _others_may_run(path: Path) -> bool:
    return all(place.stat().st_mode & 0o001 for place in (path, *path.parents))


def _copy(name: str, library: Path) -> None:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return  # not needed here: the import that misses it says so
    origin = Path(spec.origin)
    library.mkdir(exist_ok=True)
    if origin.name == "__init__.py":
        shutil.copytree(origin.parent, library / name, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(origin, library)
