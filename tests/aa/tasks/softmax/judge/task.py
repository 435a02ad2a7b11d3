"""Truth of the softmax."""

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
    return {"x": rng.standard_normal((32, 512), dtype=np.float32)}


def truth(arrays: Arrays) -> Arrays:
    """In float64."""
    return _work({name: value.astype(np.float64) for name, value in arrays.items()})


def reference(arrays: Arrays) -> Arrays:
    """In float32."""
    return _work(arrays)


def _work(arrays: Arrays) -> Arrays:
    y = arrays["x"]
    for _ in range(12):
        e = np.exp(8 * y - (8 * y).max(axis=1, keepdims=True))
        y = e / e.sum(axis=1, keepdims=True)
    return {"y": y}
