"""Truth of the product of codes. Whole numbers have one right value each: no activation lies near the middle between two codes."""

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_CASES: dict[str, list[dict[str, Any]]] = {
    "public": [{"name": "square", "m": 64, "k": 64, "n": 64}, {"name": "ragged", "m": 40, "k": 100, "n": 72}],
    "held_out": [{"name": "deep", "m": 33, "k": 500, "n": 32}, {"name": "thin", "m": 7, "k": 33, "n": 50}],
}


def cases(split: str) -> list[dict[str, Any]]:
    """Cases of a split."""
    return [{"when": "always", "size": case["m"] * case["n"], **case} for case in _CASES[split]]


def bounds(case: dict[str, Any]) -> dict[str, dict[str, float]]:
    """One rounding of a scale; whole numbers exactly: a single wrong one is more than 1e-6 of all."""
    return {"scale": {"error": 3e-7, "ratio": 4.0}, "codes": {"error": 1e-9, "ratio": 1.0}, "sums": {"error": 1e-9, "ratio": 1.0}}


def inputs(case: dict[str, Any], seed: int) -> Arrays:
    """x [m, k] float32, weight [n, k] int8."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(-126, 127, (case["m"], case["k"])) + rng.uniform(-0.4, 0.4, (case["m"], case["k"]))
    steps[np.arange(case["m"]), rng.integers(0, case["k"], case["m"])] = 127.0
    x = steps * np.exp(rng.normal(-4.0, 1.0, (case["m"], 1)))
    return {"x": x.astype(np.float32), "weight": rng.integers(-127, 128, (case["n"], case["k"])).astype(np.int8)}


def truth(arrays: Arrays) -> Arrays:
    """In float64, which holds every sum exactly."""
    x, weight = arrays["x"].astype(np.float64), arrays["weight"].astype(np.float64)
    scale = np.abs(x).max(axis=1) / 127.0
    codes = np.rint(x / scale[:, None])
    return {"scale": scale, "codes": codes, "sums": codes @ weight.T}


def reference(arrays: Arrays) -> Arrays:
    """As declared: scale float32, codes int8, sums int32."""
    types = {"scale": np.float32, "codes": np.int8, "sums": np.int32}
    return {name: value.astype(types[name]) for name, value in truth(arrays).items()}
