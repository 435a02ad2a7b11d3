"""Inputs of the kernels. What they compute the generators decide, so there is no truth: ``numerics`` has its own, the float64 shadow."""

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
SIZE = 32


def cases(split: str) -> list[dict[str, Any]]:
    """One case."""
    return [{"name": "only", "when": "always", "size": SIZE}] if split == "public" else []


def bounds(case: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of the entry that the generators replace."""
    return {"y": {"error": 1e-5, "ratio": 1000.0}, "z": {"error": 1e-5, "ratio": 1000.0}}


def inputs(case: dict[str, Any], seed: int) -> Arrays:
    """Fresh contents, float32: three orthogonal matrices and a dense one."""
    rng = np.random.default_rng(seed)
    drawn = {name: np.linalg.qr(rng.standard_normal((SIZE, SIZE)))[0] for name in ("a", "b", "c")}
    return {
        **{name: value.astype(np.float32) for name, value in drawn.items()},
        "x": rng.uniform(0.5, 1.5, (SIZE, SIZE)).astype(np.float32),
    }


def truth(arrays: Arrays) -> Arrays:
    """In float64."""
    return _work({name: value.astype(np.float64) for name, value in arrays.items()})


def reference(arrays: Arrays) -> Arrays:
    """In float32."""
    return _work(arrays)


def _work(arrays: Arrays) -> Arrays:
    return {"y": arrays["a"] @ arrays["x"], "z": arrays["b"] @ arrays["x"] + arrays["c"]}
