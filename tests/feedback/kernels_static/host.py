"""Host code that does more than launch: autotuning, heuristics, device properties, compiling ahead."""

import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x_ptr + i, tl.load(x_ptr + i) + 1.0)
    else:
        tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1.0, mask=i < n)


@triton.jit
def persistent(x_ptr, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, PROGRAMS * BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.store(x_ptr + i, tl.load(x_ptr + i) * 2.0)


def autotuned(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Two configurations, of which the first is compiled."""
    tuned[lambda meta: (triton.cdiv(len(x), meta["BLOCK"]),)](x, len(x))
    return {"x": x}


def compiled_ahead(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """A kernel sized by the device's multiprocessors, compiled first and launched from the compiled object."""
    device = triton.runtime.driver.active
    programs = device.utils.get_device_properties(device.get_current_device())["multiprocessor_count"]
    kernel = persistent.warmup(x, len(x), PROGRAMS=programs, BLOCK=128, grid=(programs,))
    kernel[(programs, 1, 1)](x, len(x), programs, 128)
    return {"x": x}
