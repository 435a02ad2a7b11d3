"""Tensors in and out of a request: numpy views of the input section, writes into poisoned slots."""

import json
import struct
from typing import Any

import numpy as np

from sandboxes.runtime.request import Request

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}


def read(section: memoryview) -> dict[str, np.ndarray]:
    """Views of a safetensors section; writable, private to this request."""
    (size,) = struct.unpack_from("<Q", section)
    head = json.loads(bytes(section[8 : 8 + size]))
    arrays = {}
    for name, entry in head.items():
        if name == "__metadata__":
            continue
        start, stop = entry["data_offsets"]
        data = section[8 + size + start : 8 + size + stop]
        arrays[name] = np.frombuffer(data, dtype=_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def write(arrays: dict[str, np.ndarray]) -> bytes:
    """Safetensors bytes of little-endian, contiguous arrays."""
    head: dict[str, Any] = {}
    parts, offset = [], 0
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).tobytes()
        head[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [offset, offset + len(data)]}
        parts.append(data)
        offset += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def fill_slots(request: Request, outputs: dict[str, np.ndarray], first: str = "") -> dict[str, str]:
    """Copy each named output into its slot; returns stage -> why it could not be copied.

    ``first`` is what slots are called before the stage, as ``3/`` for the fourth of several sets. A slot that is not filled keeps the
    host's poison, so the host sees a missing stage whatever is said here.
    """
    problems = {}
    for name, slot in request.slots.items():
        if not name.startswith(first):
            continue
        stage = name[len(first) :]
        if stage not in outputs:
            problems[stage] = "not returned"
            continue
        array = np.asarray(outputs[stage])
        if array.dtype != np.dtype(_DTYPES[slot["dtype"]]):
            problems[stage] = f"dtype {array.dtype}, {slot['dtype']} expected"
        elif list(array.shape) != slot["shape"]:
            problems[stage] = f"shape {list(array.shape)}, {slot['shape']} expected"
        else:
            data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
            target = np.frombuffer(request.sink, dtype=np.uint8, count=data.nbytes, offset=slot["offset"])
            target[:] = data
    return problems
