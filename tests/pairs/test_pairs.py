"""A few pairs of every instrument; ``make pairs`` runs twenty of each."""

import pytest

from tests.pairs.__main__ import INSTRUMENTS, generator
from tests.pairs.pair import try_pair

SEEDS = {"bench": (102, 106)}
"""A machine whose speed changes by half from run to run hides 50 %, and the instrument says so: here a part takes several times as long."""


@pytest.mark.parametrize(("instrument", "seed"), [(name, seed) for name in INSTRUMENTS for seed in SEEDS.get(name, (100, 101))])
def test_a_planted_fault_is_named_and_its_twin_is_not(instrument: str, seed: int) -> None:
    pair = generator(instrument)(seed)
    outcome = try_pair(instrument, pair)
    assert outcome.localised, f"{pair.about}: expected {pair.where}: {outcome.said}"
    assert not outcome.false_alarms, outcome.said
