"""Watch what an entry computes outside its kernels: matrix products by a library, and tensors that leave for the host.

On a GPU the latter would fail; here, where tensors lie in the host's memory, it would be a way around the kernels.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import triton
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = frozenset(
    f"aten::{name}"
    for name in (
        "mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "addr", "convolution", "linalg_solve_triangular",
        "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math", "_addmm_activation", "mkldnn_linear",
    )
)  # fmt: skip


_WAYS_OUT = ("numpy", "__array__", "__dlpack__", "storage", "untyped_storage", "data_ptr")
_INSIDE = (*(f"{Path(str(module.__file__)).parent}/" for module in (torch, triton)), f"{Path(__file__).resolve().parents[2]}/")
_ELSEWHERE = 1 << 56
"""What an address is off by for an entry: as on a GPU, it can be counted with and not be read."""


class HostWorkError(ValueError):
    """An entry did outside its kernels what the task wants done in them."""


class Watch(TorchDispatchMode):  # type: ignore[misc]  # torch is skipped by the type checker
    """While it lasts, ``seen`` gathers the names of products and of ways out. It is looked at after the call."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in PRODUCTS:
            self.seen.add(func._schema.name)
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> "Watch":
        self._stock = {name: getattr(torch.Tensor, name) for name in _WAYS_OUT}
        for name, stock in self._stock.items():
            setattr(torch.Tensor, name, _moved(stock) if name == "data_ptr" else self._noting(name, stock))
        super().__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        for name, stock in self._stock.items():
            setattr(torch.Tensor, name, stock)

    def _noting(self, name: str, stock: Callable[..., Any]) -> Callable[..., Any]:
        def leave(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if _asked_outside():
                self.seen.add(f"Tensor.{name}")
            return stock(tensor, *args, **kwargs)

        return leave


@contextmanager
def forbidden() -> Iterator[None]:
    """Raises HostWorkError at the end when anything was seen."""
    with Watch() as watch:
        yield
    if watch.seen:
        raise HostWorkError(f"besides its kernels the entry uses {', '.join(sorted(watch.seen))}")


def _moved(stock: Callable[..., int]) -> Callable[..., int]:
    return lambda tensor: stock(tensor) + (_ELSEWHERE if _asked_outside() else 0)


def _asked_outside() -> bool:
    """Was it neither torch nor Triton nor this package that called?"""
    return not sys._getframe(2).f_code.co_filename.startswith(_INSIDE)
