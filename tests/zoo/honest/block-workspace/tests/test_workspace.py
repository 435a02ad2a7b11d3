import torch
from block.entry import run


def test_two_calls_of_one_shape_do_not_mix() -> None:
    torch.manual_seed(0)
    shapes = [(5, 4), (4,), (4, 6), (4, 6), (6, 4)]
    first, second = ([torch.randn(shape) for shape in shapes] for _ in range(2))
    before = run(*first)
    kept = before["out"].clone()
    run(*second)
    assert torch.equal(before["out"], kept)
    assert torch.equal(run(*first)["out"], kept)
