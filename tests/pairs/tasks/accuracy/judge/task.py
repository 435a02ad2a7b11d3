"""Truth of four small stages, each over (head, row, column)."""

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_CASES = [
    {"name": "small", "heads": 3, "rows": 45, "columns": 40, "when": "always"},
    {"name": "wide", "heads": 4, "rows": 41, "columns": 133, "when": "gate"},
    {"name": "tall", "heads": 5, "rows": 203, "columns": 24, "when": "gate"},
    {"name": "even", "heads": 6, "rows": 77, "columns": 64, "when": "gate"},
]


def cases(split: str) -> list[dict[str, Any]]:
    """Shapes with a remainder in their rows."""
    return [_sized(case) for case in _CASES] if split == "public" else []


def _sized(case: dict[str, Any]) -> dict[str, Any]:
    return {**case, "size": case["heads"] * case["rows"] * case["columns"]}


def smaller(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Half of each dimension in turn, then one less."""
    cut = [{**case, name: value} for way in (_half, _less) for name in ("heads", "rows", "columns") for value in way(case[name])]
    return [_sized(version) for version in cut]


def _half(value: int) -> list[int]:
    return [value // 2] if value >= 2 else []


def _less(value: int) -> list[int]:
    return [value - 1] if value >= 2 else []


def bounds(case: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What float32 leaves, with room."""
    limit = {"error": 2e-6, "ratio": 1000.0, "axes": ["head", "row", "column"]}
    return dict.fromkeys(("scaled", "smooth", "normed", "state"), limit)


def inputs(case: dict[str, Any], seed: int) -> Arrays:
    """Fresh contents, float32."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((case["heads"], case["rows"], case["columns"]))
    drawn = {"x": x, "gain": rng.uniform(0.5, 2.0, case["heads"]), "decay": rng.uniform(0.99, 1.0, case["heads"])}
    return {name: value.astype(np.float32) for name, value in drawn.items()}


def truth(arrays: Arrays) -> Arrays:
    """In float64."""
    return _work({name: value.astype(np.float64) for name, value in arrays.items()})


def reference(arrays: Arrays) -> Arrays:
    """In float32."""
    return _work(arrays)


def _work(arrays: Arrays) -> Arrays:
    x, gain, decay = arrays["x"], arrays["gain"], arrays["decay"]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    smooth = (x + padded[:, :-2, 1:-1] + padded[:, 2:, 1:-1] + padded[:, 1:-1, :-2] + padded[:, 1:-1, 2:]) / 5
    state, s = np.empty_like(x), np.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        s = decay[:, None] * s + x[:, t]
        state[:, t] = s
    normed = x / np.sqrt((x * x).mean(-1, keepdims=True))
    return {"scaled": x * gain[:, None, None], "smooth": smooth.astype(x.dtype), "normed": normed, "state": state}
