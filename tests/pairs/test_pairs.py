"""A few pairs of every instrument; ``make pairs`` runs twenty of each."""

import pytest

from tests.pairs.__main__ import INSTRUMENTS, generator
from tests.pairs.pair import try_pair


@pytest.mark.parametrize("seed", [100, 101])
@pytest.mark.parametrize("instrument", INSTRUMENTS)
def test_a_planted_fault_is_named_and_its_twin_is_not(instrument: str, seed: int) -> None:
    pair = generator(instrument)(seed)
    outcome = try_pair(instrument, pair)
    assert outcome.localised, f"{pair.about}: expected {pair.where}: {outcome.said}"
    assert not outcome.false_alarms, outcome.said
