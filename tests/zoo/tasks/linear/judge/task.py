"""Truth of the linear layer."""

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_CASES: dict[str, list[dict[str, Any]]] = {
    "public": [{"name": "square", "m": 64, "k": 64, "n": 64}, {"name": "ragged", "m": 40, "k": 100, "n": 72}],
    "held_out": [{"name": "deep", "m": 32, "k": 640, "n": 32}, {"name": "thin", "m": 7, "k": 33, "n": 50}],
}


def cases(split: str) -> list[dict[str, Any]]:
    """Cases of a split."""
    return [{"when": "always", "size": case["m"] * case["n"], **case} for case in _CASES[split]]


def bounds(case: dict[str, Any]) -> dict[str, dict[str, float]]:
    """tf32 leaves 5e-4, tf32x3 1e-7 to 1e-6."""
    return {"out": {"error": 5e-6, "ratio": 100.0}}


def inputs(case: dict[str, Any], seed: int) -> Arrays:
    """x [m, k], w [k, n], bias [n], float32."""
    rng = np.random.default_rng(seed)
    shapes = {"x": (case["m"], case["k"]), "w": (case["k"], case["n"]), "bias": (case["n"],)}
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def _layer(arrays: Arrays) -> Arrays:
    return {"out": np.maximum(arrays["x"] @ arrays["w"] + arrays["bias"], 0)}


def truth(arrays: Arrays) -> Arrays:
    """In float64."""
    return _layer({name: value.astype(np.float64) for name, value in arrays.items()})


def reference(arrays: Arrays) -> Arrays:
    """In float32."""
    return _layer(arrays)
