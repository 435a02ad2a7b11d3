"""Softmax over rows."""

from softmax.fused import softmax_of_scaled as run

__all__ = ["run"]
