"""Instrument ``static``: evidence kind ``static``. What it concludes is nothing: the judge holds the figures to limits."""

import json
import time

from feedback.static import capture, device, record
from sandboxes.runtime import entry, request, tensors


def main() -> None:
    """Compile what the entry launches, then describe each kernel; where the seconds went is printed, not reported."""
    asked = request.current()
    target = asked.args["target"]
    began = time.perf_counter()
    captured = capture.run_entry(asked.args, tensors.read(asked.sections["inputs"]), device.architecture(target))
    captured_at = time.perf_counter()
    kernels: list[record.Kernel] = []
    for compiled in captured.kernels.values():
        try:
            kernels.append(record.describe(compiled))
        except RuntimeError as error:
            captured.fail(compiled.src.fn.__name__, str(error))
    report = {"target": target, "kernels": kernels, "errors": captured.errors}
    report |= {"notes": captured.notes, "loaded": entry.loaded_files()}
    asked.write_report(json.dumps(report).encode())
    ended = time.perf_counter()
    print(
        f"compiled {len(captured.kernels)} kernels in {captured.compile_s:.2f} s, the rest of the entry took "
        f"{captured_at - began - captured.compile_s:.2f} s, reading the binaries {ended - captured_at:.2f} s"
    )


if __name__ == "__main__":
    main()
