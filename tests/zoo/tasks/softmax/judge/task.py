"""Truth of the row softmax."""

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_CASES: dict[str, list[dict[str, Any]]] = {
    "public": [
        {"name": "plain", "rows": 64, "columns": 128, "spread": 3.0},
        {"name": "long", "rows": 24, "columns": 4096, "spread": 0.3},
    ],
    "held_out": [
        {"name": "one-row", "rows": 1, "columns": 1000, "spread": 2.0},
        {"name": "hot", "rows": 17, "columns": 63, "spread": 40.0},
        {"name": "plain-hot", "rows": 64, "columns": 128, "spread": 30.0},
        {"name": "flat", "rows": 5, "columns": 9000, "spread": 0.01},
        {"name": "narrow", "rows": 300, "columns": 3, "spread": 5.0},
    ],
}


def cases(split: str) -> list[dict[str, Any]]:
    """Cases of a split; ``spread`` is the logits' standard deviation."""
    return [{"when": "always", "size": case["rows"] * case["columns"], **case} for case in _CASES[split]]


def bounds(case: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Relative to each stage's own scale, so that zeros are wrong however small the probabilities are.

    Rounding the largest logit's distance costs its magnitude in units of float32: 1e-5 at a spread of 40.
    """
    return {"y": {"error": 2e-6 if case["spread"] < 10 else 2e-5, "ratio": 50.0}}


def inputs(case: dict[str, Any], seed: int) -> Arrays:
    """x [rows, columns] and a temperature scale [1], float32."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((case["rows"], case["columns"]), dtype=np.float32) * np.float32(case["spread"])
    return {"x": x, "scale": rng.uniform(0.5, 1.5, 1).astype(np.float32)}


def _softmax(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    z = x * scale
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def truth(arrays: Arrays) -> Arrays:
    """In float64."""
    return {"y": _softmax(arrays["x"].astype(np.float64), arrays["scale"].astype(np.float64))}


def reference(arrays: Arrays) -> Arrays:
    """In float32."""
    return {"y": _softmax(arrays["x"], arrays["scale"])}
