"""From the name on the command line to a model."""

import threading
from functools import partial
from pathlib import Path

from infra_agent.errors import ParkError, UsageError
from infra_agent.models.base import Model
from infra_agent.models.price import Price
from infra_agent.models.retry import Retry

KINDS = "playbook | openai:NAME | litellm:PROVIDER/NAME | manual:DIR"


def model(name: str, base_url: str | None = None, goes_on: bool = False, stop: threading.Event | None = None) -> Model:
    """The model of that name. Raises UsageError for an unknown kind, ModelError where a key or a package is missing.

    ``goes_on``: a session is resumed, so a folder may hold requests of before. ``stop``: no wait outlasts it; ParkError is raised then.
    """
    kind, _, rest = name.partition(":")
    wait = partial(_wait, stop or threading.Event())
    if kind == "playbook" and not rest:
        from infra_agent.models.playbook import Playbook

        return Playbook()
    if kind == "openai" and rest:
        from infra_agent.models.openai import OpenAI

        return OpenAI(rest, base_url, Retry(wait=wait))
    if kind == "litellm" and rest:
        from infra_agent.models.litellm import LiteLLM

        return LiteLLM(rest, base_url, Retry(wait=wait))
    if kind == "manual" and rest:
        from infra_agent.models.manual import Manual

        return Manual(Path(rest), goes_on=goes_on, wait=wait)
    raise UsageError(f"unknown model '{name}'; there are: {KINDS} (--base-url URL for any compatible server)")


def _wait(stop: threading.Event, seconds: float) -> None:
    if stop.wait(seconds):
        raise ParkError("asked to stop while waiting for the model")


def listed_price(model: Model) -> Price | None:
    """What the model's own table says it costs; None where there is no table, or it is not in it."""
    from infra_agent.models.litellm import LiteLLM

    return model.price() if isinstance(model, LiteLLM) else None
