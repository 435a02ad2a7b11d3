"""A warm cage of the interpreter, shared by the tests of a module."""

from collections.abc import Iterator

import pytest

from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.profile import load


@pytest.fixture(scope="module")
def cages() -> Iterator[list[Cage]]:
    """Every cage this module's tests took."""
    made: list[Cage] = []
    yield made
    for cage in made:
        cage.close()


@pytest.fixture
def cage(cages: list[Cage]) -> Cage:
    """A live cage: one whose last request failed is closed, and must not fail the tests after it."""
    if not cages or not cages[-1].alive:
        cages.append(Cage(load("triton-interpret")))
    return cages[-1]
