"""Cages of every backend."""

from collections.abc import Iterator

import pytest

from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.choose import BACKENDS
from infra_agent.sandbox.profile import load


@pytest.fixture
def landlocked() -> Iterator[Cage]:
    """A cage at partial isolation. A kernel without Landlock cannot run these tests, and says so."""
    refusal = BACKENDS["landlock"].refusal()
    if refusal:
        pytest.skip(f"NOT RUN: {refusal}")
    cage = Cage(load("reference"), backend=BACKENDS["landlock"])
    yield cage
    cage.close()


@pytest.fixture(params=["bubblewrap", "landlock", "open"])
def cage(request: pytest.FixtureRequest) -> Iterator[Cage]:
    """A cage of each backend in turn."""
    backend = BACKENDS[request.param]
    refusal = backend.refusal()
    if refusal:
        pytest.skip(f"NOT RUN: {refusal}")
    made = Cage(load("reference"), backend=backend)
    yield made
    made.close()
