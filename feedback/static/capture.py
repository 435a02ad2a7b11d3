"""Run the entry with every kernel launch replaced by a compilation; nothing is launched."""

import contextlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from feedback.static import messages
from feedback.static.device import Driver
from sandboxes.runtime import autotune, entry

_ALIGNMENT = 512  # bytes: what torch's CUDA allocator gives, and Triton specialises on the 16 of it


@dataclass
class Captured:
    """What the launches became. ``kernels`` holds Triton's CompiledKernel objects in order of first launch."""

    kernels: dict[tuple[str, int, str], Any] = field(default_factory=dict)
    errors: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compile_s: float = 0.0

    def add(self, function: Any, compiled: Any) -> None:
        """Keep a kernel once for every signature, divisibility, constexprs and options it was compiled with."""
        self.kernels.setdefault((function.file_name, function.def_file_line_number, compiled.hash), compiled)

    def say(self, note: str) -> None:
        """Note what the figures do not cover; a launch in a loop says it once."""
        if note not in self.notes:
            self.notes.append(note)

    def fail(self, kernel: str, message: str) -> None:
        """Note what the report cannot vouch for; a launch in a loop says it once."""
        said = {"kernel": kernel, "message": message}
        if said not in self.errors:
            self.errors.append(said)


def _compile_only(stock: Callable[..., Any], captured: Captured) -> Callable[..., Any]:
    """A JITFunction.run that specialises and compiles as ``stock`` does, returns without launching, and never raises."""

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        printed, began = io.StringIO(), time.perf_counter()
        try:
            # after a ptxas error Triton prints the whole PTX: megabytes that could end the request, and the message says it
            with contextlib.redirect_stdout(printed):
                compiled = stock(self, *args, grid=grid, warmup=True, **kwargs)
        except Exception as error:
            captured.fail(self.__name__, messages.of_compilation(self, error))
            return None
        finally:
            captured.compile_s += time.perf_counter() - began
        print(printed.getvalue(), end="")  # what tl.static_print said
        if compiled is not None:
            captured.add(self, compiled)
        return compiled

    return run


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy at an address a device allocation could have: an address decides how a kernel is specialised."""
    memory = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def run_entry(args: dict[str, Any], arrays: dict[str, np.ndarray], arch: int) -> Captured:
    """Load and call the entry of ``args`` on ``arrays`` for a GPU of ``arch``; what it raises becomes an error of the result.

    Kernels leave their outputs uninitialised. The process stays patched: it serves one request.
    """
    captured = Captured()
    driver.set_active(Driver(arch))  # before the entry is imported: modules ask for the device at import
    JITFunction.run = _compile_only(JITFunction.run, captured)
    autotune.take_first(captured.say)
    try:
        entry.call(entry.load(args), {name: _aligned(array) for name, array in arrays.items()})
    except (Exception, SystemExit) as error:
        where = args["entry"]
        captured.fail(f"{where['module']}:{where['callable']}", messages.of_entry(error))
    return captured
