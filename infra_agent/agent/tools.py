"""The model's tools: one pydantic model each, which validates the arguments and makes the schema."""

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from infra_agent import instruments
from infra_agent.frozen import Frozen
from infra_agent.instruments import Instrument
from infra_agent.models.base import ToolSchema


class View(Frozen):
    """Show a file of the workspace with line numbers, or list the files when no path is given."""

    path: str = Field(default="", description="file, relative to the workspace; empty lists all files")
    start: int = Field(default=1, ge=1, description="first line")
    lines: int = Field(default=400, ge=1, le=2000, description="how many lines")


class Search(Frozen):
    """Find a regular expression in the workspace: path:line of each hit."""

    pattern: str = Field(description="Python regular expression")
    glob: str = Field(default="*", description="only paths that match this glob")


class Edit(Frozen):
    """Replace one piece of text in a file; `old` must occur exactly once. An empty `old` creates the file."""

    path: str
    old: str = Field(description="text to replace, exactly as it stands, without line numbers")
    new: str = Field(description="text to put there")


class Shell(Frozen):
    """Run a shell command on a copy of the workspace in the cage: no network, and its changes are thrown away."""

    command: str
    timeout_s: float = Field(default=60.0, gt=0, le=600)


class Hypothesis(Frozen):
    """State a hypothesis before you edit for it, and settle it after you checked. One at a time.

    state: give claim, prediction (a number that will change, and to what) and check (the instrument that will tell).
    settle: give id, outcome, and the observation ([a-N]) that settles it.
    """

    do: Literal["state", "settle"]
    claim: str = ""
    prediction: str = ""
    check: str = ""
    id: str = Field(default="", description="h-N, when settling")
    outcome: Literal["", "confirmed", "refuted"] = ""
    observation: str = Field(default="", description="a-N, the observation that settles it")
    note: str = ""


class Recall(Frozen):
    """Search earlier observations of this session and what was learned in earlier ones, or show one of them whole."""

    query: str = Field(description="words to look for; or a-N alone, an observation to show whole")


class Propose(Frozen):
    """Put the workspace as it is before the gate: every check again, on fresh and held-out inputs."""

    title: str = Field(max_length=72, pattern=r"^[^\r\n]+$", description="imperative, as a commit's first line")
    summary: str = Field(description="what was wrong, what changed, which observation shows it")
    risk: Literal["", "low", "medium", "high", "critical"] = Field(
        default="", description="your estimate of the risk of merging it; it can only raise what the change itself tells"
    )


TOOLS: dict[str, type[Frozen]] = {
    "view": View, "search": Search, "edit": Edit, "shell": Shell, "hypothesis": Hypothesis, "recall": Recall, "propose": Propose,
}  # fmt: skip
_TYPES: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}


def _instrument_arguments(instrument: Instrument) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for name, argument in instrument.arguments.items():
        kind = Literal[argument.choices] if argument.choices else _TYPES[argument.type]
        fields[name] = (kind, Field(default=argument.default, description=argument.about))
    return create_model(instrument.name, __config__=ConfigDict(extra="forbid"), **fields)


def argument_models(allowed: tuple[str, ...]) -> dict[str, type[BaseModel]]:
    """Tool name -> model of its arguments, for the fixed tools and the instruments a task allows."""
    return {**TOOLS, **{name: _instrument_arguments(instruments.load(name)) for name in allowed}}


def schemas(allowed: tuple[str, ...]) -> list[ToolSchema]:
    """Schemas in a fixed order: a changed order would change every request's digest."""
    listed = []
    for name, model in argument_models(allowed).items():
        about = model.__doc__ if name in TOOLS else instruments.load(name).about
        schema = model.model_json_schema()
        schema.pop("title", None)
        schema.pop("description", None)
        listed.append(ToolSchema(name, " ".join((about or "").split()), schema))
    return listed


def parse(tool: str, text: str, allowed: tuple[str, ...]) -> tuple[dict[str, Any], str | None]:
    """Validated arguments, or what is wrong with them and what would be right."""
    models = argument_models(allowed)
    if tool not in models:
        return {}, f"there is no tool '{tool}'; there are: {', '.join(models)}"
    try:
        given = json.loads(text or "{}")
        if not isinstance(given, dict):
            return {}, "arguments must be a JSON object"
        return models[tool].model_validate(given).model_dump(), None
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors())
        return {}, f"{wrong}; expected: {_fields(models[tool])}"
    except (ValueError, RecursionError) as error:  # no JSON, a number of thousands of digits, brackets without end
        return {}, f"arguments are not JSON ({error}); expected an object with: {_fields(models[tool])}"


def _fields(model: type[BaseModel]) -> str:
    parts = [f"{name}{'' if field.is_required() else '?'}" for name, field in model.model_fields.items()]
    return ", ".join(parts) or "no arguments"
