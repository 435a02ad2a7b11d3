"""Decode of a whole request that moves between workers, and the account of what it moved.

Between two slices of a request nothing is left of it but its cache image. ``decode`` runs the request twice: handed over at even
distances, and handed over before the steps that ``request`` names.
"""

import numpy as np
import torch

from serving.pool import Pool

CLASSES = ("kv", "index", "conv", "ssm")
HANDOVERS = 16
"""Even slices of a request; after each its image is weighed and looked into."""
Arrays = dict[str, np.ndarray]


def decode(request: torch.Tensor, **given: torch.Tensor) -> dict[str, torch.Tensor]:
    """Outputs, contents of the caches and bytes of a request. ``request``: its number, then the steps at which it moves again."""
    steps = {name: value.numpy() for name, value in given.items()}
    number, *moves = (int(value) for value in request)
    length = len(steps["kv"])
    even = [length * n // HANDOVERS for n in range(1, HANDOVERS)]
    with Pool() as pool:
        out, held, weights = _decode(pool, steps, number, even)
        again, _, _ = _decode(pool, steps, number, moves)
    stages = {
        "kv": held[-1]["kv"] / _sizes(steps["kv"]),
        "index": held[-1]["index"] / _sizes(steps["index_k"]),
        "conv": np.stack([h["conv"] for h in held]),
        "ssm": np.stack([h["ssm"] for h in held]),
        "out": out,
        "bytes": weights.sum(1, keepdims=True),
        "bytes_by_class": weights,
        "resumed": _agreeing(out, again, moves),
    }
    return {name: torch.from_numpy(np.array(value, order="C")) for name, value in stages.items()}


def _decode(pool: Pool, steps: Arrays, number: int, moves: list[int]) -> tuple[np.ndarray, list[Arrays], np.ndarray]:
    """Outputs [steps, width]; contents and bytes by class [slices, 4] after each slice."""
    length = len(steps["kv"])
    image: dict[str, bytes] = {name: b"" for name in CLASSES}
    outputs, held, weights = [], [], []
    for start, stop in zip([0, *moves], [*moves, length], strict=True):
        out, image = pool.run(image, _between(steps, start, stop), start, number)
        outputs.append(out)
        held.append(pool.contents(image, _between(steps, 0, 0), stop))
        weights.append([len(image[name]) for name in CLASSES])
    return np.concatenate(outputs), held, np.array(weights, np.int64)


def _between(steps: Arrays, start: int, stop: int) -> Arrays:
    return {name: value if name == "taps" else value[start:stop] for name, value in steps.items()}


def _sizes(values: np.ndarray) -> np.ndarray:
    """Root mean square of each channel: a large one must not hide the others."""
    sizes: np.ndarray = np.sqrt(np.square(values).mean(0))
    return sizes


def _agreeing(out: np.ndarray, again: np.ndarray, moves: list[int]) -> np.ndarray:
    """[slices, 1]: how many outputs the second run gave bit for bit as the first, up to the end of each of its slices."""
    same = (out.view(np.int32) == again.view(np.int32)).sum(1)
    return np.add.reduceat(same, [0, *moves]).cumsum().astype(np.int64)[:, None]
