"""Decode of one parallel hybrid block: attention over selected tokens beside Mamba-2 layers, every state read and written through its cache.

The activations of a recorded request are given per step: ``xbc`` [n, layers, channels] and ``decay`` [n, layers, heads] of the state-space
layers with ``taps`` [layers, width, channels]; ``kv`` [n, 2, dim], ``q`` [n, heads, dim], ``index_k`` and ``index_q`` [n, index dim].
"""

from dataclasses import dataclass

import numpy as np

from hybrid.caches import Cache
from hybrid.policy import policies

Array = np.ndarray
Steps = dict[str, Array]
Image = dict[str, bytes]
STATE = 64
"""Columns of a state-space head's state."""
SELECTED = 32
"""Tokens that the indexer lets attention see."""


@dataclass
class Caches:
    """The four classes."""

    kv: Cache
    index: Cache
    conv: Cache
    ssm: Cache

    @classmethod
    def of(cls, steps: Steps) -> "Caches":
        """Empty caches of the request that ``steps`` belong to."""
        layers, width, channels = steps["taps"].shape
        heads = steps["decay"].shape[2]
        rows = (channels - 2 * STATE) // heads
        shapes = {
            "kv": steps["kv"].shape[1:],
            "index": steps["index_k"].shape[1:],
            "conv": (layers, width - 1, channels),
            "ssm": (layers, heads, rows, STATE),
        }
        return cls(**{name: Cache(name, policies()[name], shape) for name, shape in shapes.items()})

    @classmethod
    def restore(cls, image: Image, steps: Steps, length: int) -> "Caches":
        """The caches from an image taken after ``length`` steps."""
        caches = cls.of(steps)
        if length:
            caches.kv.unpack(image["kv"], length)
            caches.index.unpack(image["index"], length)
            caches.conv.unpack(image["conv"], 1)
            caches.ssm.unpack(image["ssm"], 1)
        return caches

    def image(self) -> Image:
        """All of a request that another worker gets."""
        return {cache.name: cache.pack() for cache in (self.kv, self.index, self.conv, self.ssm)}


def contents(image: Image, steps: Steps, length: int) -> dict[str, Array]:
    """What an image holds, as float32: ``kv`` and ``index`` [length, ...], ``conv`` and ``ssm`` without that axis."""
    caches = Caches.restore(image, steps, length)
    return {"kv": caches.kv.read(), "index": caches.index.read(), "conv": caches.conv.read()[0], "ssm": caches.ssm.read()[0]}


def run(image: Image, steps: Steps, length: int, request: int) -> tuple[Array, Image]:
    """Decode ``steps`` after ``length`` earlier ones of which only ``image`` is left. Returns outputs [n, width] and the new image."""
    caches = Caches.restore(image, steps, length)
    outputs = [_step(caches, steps, n, length + n, request) for n in range(len(steps["kv"]))]
    return np.stack(outputs), caches.image()


def _step(caches: Caches, steps: Steps, n: int, step: int, request: int) -> Array:
    attended = _attend(caches, steps, n, step, request)
    mixed = _mix(caches, steps, n, step, request)
    return attended.reshape(-1) + mixed.sum(0).reshape(-1)


def _attend(caches: Caches, steps: Steps, n: int, step: int, request: int) -> Array:
    """Attention over the tokens with the highest index scores. Returns [heads, dim]."""
    caches.kv.append(steps["kv"][n], request, step)
    caches.index.append(steps["index_k"][n], request, step)
    scores = (caches.index.read() * steps["index_q"][n]).sum(-1)
    chosen = np.sort(np.argsort(-scores, kind="stable")[:SELECTED])
    keys, values = caches.kv.read(chosen).swapaxes(0, 1)
    query = steps["q"][n]
    logits = (query[:, None] * keys).sum(-1) / np.float32(np.sqrt(keys.shape[-1]))
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights[..., None] * values).sum(1)


def _mix(caches: Caches, steps: Steps, n: int, step: int, request: int) -> Array:
    """The state-space layers: short convolution, then the recurrence. Returns [layers, heads, rows]."""
    new, taps = steps["xbc"][n][:, None], steps["taps"]
    layers, width, channels = taps.shape
    held = caches.conv.read()[0] if step else np.zeros((layers, width - 1, channels), np.float32)
    window = np.concatenate([held, new], 1)
    caches.conv.write(window[:, 1:], request, step)
    mixed = (window * taps).sum(1)
    mixed = 0.5 * mixed * (1 + np.tanh(0.5 * mixed))  # silu
    decay = steps["decay"][n][..., None, None]
    x = mixed[:, : -2 * STATE].reshape(layers, decay.shape[1], -1)
    b, c = mixed[:, None, None, -2 * STATE : -STATE], mixed[:, None, None, -STATE:]
    state = x[..., None] * b * (1 - decay)
    if step:
        state += decay * caches.ssm.read()[0]
    caches.ssm.write(state, request, step)
    return (caches.ssm.read()[0] * c).sum(-1)
