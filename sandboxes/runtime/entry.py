"""Load the task's entry point from the workspace and call it on numpy arrays."""

import hashlib
import importlib
import sys
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from sandboxes.runtime.request import WORKSPACE

Entry = Callable[..., dict[str, Any]]
_NOTHING: AbstractContextManager[object] = nullcontext()


def load(args: dict[str, Any]) -> Entry:
    """The callable of ``args["entry"] = {"module", "callable"}``."""
    where = args["entry"]
    return getattr(importlib.import_module(where["module"]), where["callable"])  # type: ignore[no-any-return]


def call(
    entry: Entry, arrays: dict[str, np.ndarray], mutates: Sequence[str] = (), around: AbstractContextManager[object] = _NOTHING
) -> dict[str, np.ndarray]:
    """``entry(**inputs)`` with torch tensors that share the arrays' memory; outputs as numpy arrays.

    ``around`` holds while the entry runs, and only then. A stage in ``mutates`` is read from the input's own memory: what was written
    elsewhere was not written in place.
    Raises TypeError when the entry does not return a dict of plain tensors: a subclass could compute later.
    """
    import torch

    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    with around:
        outputs = entry(**tensors)
    if type(outputs) is not dict:
        raise TypeError(f"the entry returned {type(outputs).__name__}, a dict of tensors is expected")
    for name, value in outputs.items():
        if type(value) is not torch.Tensor:
            raise TypeError(f"stage {name}: {type(value).__name__}, a plain torch.Tensor is expected")
    return {name: value.detach().numpy() for name, value in outputs.items()} | {name: arrays[name] for name in mutates}


def checksums(arrays: dict[str, np.ndarray], mutates: Sequence[str]) -> dict[str, int]:
    """Of every input that must stay as it is."""
    return {name: zlib.crc32(array.data.cast("B")) if array.size else 0 for name, array in arrays.items() if name not in mutates}


def relative(path: str) -> str:
    """A file of the workspace as the task names it; other paths unchanged."""
    return path.removeprefix(WORKSPACE + "/")


def innermost(frame: FrameType | None) -> tuple[str, int] | None:
    """File and line of the innermost code of the workspace that a frame came from."""
    while frame:
        path = frame.f_code.co_filename
        if path.startswith(WORKSPACE + "/"):
            return relative(path), frame.f_lineno
        frame = frame.f_back
    return None


def loaded_files() -> dict[str, str]:
    """Workspace file -> sha256 of what was imported from it: what ran is what was changed."""
    digests = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path and path.startswith(WORKSPACE + "/"):
            digests[relative(path)] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return digests
