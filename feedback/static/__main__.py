"""Instrument ``static``: evidence kind ``static``. What it concludes is nothing: the judge holds the figures to limits."""

import json
import time

from feedback.static import accesses, capture, device, record, sass
from sandboxes.runtime import entry, request, tensors


def _compiled(asked: request.Request, target: str) -> dict[str, object]:
    """Compile what the entry launches, then describe each kernel; where the seconds went is printed, not reported."""
    began = time.perf_counter()
    inputs = tensors.read(asked.sections["inputs"])
    captured, other = capture.run_entry(asked.args, inputs, device.architecture(target), asked.args.get("shapes", ""))
    captured_at = time.perf_counter()
    kernels: list[record.Kernel] = []
    for key, compiled in captured.kernels.items():
        try:
            kernels.append(record.describe(compiled, captured.launches[key]))
        except RuntimeError as error:
            captured.fail(compiled.src.fn.__name__, str(error))
    at_shapes = [
        {
            "name": one.src.fn.__name__,
            "accesses": accesses.of_kernel(one.asm.get("ttir", ""), other.launches[key], one.metadata.num_warps * 32),
        }
        for key, one in other.kernels.items()
    ]
    ended = time.perf_counter()
    print(
        f"compiled {len(captured.kernels)} kernels in {captured.compile_s:.2f} s, the rest of the entry took "
        f"{captured_at - began - captured.compile_s:.2f} s, reading the binaries {ended - captured_at:.2f} s"
    )
    notes = captured.notes + [f"at the shapes asked for: {error['message']}" for error in other.errors]
    return {"kernels": kernels, "errors": captured.errors, "notes": notes, "at_shapes": at_shapes, "loaded": entry.loaded_files()}


def _handed_in(cubin: str) -> dict[str, object]:
    """Describe a cubin of the workspace; one that cannot be read is an error of the report."""
    try:
        return {"kernels": [], "binaries": sass.describe(cubin)}
    except (ValueError, RuntimeError) as error:
        return {"kernels": [], "errors": [{"kernel": cubin, "message": str(error)}]}


def main() -> None:
    """Describe the cubin that was named, or the kernels that the entry launches."""
    asked = request.current()
    target, cubin = asked.args["target"], asked.args.get("cubin", "")
    found = _handed_in(cubin) if cubin else _compiled(asked, target)
    report = {"target": target, "max_shared_bytes": device.shared_bytes(target)} | found
    asked.write_report(json.dumps(report).encode())


if __name__ == "__main__":
    main()
