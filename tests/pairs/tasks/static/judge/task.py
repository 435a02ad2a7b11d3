"""Inputs of the kernels. What they compute the generators decide, and nothing runs: ``static`` compiles."""

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
SIDE = 256


def cases(split: str) -> list[dict[str, Any]]:
    """One case."""
    return [{"name": "only", "when": "always", "size": SIDE}] if split == "public" else []


def bounds(case: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of the entry that the generators replace."""
    return {"y": {"error": 1e-5, "ratio": 1000.0}}


def inputs(case: dict[str, Any], seed: int) -> Arrays:
    """Fresh contents, float32."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((SIDE, SIDE)).astype(np.float32) for name in ("x", "w")}


def truth(arrays: Arrays) -> Arrays:
    """In float64."""
    return {"y": arrays["x"].astype(np.float64) @ arrays["w"].astype(np.float64)}


def reference(arrays: Arrays) -> Arrays:
    """In float32."""
    return {"y": arrays["x"] @ arrays["w"]}
