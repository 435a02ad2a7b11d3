"""Prefixes in pinned host memory, page by page and layer by layer."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class HostPages:
    """What one request's prefix has in every layer; first axis: layers."""

    key: torch.Tensor
    """[L, T, D] float32."""
    value: torch.Tensor
    """[L, T, D] float32."""
    index_key: torch.Tensor
    """[L, T, I] int8: what the indexer scores."""
    index_scale: torch.Tensor
    """[L, T] float32: one scale for each token's index key."""


class HostPool:
    """Pages by request."""

    def __init__(self, key: torch.Tensor, value: torch.Tensor, index_key: torch.Tensor, index_scale: torch.Tensor) -> None:
        self._key, self._value, self._index_key, self._index_scale = key, value, index_key, index_scale

    def pages(self, request: int) -> HostPages:
        """The pages of a request's prefix."""
        return HostPages(self._key[request], self._value[request], self._index_key[request], self._index_scale[request])
