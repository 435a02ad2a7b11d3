"""Watch what an entry computes outside its kernels: matrix products by a library, and tensors that leave for numpy.

On a GPU the latter would fail; here, where tensors lie in the host's memory, it would be a way around the kernels.
"""

from types import TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = frozenset(
    f"aten::{name}"
    for name in (
        "mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "addr", "convolution", "linalg_solve_triangular",
        "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math", "_addmm_activation", "mkldnn_linear",
    )
)  # fmt: skip


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
        self._ways_out = {name: getattr(torch.Tensor, name) for name in ("numpy", "__array__")}
        for name, stock in self._ways_out.items():
            setattr(torch.Tensor, name, self._noting(name, stock))
        super().__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        for name, stock in self._ways_out.items():
            setattr(torch.Tensor, name, stock)

    def _noting(self, name: str, stock: Any) -> Any:
        def leave(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            self.seen.add(f"Tensor.{name}")
            return stock(tensor, *args, **kwargs)

        return leave
