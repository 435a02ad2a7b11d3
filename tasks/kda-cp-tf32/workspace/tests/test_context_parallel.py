"""Several ranks must give what one rank gives. Runs on a GPU, or anywhere with TRITON_INTERPRET=1."""

import os

import torch

from kda.context_parallel import context_parallel

TOLERANCE = 5e-3
L, K, V = 64, 64, 64


def chunk_operands(ranks: int, chunks: int, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random chunk operands with full-rank keys."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    keys = torch.nn.functional.normalize(normal(ranks, chunks, L, K), dim=-1)
    beta = torch.rand(ranks, chunks, L, 1, generator=generator)
    triangle = torch.eye(L) + torch.tril(beta * (keys @ keys.mT), -1)
    inverse = torch.linalg.inv(triangle)
    return {
        "q": normal(ranks, chunks, L, K) / K**0.5,
        "k": keys,
        "w": inverse @ (beta * keys),
        "u": inverse @ (beta * normal(ranks, chunks, L, V)),
        "do": normal(ranks, chunks, L, V),
        "decay": torch.full((ranks, chunks, K), 0.99),
        "s0": normal(K, V),
        "ds_end": normal(K, V),
    }


def test_four_ranks_agree_with_one() -> None:
    device = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
    split = {name: value.to(device) for name, value in chunk_operands(4, 2).items()}
    whole = {name: value.reshape(1, 8, *value.shape[2:]) if value.dim() > 2 else value for name, value in split.items()}
    found = context_parallel(**split)["out"].reshape(-1, V)
    expected = context_parallel(**whole)["out"].reshape(-1, V)
    assert (found - expected).norm() / expected.norm() < TOLERANCE
