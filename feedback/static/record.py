"""One compiled kernel as the report tells it."""

import hashlib
import re
import tempfile
from pathlib import Path
from typing import Any, TypedDict

from feedback.static import accesses, binary, dots, memory
from feedback.static.accesses import Used
from feedback.static.binary import Spill
from feedback.static.dots import Dot
from feedback.static.intervals import Launch
from feedback.static.memory import Width
from sandboxes.runtime import entry, identity

_TENSOR_CORE = re.compile(r"\b(?:mma\.sync|wgmma\.mma_async|tcgen05\.mma)\b")
_FMA = re.compile(r"\bfma\.rn(?:\.ftz)?(?:\.sat)?\.f32(?:x2)?\b")
_OTHER_FLOAT = re.compile(r"\b(?:mul|add|sub)(?:\.r[nzmp])?(?:\.ftz)?(?:\.sat)?\.f32(?:x2)?\b")


class Kernel(TypedDict):
    """Counts are of instructions in the code, not of executed ones; registers and stack bytes are per thread."""

    name: str
    file: str
    line: int
    source_sha256: str
    constexprs: dict[str, Any]
    signature: dict[str, str]
    num_warps: int
    num_stages: int
    shared_bytes: int
    registers: int
    stack_bytes: int
    spill_stores: int
    spill_loads: int
    tensor_core_instructions: int
    fma_instructions: int
    other_float_instructions: int
    dots: list[Dot]
    spills: list[Spill]
    widths: list[Width]
    accesses: list[Used]
    ptx_sha256: str
    cubin_sha256: str


def _constexprs(source: Any) -> dict[str, Any]:
    """Argument -> value, for constexprs and for integers that Triton specialised as 1; ``x.0`` is an element of the tuple x."""
    named = {}
    for path, value in source.constants.items():
        first, *rest = path
        named[".".join([source.fn.arg_names[first], *map(str, rest)])] = identity.plain(value)
    return named


def _spills(cubin: bytes, function: str) -> tuple[binary.Usage, list[Spill]]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        used = binary.usage(Path(file.name), function)
        return used, binary.spills(Path(file.name)) if used.has_local_memory else []


def describe(compiled: Any, launches: list[Launch]) -> Kernel:
    """The record of a triton CompiledKernel and of how it was launched; raises RuntimeError when its cubin cannot be read."""
    source, metadata, ptx = compiled.src, compiled.metadata, compiled.asm["ptx"]
    used, spills = _spills(compiled.asm["cubin"], metadata.name)
    return {
        "name": source.fn.__name__,
        "file": entry.relative(source.fn.file_name),
        "line": source.fn.def_file_line_number,
        "source_sha256": identity.source_digest(source.fn.src),
        "constexprs": _constexprs(source),
        "signature": {name: str(kind) for name, kind in source.signature.items()},
        "num_warps": metadata.num_warps,
        "num_stages": metadata.num_stages,
        "shared_bytes": metadata.shared,
        "registers": used.registers,
        "stack_bytes": used.stack_bytes,
        "spill_stores": sum(spill["stores"] for spill in spills),
        "spill_loads": sum(spill["loads"] for spill in spills),
        "tensor_core_instructions": len(_TENSOR_CORE.findall(ptx)),
        "fma_instructions": len(_FMA.findall(ptx)),
        "other_float_instructions": len(_OTHER_FLOAT.findall(ptx)),
        "dots": dots.of_kernel(compiled.asm.get("ttir", ""), compiled.asm["ttgir"]),
        "spills": spills,
        "widths": memory.widths(ptx),
        "accesses": accesses.of_kernel(compiled.asm.get("ttir", ""), launches, metadata.num_warps * 32),
        "ptx_sha256": hashlib.sha256(ptx.encode()).hexdigest(),
        "cubin_sha256": hashlib.sha256(compiled.asm["cubin"]).hexdigest(),
    }
