import torch
from scan.entry import run


def test_a_closed_gate_keeps_nothing() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    assert torch.equal(run(x, torch.zeros(3, 2), torch.ones(2))["h"], x)
