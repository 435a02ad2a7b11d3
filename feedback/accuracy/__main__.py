"""Instrument ``accuracy``: evidence kind ``tensors``. What it concludes is nothing: the judge compares the bytes."""

import json
import os
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sandboxes.runtime import entry, request, tensors
from sandboxes.runtime.request import Request


def call(asked: Request, around: AbstractContextManager[object]) -> dict[str, Any]:
    """One call of the entry; outputs into the judge's slots. Returns what it took, what is missing, and inputs that it overwrote."""
    arrays, mutates = tensors.read(asked.sections["inputs"]), asked.args["entry"].get("mutates", [])
    function = entry.load(asked.args)
    sums = entry.checksums(arrays, mutates)
    began = time.perf_counter()
    outputs = entry.call(function, arrays, mutates, around)
    seconds = time.perf_counter() - began
    problems = tensors.fill_slots(asked, outputs)
    after = entry.checksums(arrays, mutates)
    return {
        "entry_s": seconds, "problems": problems, "loaded": entry.loaded_files(),
        "changed": [name for name, value in sums.items() if after[name] != value],
    }  # fmt: skip


def call_emulated(asked: Request) -> dict[str, Any]:
    """The same on Triton's interpreter: besides, which kernels and dots ran, and whether the emulator is intact.

    Where results are put off, what was computed outside of them is watched as well: that costs more than a second of imports.
    """
    from sandboxes.runtime import hostwork, interpreter, launches

    interpreter.install()
    perturbed = asked.args.get("perturbed")
    watch = hostwork.Watch() if perturbed else None
    if perturbed:
        launches.perturb(perturbed["what"], perturbed["share"])
    launched = launches.watch()
    report = call(asked, watch or nullcontext())
    report["host_work"] = sorted(watch.seen) if watch else []
    report["launches"] = [json.loads(about) for about in sorted(launched.kernels)]
    report["dots"] = [{**dot, "file": entry.relative(dot["file"])} for dot in interpreter.dots_by_line()]
    report["intact"] = launched.intact and interpreter.fingerprint() == launched.known
    return report


def main() -> None:
    """One call, and a report of it beside the outputs."""
    asked = request.current()
    report = call_emulated(asked) if os.environ.get("TRITON_INTERPRET") else call(asked, nullcontext())
    asked.write_report(json.dumps(report).encode())


if __name__ == "__main__":
    main()
