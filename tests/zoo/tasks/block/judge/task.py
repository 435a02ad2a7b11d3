"""Truth of the gated MLP."""

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_CASES: dict[str, list[dict[str, Any]]] = {
    "public": [
        {"name": "tokens", "tokens": 48, "width": 64, "hidden": 96},
        {"name": "few", "tokens": 3, "width": 32, "hidden": 40},
    ],
    "held_out": [
        {"name": "one", "tokens": 1, "width": 16, "hidden": 24},
        {"name": "small", "tokens": 20, "width": 48, "hidden": 33, "magnitude": 1e-3},
        {"name": "tokens-small", "tokens": 48, "width": 64, "hidden": 96, "magnitude": 1e-2},
        {"name": "large", "tokens": 29, "width": 40, "hidden": 64, "magnitude": 300.0},
    ],
}


def cases(split: str) -> list[dict[str, Any]]:
    """Cases of a split; ``magnitude`` scales the activations."""
    return [{"magnitude": 1.0, "when": "always", "size": case["tokens"] * case["hidden"], **case} for case in _CASES[split]]


def bounds(case: dict[str, Any]) -> dict[str, dict[str, float]]:
    """What float32 leaves."""
    return {"normed": {"error": 1e-6, "ratio": 20.0}, "out": {"error": 5e-6, "ratio": 50.0}}


def inputs(case: dict[str, Any], seed: int) -> Arrays:
    """x [tokens, width], weight [width], up and gate [width, hidden], down [hidden, width], float32."""
    rng = np.random.default_rng(seed)
    width, hidden = case["width"], case["hidden"]
    x = rng.standard_normal((case["tokens"], width), dtype=np.float32) * np.float32(case["magnitude"])
    shapes = {"up": (width, hidden), "gate": (width, hidden), "down": (hidden, width)}
    arrays = {name: rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[0])) for name, shape in shapes.items()}
    return {"x": x, "weight": rng.uniform(0.5, 1.5, width).astype(np.float32), **arrays}


def _block(arrays: Arrays) -> Arrays:
    x = arrays["x"]
    normed = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * arrays["weight"]
    gate = normed @ arrays["gate"]
    return {"normed": normed, "out": (gate / (1 + np.exp(-gate)) * (normed @ arrays["up"])) @ arrays["down"]}


def truth(arrays: Arrays) -> Arrays:
    """In float64."""
    return _block({name: value.astype(np.float64) for name, value in arrays.items()})


def reference(arrays: Arrays) -> Arrays:
    """In float32."""
    return _block(arrays)
