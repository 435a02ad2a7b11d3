"""Rounding to 8-bit floating types beside torch's, over all of their range."""

import numpy as np
import pytest
import torch

from sandboxes.runtime import fp8

TYPES = {"fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}


def drawn() -> np.ndarray:
    """Every scale from below the smallest value to beyond the largest, and every point half-way between two neighbours."""
    rng = np.random.default_rng(0)
    some = rng.choice([-1.0, 1.0], 200_000) * np.exp2(rng.uniform(-20, 18, 200_000))
    ties = [(known[1:] + known[:-1]) / 2 for known in map(fp8.magnitudes, TYPES)]
    return np.concatenate([some, *ties, *map(np.negative, ties), [0.0, -0.0]]).astype(np.float32)


@pytest.mark.parametrize("name", TYPES)
def test_it_rounds_as_torch_does(name: str) -> None:
    x = drawn()
    torchs = torch.from_numpy(x).to(TYPES[name])
    finite = torch.isfinite(torchs.float()).numpy()
    assert finite.mean() > 0.5
    assert (fp8.rounded(x, name)[finite] == torchs.view(torch.uint8).numpy()[finite]).all()


@pytest.mark.parametrize(("name", "largest"), [("fp8e4nv", 448.0), ("fp8e5", 57344.0)])
def test_what_is_too_large_becomes_the_largest(name: str, largest: float) -> None:
    left = torch.from_numpy(fp8.rounded(np.array([1e9, -np.inf, np.nan]), name)).view(TYPES[name]).float()
    assert left[:2].tolist() == [largest, -largest] and bool(left[2].isnan())


@pytest.mark.parametrize("name", TYPES)
def test_every_value_stays_what_it_is(name: str) -> None:
    code = np.arange(256, dtype=np.uint8)
    values = torch.from_numpy(code).view(TYPES[name]).double().numpy()
    finite = np.isfinite(values)
    assert (fp8.rounded(values, name)[finite] == code[finite]).all()
