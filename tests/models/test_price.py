"""What a reply costs, and that an unknown price stays unknown."""

import pytest

from infra_agent.errors import UsageError
from infra_agent.models.price import Price
from infra_agent.session.events import Usage


def test_cached_tokens_have_a_price_of_their_own() -> None:
    price = Price.parse("2,10,0.5")
    assert price.of(Usage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000)).cost_usd == pytest.approx(1.2 + 0.2 + 1.0)
    assert Price.parse("2,10") == Price(2.0, 10.0, 2.0)


@pytest.mark.parametrize(
    ("usage", "cost"),
    [(Usage(), None), (Usage(input_tokens=5), None), (Usage(input_tokens=5, output_tokens=5, cost_usd=0.5), 0.5)],
    ids=["no counts", "half the counts", "stated"],
)
def test_what_is_not_known_is_not_nought(usage: Usage, cost: float | None) -> None:
    assert Price(1.0, 1.0, 1.0).of(usage).cost_usd == cost


@pytest.mark.parametrize("text", ["", "1", "1,2,3,4", "a,b", "-1,2", "nan,1"])
def test_a_price_of_another_form_says_which_is_right(text: str) -> None:
    with pytest.raises(UsageError, match="expected IN,OUT or IN,OUT,CACHED"):
        Price.parse(text)
