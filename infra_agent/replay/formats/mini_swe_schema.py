"""The fields of mini-swe-agent's trajectories that have a meaning here, with their types. Other keys may be there.

They are those that its versions 1 and 2 write (github.com/SWE-agent/mini-swe-agent: docs/usage/output_files.md; of version 1,
run/utils/save.py and agents/default.py). Chat completions and the responses interface, whose answers stand in them, differ.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Format = Literal["mini-swe-agent-1", "mini-swe-agent-1.1"]
MOST_MESSAGES = 10_000
_LAST_TIME = 253_402_300_799  # the end of the year 9999, past which no date can be written


class Loose(BaseModel):
    """Of another program: more keys than these may be there."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class Details(Loose):
    """Of the tokens that were read."""

    cached_tokens: int | None = Field(default=None, ge=0)


class Tokens(Loose):
    """What a reply cost; chat completions name it one way, responses the other."""

    prompt_tokens: int | None = Field(default=None, ge=0)
    completion_tokens: int | None = Field(default=None, ge=0)
    prompt_tokens_details: Details | None = None
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    input_tokens_details: Details | None = None


class Function(Loose):
    """What is called, and with what."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class Called(Loose):
    """A tool call of chat completions."""

    id: str | None = None
    function: Function = Function()


class Item(Loose):
    """A piece of an answer of the responses interface: text, a call, reasoning."""

    type: str | None = None
    content: str | list[dict[str, Any]] | None = None
    summary: list[dict[str, Any]] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None


class Spoken(Loose):
    """What a message says, in either interface."""

    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[Called] | None = None
    reasoning_content: str | None = None
    output: str | list[Item] | None = None
    usage: Tokens | None = None


class Choice(Loose):
    """An answer of chat completions."""

    message: Spoken = Spoken()


class Response(Loose):
    """The provider's own answer, in whatever form: its usage counts and, where nothing else was kept of a reply, the reply in it."""

    choices: list[Choice] | None = None
    output: list[Item] | Any = Field(default=None, union_mode="left_to_right")
    usage: Tokens | None = None


class Action(Loose):
    """A command that was carried out."""

    command: str


class Extra(Loose):
    """What the program adds to a message."""

    actions: list[Action] | None = None
    response: Response | str | None = None
    cost: float | None = Field(default=None, ge=0)
    """US dollars; 0 where no price was known."""
    timestamp: float | None = Field(default=None, ge=0, le=_LAST_TIME)
    """Seconds since 1970."""
    returncode: int | None = None
    exception_info: str | None = None
    interrupt_type: str | None = None
    exit_status: str | None = None


class Message(Spoken):
    """A message of the conversation; format 1 has its time beside its text."""

    role: str | None = None
    type: str | None = None
    object: str | None = None
    tool_call_id: str | None = None
    call_id: str | None = None
    timestamp: float | None = Field(default=None, ge=0, le=_LAST_TIME)
    extra: Extra | None = None

    @property
    def more(self) -> Extra:
        """What the program added, if anything."""
        return self.extra or Extra()

    @property
    def time(self) -> float | None:
        """When it was said."""
        return self.timestamp if self.more.timestamp is None else self.more.timestamp


class Stats(Loose):
    """The program's own count."""

    instance_cost: float | None = Field(default=None, ge=0)
    api_calls: int | None = Field(default=None, ge=0)


class Model(Loose):
    """Which model it was."""

    model_name: str | None = None


class Config(Loose):
    """How the program was set up."""

    model: Model | None = None


class Info(Loose):
    """About the run."""

    model_stats: Stats | None = None
    config: Config | None = None
    mini_version: str | None = None
    exit_status: str | None = None


class Document(Loose):
    """A trajectory."""

    info: Info = Info()
    messages: list[Message] = Field(min_length=1, max_length=MOST_MESSAGES)
    trajectory_format: Format
