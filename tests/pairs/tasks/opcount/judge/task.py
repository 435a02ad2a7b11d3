"""Inputs of several shapes. Nobody asks whether results are right; the generators take care of it."""

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_PRODUCTS = {f"product-{n}": {"rows": n, "depth": k, "columns": n} for n, k in ((96, 48), (128, 64), (192, 32), (256, 32))}
_POINTS = {f"points-{n}": {"rows": n, "depth": 1, "columns": n} for n in (500, 768, 1024)}
_IMAGES = {f"image-{h}x{w}": {"rows": h, "depth": w, "columns": 1, "pixels": h * w} for h, w in ((64, 64), (96, 80), (60, 110))}
_CAUSAL = {f"causal-{n}": {"rows": n, "depth": d, "columns": n, "causal": n} for n, d in ((128, 16), (192, 32), (250, 32))}


def cases(split: str) -> list[dict[str, Any]]:
    """All are public."""
    listed = {**_PRODUCTS, **_POINTS, **_IMAGES, **_CAUSAL} if split == "public" else {}
    return [{"name": n, "when": "always", "size": c["rows"] * c["depth"], "pixels": 0, "causal": 0, **c} for n, c in listed.items()]


def bounds(case: dict[str, Any]) -> dict[str, dict[str, float]]:
    """What float32 leaves, with room."""
    return {"y": {"error": 1e-5, "ratio": 1000.0}}


def inputs(case: dict[str, Any], seed: int) -> Arrays:
    """x [rows, depth] and w [depth, columns], float32, positive."""
    rng = np.random.default_rng(seed)
    shapes = {"x": (case["rows"], case["depth"]), "w": (case["depth"], case["columns"])}
    return {name: rng.uniform(0.5, 1.0, shape).astype(np.float32) for name, shape in shapes.items()}


def truth(arrays: Arrays) -> Arrays:
    """In float64."""
    return _work({name: value.astype(np.float64) for name, value in arrays.items()})


def reference(arrays: Arrays) -> Arrays:
    """In float32."""
    return _work(arrays)


def _work(arrays: Arrays) -> Arrays:
    return {"y": arrays["x"] @ arrays["w"] if arrays["x"].shape[1] == arrays["w"].shape[0] else arrays["x"]}
