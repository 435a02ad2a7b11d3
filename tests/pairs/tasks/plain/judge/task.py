"""Truth of the loop."""

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


def cases(split: str) -> list[dict[str, Any]]:
    """One case."""
    return [{"name": "only", "when": "always", "size": 1}] if split == "public" else []


def bounds(case: dict[str, Any]) -> dict[str, dict[str, float]]:
    """What float32 leaves, with room."""
    return {"y": {"error": 1e-5, "ratio": 1000.0}}


def inputs(case: dict[str, Any], seed: int) -> Arrays:
    """Fresh contents, float32."""
    rng = np.random.default_rng(seed)
    return {"x": rng.uniform(0.5, 1.0, 16).astype(np.float32)}


def truth(arrays: Arrays) -> Arrays:
    """In float64."""
    return _work({name: value.astype(np.float64) for name, value in arrays.items()})


def reference(arrays: Arrays) -> Arrays:
    """In float32."""
    return _work(arrays)


def _work(arrays: Arrays) -> Arrays:
    return {"y": arrays["x"] * 2}
