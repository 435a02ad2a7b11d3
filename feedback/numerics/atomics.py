"""``tl.atomic_add`` of floating values: what memory holds afterwards, beside the float64 sum of all that was ever added to it.

Other atomics, and sums of types that the interpreter does not add as numbers, start anew and are named.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from triton._C.libtriton import interpreter as native
from triton._C.libtriton import ir

from feedback.numerics.shadow import Record, best, drop, exact, is_float, note

Array = np.ndarray
Method = Callable[..., Any]


def rmw(record: Record, plain: Method) -> Method:
    """InterpreterBuilder.create_atomic_rmw."""

    def method(builder: Any, op: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        chosen = np.asarray(mask.data)
        if op != ir.ATOMIC_OP.FADD or value.data.dtype.kind != "f" or not chosen.any():
            result = plain(builder, op, pointers, value, mask, *rest)
            if is_float(value) and chosen.any():
                drop(record, f"atomic_add of {value.dtype.scalar.name}" if op == ir.ATOMIC_OP.FADD else "")
            return result
        before = _read(pointers.data, chosen, value.data)
        result = plain(builder, op, pointers, value, mask, *rest)
        history = _add(record, pointers, value, chosen, before)
        if history is not None:
            result.shadow = np.where(chosen, history, exact(result))
        return result

    return method


def _read(addresses: Array, mask: Array, like: Array) -> Array:
    """What memory holds at ``addresses``, zero where masked off."""
    found: Array = native.load(addresses, mask, np.zeros(addresses.shape, like.dtype), like.dtype)
    return found


def _add(record: Record, pointers: Any, value: Any, mask: Array, before: Array) -> Array | None:
    """Note the sums and remember their shadows; returns that of the old values, None when none of them had a history."""
    element = pointers.get_element_ty().name
    addresses, given, wide = pointers.data, exact(value), best(value)
    held = before.astype(np.float64)
    old = record.memory.load(addresses, mask, element, before.view(f"u{before.itemsize}"), held)
    start = held if old is None else old
    places, first, group = np.unique(addresses[mask], return_index=True, return_inverse=True)
    after = _read(places, np.ones(places.shape, bool), value.data)
    local, shadow = (
        base[mask][first] + np.bincount(group, np.broadcast_to(added, mask.shape)[mask], len(places))
        for base, added in ((held, given), (start, wide))
    )
    record.memory.store(places, np.ones(places.shape, bool), element, after.view(f"u{after.itemsize}"), shadow)
    note(record, "atomic_add", value.dtype.scalar.name, after.astype(np.float64), local, shadow)
    if old is None and len(places) == int(mask.sum()):
        return None
    returned: Array = start.copy()  # masked-off elements hold nothing: the interpreter leaves them undefined
    returned[mask] += _earlier(group, np.broadcast_to(wide, mask.shape)[mask])
    return returned


def _earlier(group: Array, added: Array) -> Array:
    """For each element, the sum of those before it that went to the same place."""
    order = np.argsort(group, kind="stable")
    running = np.cumsum(added[order]) - added[order]
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    lengths = np.diff(np.append(starts, len(order)))
    found: Array = np.empty_like(running)
    found[order] = running - np.repeat(running[starts], lengths)
    return found
