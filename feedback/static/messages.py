"""Errors in one line that names a file and a line of the workspace, followed by what was said."""

import traceback
from typing import Any

from triton.compiler.errors import CompilationError
from triton.runtime import jit
from triton.runtime.errors import PTXASError

from feedback.static import ptxas
from sandboxes.runtime import entry
from sandboxes.runtime.request import WORKSPACE

_MOST = 2000  # characters: ptxas may say the same of a hundred lines


def _innermost(error: BaseException) -> CompilationError | None:
    """The compilation error nearest to the fault: one in a called function is wrapped once per call."""
    found: CompilationError | None = None
    link: BaseException | None = error
    while link is not None:
        found = link if isinstance(link, CompilationError) else found
        link = link.__cause__
    return found


def _compilation_place(kernel: Any, error: CompilationError) -> tuple[str, int]:
    """File and line of the statement the compiler was at; Triton counts lines from the ``def`` of the function it was in."""
    functions = [kernel, *jit._triton_jit_function_registry.values()]
    function = next((one for one in functions if one.src == error.src), kernel)
    return function.file_name, function.def_file_line_number + getattr(error.node, "lineno", 1) - 1


def of_compilation(kernel: Any, error: Exception) -> str:
    """What stopped the compilation of ``kernel``, a JITFunction."""
    file, line, said = kernel.file_name, kernel.def_file_line_number, str(error)
    fault = _innermost(error)
    if fault is not None:
        file, line = _compilation_place(kernel, fault)
        said = fault.error_message or said
    elif isinstance(error, PTXASError):
        place, said = ptxas.explain(said)
        file, line = (place.file, place.line) if place.line else (file, line)
    return f"{entry.relative(file)}:{line}: {type(fault or error).__name__}: {said}"[:_MOST]


def of_entry(error: BaseException) -> str:
    """What stopped the entry, at the last line of the workspace that was running."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(WORKSPACE + "/")]
    place = f"{entry.relative(frames[-1].filename)}:{frames[-1].lineno}: " if frames else ""
    return f"{place}{type(error).__name__}: {error}"[:_MOST]
