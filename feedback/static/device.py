"""The GPU that is not there: what Triton and host code ask of a driver, answered from a table; launches do nothing."""

from dataclasses import dataclass
from typing import Any

import torch
from triton.backends.compiler import GPUTarget

# Multiprocessors and shared memory per block in bytes. NVIDIA A100, H100 (SXM) and B200 data sheets; CUDA C++
# Programming Guide, "Technical Specifications per Compute Capability".
_DEVICES = {80: (108, 166912), 90: (132, 232448), 100: (148, 232448)}
_PREFIX = "sm_"


def architecture(target: str) -> int:
    """90 for "sm_90"; raises ValueError naming the targets there are."""
    known = {f"{_PREFIX}{number}": number for number in _DEVICES}
    if target not in known:
        raise ValueError(f"target {target!r}; one of {', '.join(known)} is expected")
    return known[target]


def shared_bytes(target: str) -> int:
    """Shared memory that a block may use on ``target``; raises ValueError like :func:`architecture`."""
    return _DEVICES[architecture(target)][1]


@dataclass(frozen=True)
class Utilities:
    """What Triton and persistent kernels ask of ``driver.active.utils``."""

    arch: int

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Figures by which host code sizes a grid or prunes configurations."""
        multiprocessors, shared = _DEVICES[self.arch]
        return {
            "multiprocessor_count": multiprocessors,
            "max_shared_mem": shared,
            "max_num_regs": 65536,
            "warpSize": 32,
        }

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[None, None, int, int, int]:
        """Module, function, registers, spills, threads: nothing is loaded; 255 is the most registers a thread can have."""
        return None, None, 255, 0, 1024


class Driver:
    """Stands in for Triton's CUDA driver."""

    def __init__(self, arch: int) -> None:
        self.utils = Utilities(arch)

    def get_current_target(self) -> GPUTarget:
        """What the compiler compiles for."""
        return GPUTarget("cuda", self.utils.arch, 32)

    def get_current_device(self) -> int:
        """There is one device."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The default stream."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """(9, 0) for sm_90."""
        return divmod(self.utils.arch, 10)

    def get_active_torch_device(self) -> torch.device:
        """Tensors live on the CPU: nothing will read them."""
        return torch.device("cpu")

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        """A launcher that launches nothing, for host code that calls a compiled kernel itself."""
        return lambda *args, **kwargs: None
