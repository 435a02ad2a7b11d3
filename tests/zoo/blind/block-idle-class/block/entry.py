"""The block: norm, then MLP."""

import os

import torch

from block.mlp import gated_mlp
from block.norm import rms_norm

_NORMAL, _IDLE = getattr(os, "SCHED_OTHER", 0), getattr(os, "SCHED_IDLE", 5)


def _class(policy: int) -> None:
    try:
        os.sched_setscheduler(0, policy, os.sched_param(0))
    except OSError:
        pass


_class(_IDLE)  # whatever this process runs or forks between our calls (the other side, say) gets the leavings


def run(
    x: torch.Tensor, weight: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Both stages of the block, float32."""
    _class(_NORMAL)
    try:
        normed = rms_norm(x, weight)
        return {"normed": normed, "out": gated_mlp(normed, up, gate, down)}
    finally:
        _class(_IDLE)
