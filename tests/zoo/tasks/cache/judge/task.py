"""Truth of the cache update."""

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_CASES: dict[str, list[dict[str, Any]]] = {
    "public": [
        {"name": "decode", "slots": 64, "keys": 16, "width": 32},
        {"name": "prefill", "slots": 96, "keys": 80, "width": 16},
    ],
    "held_out": [
        {"name": "single", "slots": 9, "keys": 1, "width": 5},
        {"name": "full", "slots": 33, "keys": 33, "width": 8},
        {"name": "sparse", "slots": 500, "keys": 3, "width": 24},
    ],
}


def cases(split: str) -> list[dict[str, Any]]:
    """Cases of a split."""
    return [{"when": "always", "size": case["slots"] * case["width"], **case} for case in _CASES[split]]


def bounds(case: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The cache is copied and scaled, the norms are summed."""
    return {"cache": {"error": 2e-7, "ratio": 5.0}, "norms": {"error": 2e-6, "ratio": 30.0}}


def inputs(case: dict[str, Any], seed: int) -> Arrays:
    """cache [slots, width], keys [keys, width], slot of each key [keys] int64, scale [1]."""
    rng = np.random.default_rng(seed)
    return {
        "cache": rng.standard_normal((case["slots"], case["width"]), dtype=np.float32),
        "keys": rng.standard_normal((case["keys"], case["width"]), dtype=np.float32),
        "slots": rng.permutation(case["slots"])[: case["keys"]].astype(np.int64),
        "scale": rng.uniform(0.5, 2.0, 1).astype(np.float32),
    }


def _update(arrays: Arrays) -> Arrays:
    cache = arrays["cache"].copy()
    cache[arrays["slots"]] = arrays["keys"] * arrays["scale"]
    return {"cache": cache, "norms": np.sqrt((arrays["keys"] ** 2).sum(axis=1))}


def truth(arrays: Arrays) -> Arrays:
    """In float64."""
    return _update({name: value.astype(np.float64) if value.dtype.kind == "f" else value for name, value in arrays.items()})


def reference(arrays: Arrays) -> Arrays:
    """In float32."""
    return _update(arrays)
