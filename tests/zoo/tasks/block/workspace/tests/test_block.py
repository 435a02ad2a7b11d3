import torch
from block.norm import rms_norm


def test_a_norm_has_unit_mean_square() -> None:
    y = rms_norm(torch.arange(1.0, 9.0).reshape(2, 4), torch.ones(4))
    assert torch.allclose((y * y).mean(1), torch.ones(2), atol=1e-5)
