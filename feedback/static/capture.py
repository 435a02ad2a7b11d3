"""Run the entry with every kernel launch replaced by a compilation; nothing is launched."""

import contextlib
import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from feedback.static import messages
from feedback.static.device import Driver
from feedback.static.intervals import Launch
from sandboxes.runtime import autotune, entry

_MOST_LAUNCHES = 16
"""Launches of one kernel whose offsets are bounded: each costs milliseconds, and a loop may launch thousands."""
_ALIGNMENT = 512  # bytes: what torch's CUDA allocator gives, and Triton specialises on the 16 of it


@dataclass
class Captured:
    """What the launches became. ``kernels`` holds Triton's CompiledKernel objects in order of first launch."""

    kernels: dict[tuple[str, int, str], Any] = field(default_factory=dict)
    launches: dict[tuple[str, int, str], list[Launch]] = field(default_factory=dict)
    errors: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compile_s: float = 0.0

    def add(self, function: Any, compiled: Any, launch: Launch | None) -> None:
        """Keep a kernel once for every signature, divisibility, constexprs and options it was compiled with."""
        key = (function.file_name, function.def_file_line_number, compiled.hash)
        self.kernels.setdefault(key, compiled)
        known = self.launches.setdefault(key, [])
        if launch is None or launch in known:
            return
        if len(known) < _MOST_LAUNCHES:
            known.append(launch)
        else:
            self.say(
                f"{function.__name__} is launched with more than {_MOST_LAUNCHES} sets of arguments: offsets are bounded for the first"
            )

    def say(self, note: str) -> None:
        """Note what the figures do not cover; a launch in a loop says it once."""
        if note not in self.notes:
            self.notes.append(note)

    def fail(self, kernel: str, message: str) -> None:
        """Note what the report cannot vouch for; a launch in a loop says it once."""
        said = {"kernel": kernel, "message": message}
        if said not in self.errors:
            self.errors.append(said)


def _launch(function: Any, args: Sequence[Any], grid: Any, kwargs: Mapping[str, Any]) -> Launch:
    """What a launch says of its integers, its grid and the placement of its pointers."""
    own = {name: value for name, value in kwargs.items() if name in function.arg_names}
    bound = function.signature.bind_partial(*args, **own)
    bound.apply_defaults()
    integers = {name: int(value) for name, value in bound.arguments.items() if isinstance(value, (bool, int, np.integer))}
    misaligned = {name: value.data_ptr() % 16 for name, value in bound.arguments.items() if hasattr(value, "data_ptr")}
    sizes = grid({**bound.arguments, **kwargs}) if callable(grid) else grid
    known = [int(size) for size in (sizes if isinstance(sizes, (tuple, list)) else (sizes,))] if sizes is not None else [None] * 3
    x, y, z = (*known, 1, 1)[:3]
    return Launch(integers, (x, y, z), misaligned)


class _Recorder:
    """Takes the place of a JITFunction's run: specialises and compiles as ``stock`` does, launches nothing, and never raises."""

    def __init__(self, stock: Callable[..., Any]) -> None:
        self._stock = stock
        self.captured = Captured()

    def run(self, function: Any, args: Sequence[Any], grid: Any, kwargs: dict[str, Any]) -> Any:
        """The compiled kernel, None when it does not compile."""
        captured = self.captured
        printed, began = io.StringIO(), time.perf_counter()
        try:
            # after a ptxas error Triton prints the whole PTX: megabytes that could end the request, and the message says it
            with contextlib.redirect_stdout(printed):
                compiled = self._stock(function, *args, grid=grid, warmup=True, **kwargs)
            if compiled is not None:
                captured.add(function, compiled, self._launched(function, args, grid, kwargs))
        except Exception as error:
            captured.fail(function.__name__, messages.of_compilation(function, error))
            return None
        finally:
            captured.compile_s += time.perf_counter() - began
        print(printed.getvalue(), end="")  # what tl.static_print said
        return compiled

    def _launched(self, function: Any, args: Sequence[Any], grid: Any, kwargs: Mapping[str, Any]) -> Launch | None:
        """How it was launched; None, and a note, when that cannot be told: the figures of the binary hold all the same."""
        try:
            return _launch(function, args, grid, kwargs)
        except Exception as error:
            self.captured.say(f"{function.__name__}: offsets are not bounded, its launch cannot be read ({type(error).__name__}: {error})")
            return None

    def install(self) -> None:
        """From now on every launch of the process comes here."""

        def run(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            return self.run(function, args, grid, kwargs)

        JITFunction.run = run


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy at an address a device allocation could have: an address decides how a kernel is specialised."""
    memory = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _parsed(shapes: str) -> dict[str, tuple[int, ...]]:
    """{"x": (4096, 128)} of "x=4096x128,w=128"; raises ValueError."""
    parts = [part.strip().partition("=") for part in shapes.split(",") if part.strip()]
    try:
        return {name: tuple(int(size) for size in sizes.split("x")) for name, _, sizes in parts}
    except ValueError as error:
        raise ValueError(f"shapes {shapes!r}: NAME=SIZExSIZE,NAME=SIZE is expected") from error


def _on_meta(args: dict[str, Any], arrays: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]]) -> None:
    """Call the entry on tensors that have a shape and no memory, so that a small case stands for a large one."""
    import torch

    unknown = shapes.keys() - arrays.keys()
    if unknown:
        raise ValueError(f"shapes: no input {', '.join(sorted(unknown))}; inputs are {', '.join(arrays)}")
    with torch.device("meta"):
        tensors = {name: torch.empty(shapes.get(name, array.shape), dtype=torch.from_numpy(array).dtype) for name, array in arrays.items()}
        entry.load(args)(**tensors)


def run_entry(args: dict[str, Any], arrays: dict[str, np.ndarray], arch: int, shapes: str = "") -> tuple[Captured, Captured]:
    """Load and call the entry of ``args`` on ``arrays`` for a GPU of ``arch``; what it raises becomes an error of the result.

    The second result is of the entry called once more on inputs of other ``shapes``, written x=4096x128,w=128; empty without.
    Kernels leave their outputs uninitialised. The process stays patched: it serves one request.
    """
    wanted = _parsed(shapes)
    driver.set_active(Driver(arch))  # before the entry is imported: modules ask for the device at import
    recorder = _Recorder(JITFunction.run)
    recorder.install()
    captured = recorder.captured
    autotune.take_first(captured.say)
    where = f"{args['entry']['module']}:{args['entry']['callable']}"
    try:
        entry.call(entry.load(args), {name: _aligned(array) for name, array in arrays.items()})
    except (Exception, SystemExit) as error:
        captured.fail(where, messages.of_entry(error))
    recorder.captured = other = Captured()
    try:
        if wanted:
            _on_meta(args, arrays, wanted)
    except (Exception, SystemExit) as error:
        other.fail(where, messages.of_entry(error))
    return captured, other
