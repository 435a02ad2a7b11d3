"""Instruments as data: ``feedback/<name>/instrument.toml``. The program itself is never imported by the host."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from infra_agent import share
from infra_agent.errors import UsageError
from infra_agent.frozen import Frozen, one_line
from infra_agent.session.observation import Trust
from infra_agent.task.spec import PlatformName


class Argument(Frozen):
    """One argument that the model may give."""

    type: Literal["string", "integer", "number", "boolean"]
    about: str
    default: str | int | float | bool
    choices: tuple[str, ...] = ()


class Instrument(Frozen):
    """What an instrument is, for a reader and for a model."""

    name: str
    about: str
    """One paragraph for the model: what it says, when to use it, what it does not hold."""
    evidence: Literal["tensors", "timing", "static", "report", "events", "counts", "figures", "tests"]
    trust: Trust
    profiles: dict[PlatformName, str]
    """Platform -> sandbox profile it runs under; platforms that are missing it has nothing to say about."""
    program: str
    """Module run in the cage, ``python -m`` style: ``feedback.NAME`` for ours, ``NAME`` for one found on INFRA_AGENT_PATH."""
    needs: tuple[str, ...] = ()
    """Python packages that must be installed on the host."""
    cost: Literal["milliseconds", "seconds", "minutes"]
    arguments: dict[str, Argument] = Field(default_factory=dict)
    artefacts: tuple[Annotated[str, Field(pattern=r"^\w[\w.-]*$")], ...] = ()
    """Names of files that the program leaves in the request's temporary folder, and that are kept beside its report."""

    def profile(self, platform: PlatformName) -> str:
        """The profile on a platform; raises UsageError where it has none."""
        if platform not in self.profiles:
            raise UsageError(f"instrument {self.name} does not work on platform {platform}; it does on {', '.join(self.profiles)}")
        return self.profiles[platform]


def names() -> list[str]:
    """Every instrument that can be found."""
    return sorted({path.parent.name for folder in share.search_path("feedback") for path in folder.glob("*/instrument.toml")})


def own_folder(name: str) -> Path | None:
    """The user's ``feedback`` folder that holds an instrument, which the cage must be shown; None for ours, which it always sees."""
    ours = share.root() / "feedback"
    found = next((folder for folder in share.search_path("feedback") if (folder / name / "instrument.toml").is_file()), ours)
    return None if found == ours else found.resolve()


def load(name: str) -> Instrument:
    """Read an instrument; raises UsageError naming the ones there are."""
    for folder in share.search_path("feedback"):
        path = folder / name / "instrument.toml"
        if path.is_file():
            return _read(path)
    raise UsageError(f"unknown instrument '{name}'; there are: {', '.join(names())}")


@cache
def _read(path: Path) -> Instrument:
    try:
        return Instrument.model_validate(tomllib.loads(path.read_text()))
    except (ValueError, OSError) as error:
        raise UsageError(f"{path}: {one_line(error)}") from error
