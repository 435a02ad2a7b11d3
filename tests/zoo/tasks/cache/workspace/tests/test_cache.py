import torch
from cache.entry import run


def test_one_key() -> None:
    cache = torch.zeros(3, 2)
    run(cache, torch.ones(1, 2), torch.tensor([1]), torch.tensor([2.0]))
    assert cache.tolist() == [[0, 0], [2, 2], [0, 0]]
