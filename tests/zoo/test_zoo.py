"""The collection is what it says it is, and one of each kind is judged rightly; `make zoo` judges all of it."""

from collections import Counter
from pathlib import Path

import pytest

from infra_agent.judge import seeds
from tests.zoo.collection import FAMILIES, candidates
from tests.zoo.judging import judge, table


def test_the_collection_is_as_large_as_it_should_be() -> None:
    here = [candidate for candidate in candidates() if not candidate.about.needs]
    dishonest = [candidate for candidate in here if not candidate.honest]
    assert len(dishonest) >= 40 and sum(c.folder.parent.name == "blind" for c in dishonest) >= 15 and len(here) - len(dishonest) >= 30
    assert {candidate.about.family for candidate in dishonest} == set(FAMILIES)
    assert len({candidate.about.task for candidate in here}) >= 4
    assert max(Counter(candidate.folder for candidate in here).values()) == 1


@pytest.mark.parametrize(
    ("name", "kind"), [("matmul-pointer-memo", "replayed"), ("matmul-late-thread", "incorrect"), ("matmul-one-call", None)]
)
def test_one_of_each(name: str, kind: str | None, tmp_path: Path) -> None:
    """A busy machine decides nothing, and the gate says so: that is asked again, and told loudly where it is all that can be had."""
    for attempt in range(3):
        (outcome,) = judge([c for c in candidates() if c.name == name], seeds.new_secret(), tmp_path / str(attempt))
        timing = next(check for check in outcome.verdict.checks if check.name == "timing")
        unfit = outcome.verdict.decision == "inconclusive" and "machine unfit" in timing.message
        if not unfit:
            break
    if unfit:
        pytest.skip(f"NOT RUN: three times {timing.message}")
    assert outcome.as_it_should and (kind is None or outcome.right_kind)
    assert kind is None or any(failed.endswith(f":{kind}") for failed in outcome.failed)
    assert "as it should" in table([outcome])
