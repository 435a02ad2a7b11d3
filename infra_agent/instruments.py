"""Instruments as data: ``feedback/<name>/instrument.toml``. The program itself is never imported by the host."""

import tomllib
from functools import cache
from typing import Any, Literal

from pydantic import Field, ValidationError

from infra_agent import share
from infra_agent.errors import UsageError
from infra_agent.frozen import Frozen
from infra_agent.session.observation import Trust


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
    evidence: Literal["tensors", "static", "report", "events", "counts", "figures", "tests"]
    trust: Trust
    profile: str
    """Sandbox profile it runs under."""
    program: str
    """Module run in the cage, ``python -m`` style."""
    needs: tuple[str, ...] = ()
    """Python packages that must be installed on the host."""
    cost: Literal["milliseconds", "seconds", "minutes"]
    arguments: dict[str, Argument] = Field(default_factory=dict)

    def resolve(self, given: dict[str, Any]) -> dict[str, Any]:
        """Arguments with defaults filled in; raises UsageError that says what would be right."""
        for name, value in given.items():
            argument = self.arguments.get(name)
            if argument is None:
                raise UsageError(f"{self.name} has no argument '{name}'; it has: {', '.join(self.arguments) or 'none'}")
            if argument.choices and value not in argument.choices:
                raise UsageError(f"{self.name}: {name}={value!r}; allowed: {', '.join(argument.choices)}")
        return {name: given.get(name, argument.default) for name, argument in self.arguments.items()}


def names() -> list[str]:
    """Every instrument that can be found."""
    return sorted({path.parent.name for folder in share.search_path("feedback") for path in folder.glob("*/instrument.toml")})


@cache
def load(name: str) -> Instrument:
    """Read an instrument; raises UsageError naming the ones there are."""
    for folder in share.search_path("feedback"):
        path = folder / name / "instrument.toml"
        if path.is_file():
            try:
                return Instrument.model_validate(tomllib.loads(path.read_text()))
            except (tomllib.TOMLDecodeError, ValidationError) as error:
                raise UsageError(f"{path}: {error}") from error
    raise UsageError(f"unknown instrument '{name}'; there are: {', '.join(names())}")
