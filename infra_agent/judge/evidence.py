"""Read what comes out of a cage: bytes that may be anything become checked values, or an error of ours."""

import json
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from infra_agent.errors import UsageError
from infra_agent.frozen import one_line

_MOST_NAME = 200


def tensors(data: bytes, where: str) -> dict[str, np.ndarray]:
    """Name -> array of safetensors bytes. Raises UsageError, which begins with ``where``, for whatever is not that."""
    try:
        arrays = load(data)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise UsageError(f"{where}: not safetensors: {one_line(error)[:200]}") from error
    for name in arrays:
        parts = name.split("/")
        if len(name) > _MOST_NAME or not name.isprintable() or {"", ".", ".."} & set(parts):
            raise UsageError(f"{where}: a tensor is called {name[:40]!r}: plain names, with / between groups, are expected")
    return arrays


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON's")


def document(data: bytes, where: str) -> Any:
    """A JSON document. Raises UsageError, which begins with ``where``, for whatever is not that."""
    try:
        return json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {one_line(error)[:200]}") from error
