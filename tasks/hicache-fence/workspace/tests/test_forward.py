import torch

from hicache.forward import attend, select


def test_the_largest_scores_are_selected_in_order_of_position() -> None:
    key = torch.tensor([[1], [5], [3], [5]], dtype=torch.int8)
    assert select(torch.ones(1), key, torch.ones(4), 2).tolist() == [1, 3]
    assert select(torch.ones(1), key, torch.tensor([9.0, 1, 1, 1]), 2).tolist() == [0, 1]


def test_attention_over_one_token_is_its_value() -> None:
    value = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = attend(torch.ones(2), torch.zeros(2), torch.tensor([1]), value, value)
    assert torch.equal(found, torch.tensor([3.0, 4.0]))
