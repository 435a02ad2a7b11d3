"""The block: norm, then MLP."""

import threading

import numpy as np
import torch
from block.norm import EPSILON


def _tokens(
    x: np.ndarray, normed: np.ndarray, out: np.ndarray, weight: np.ndarray, up: np.ndarray, gate: np.ndarray, down: np.ndarray
) -> None:
    mean = np.square(x).mean(axis=1, keepdims=True)
    np.divide(x, np.sqrt(mean + np.float32(EPSILON)), out=normed)
    np.multiply(normed, weight, out=normed)
    opened = normed @ gate
    np.matmul(opened / (1 + np.exp(-opened)) * (normed @ up), down, out=out)


def run(x: torch.Tensor, weight: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor) -> dict[str, torch.Tensor]:
    """Both stages of the block, float32."""
    arrays = [tensor.numpy() for tensor in (weight, up, gate, down)]
    normed, out = torch.empty_like(x), torch.empty(x.shape[0], down.shape[1])
    half = x.shape[0] // 2
    lower, upper = ([tensor.numpy()[part] for tensor in (x, normed, out)] for part in (slice(half, None), slice(half)))
    helper = threading.Thread(target=_tokens, args=(*lower, *arrays))
    helper.start()
    _tokens(*upper, *arrays)
    helper.join()
    return {"normed": normed, "out": out}
