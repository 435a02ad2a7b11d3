"""Truth of the matrix product."""

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_CASES: dict[str, list[dict[str, Any]]] = {
    "public": [
        {"name": "square", "m": 96, "k": 96, "n": 96},
        {"name": "wide", "m": 48, "k": 64, "n": 160},
    ],
    "held_out": [
        {"name": "odd", "m": 33, "k": 17, "n": 65},
        {"name": "deep", "m": 16, "k": 700, "n": 24},
        {"name": "one-row", "m": 1, "k": 96, "n": 96},
        {"name": "square-offset", "m": 96, "k": 96, "n": 96, "mean": 5.0},
        {"name": "offset", "m": 40, "k": 80, "n": 56, "mean": 30.0},
    ],
}


def cases(split: str) -> list[dict[str, Any]]:
    """Cases of a split."""
    return [{"mean": 0.0, "when": "always", "size": case["m"] * case["n"], **case} for case in _CASES[split]]


def bounds(case: dict[str, Any]) -> dict[str, dict[str, float]]:
    """What float32 leaves with any order of summation; tf32 leaves 3e-4."""
    return {"c": {"error": 3e-6, "ratio": 30.0}}


def inputs(case: dict[str, Any], seed: int) -> Arrays:
    """a [m, k], b [k, n], float32."""
    rng = np.random.default_rng(seed)
    shapes = {"a": (case["m"], case["k"]), "b": (case["k"], case["n"])}
    return {name: rng.standard_normal(shape, dtype=np.float32) + np.float32(case["mean"]) for name, shape in shapes.items()}


def truth(arrays: Arrays) -> Arrays:
    """In float64."""
    return {"c": arrays["a"].astype(np.float64) @ arrays["b"].astype(np.float64)}


def reference(arrays: Arrays) -> Arrays:
    """In float32."""
    return {"c": arrays["a"] @ arrays["b"]}
