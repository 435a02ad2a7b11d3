"""What an entry has torch compute between its launches: it is not counted, so it is named."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from feedback.opcount.ledger import Ledger

_MAKES_NOTHING = ("empty", "new_empty", "detach")


class HostWork(TorchFunctionMode):  # type: ignore[misc]  # torch is skipped by the type checker
    """While it lasts, ``seen`` gathers the names of torch functions outside launches that filled memory; views and allocations do not.

    A mode of functions, as one of operations imports torch._dynamo, which takes a second.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger
        self.seen: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result, name = func(*args, **(kwargs or {})), getattr(func, "__name__", "?")
        in_place = name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or "out" in (kwargs or {})
        if not self._ledger.launching and (in_place or (not name.startswith(_MAKES_NOTHING) and _is_new(result, args))):
            self.seen.add(f"torch {name.strip('_')} on the host")
        return result


def _is_new(result: Any, args: Any) -> bool:
    """Has a tensor of the result memory that none of the arguments has?"""
    results = [value for value in (result if isinstance(result, tuple | list) else (result,)) if isinstance(value, torch.Tensor)]
    given = [one for value in args for one in (value if isinstance(value, tuple | list) else (value,)) if isinstance(one, torch.Tensor)]
    known = {value.untyped_storage().data_ptr() for value in given}
    return any(value.untyped_storage().data_ptr() not in known for value in results)
