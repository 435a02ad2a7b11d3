"""Truth of the gated scan."""

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_CASES: dict[str, list[dict[str, Any]]] = {
    "public": [
        {"name": "even", "steps": 128, "width": 32, "low": 0.2, "high": 0.95},
        {"name": "brief", "steps": 56, "width": 32, "low": 0.2, "high": 0.95},
        {"name": "short", "steps": 5, "width": 48, "low": 0.1, "high": 0.9},
    ],
    "held_out": [
        {"name": "one-step", "steps": 1, "width": 7, "low": 0.1, "high": 0.9},
        {"name": "keeps", "steps": 300, "width": 16, "low": 0.999, "high": 0.99999},
        {"name": "forgets", "steps": 200, "width": 16, "low": 1e-6, "high": 1e-3},
        {"name": "even-keeps", "steps": 128, "width": 32, "low": 0.99, "high": 0.9999},
        {"name": "odd", "steps": 131, "width": 3, "low": 0.01, "high": 0.999},
    ],
}


def cases(split: str) -> list[dict[str, Any]]:
    """Cases of a split; gates are drawn between ``low`` and ``high``."""
    return [{"when": "always", "size": case["steps"] * case["width"], **case} for case in _CASES[split]]


def bounds(case: dict[str, Any]) -> dict[str, dict[str, float]]:
    """What float32 leaves in any order that does not divide by a product of gates."""
    return {stage: {"error": 3e-6, "ratio": 100.0} for stage in ("h", "last")}


def inputs(case: dict[str, Any], seed: int) -> Arrays:
    """x and gate [steps, width], h0 [width], float32."""
    rng = np.random.default_rng(seed)
    shape = (case["steps"], case["width"])
    gate = rng.uniform(case["low"], case["high"], shape).astype(np.float32)
    return {"x": rng.standard_normal(shape, dtype=np.float32), "gate": gate, "h0": rng.standard_normal(shape[1], dtype=np.float32)}


def _scan(arrays: Arrays) -> Arrays:
    h = np.empty_like(arrays["x"])
    state = arrays["h0"]
    for t in range(len(h)):
        state = arrays["gate"][t] * state + arrays["x"][t]
        h[t] = state
    return {"h": h, "last": state}


def truth(arrays: Arrays) -> Arrays:
    """In float64."""
    return _scan({name: value.astype(np.float64) for name, value in arrays.items()})


def reference(arrays: Arrays) -> Arrays:
    """In float32."""
    return _scan(arrays)
