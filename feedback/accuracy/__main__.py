"""Instrument ``accuracy``: evidence kind ``tensors``. What it concludes is nothing: the judge compares the bytes."""

import json
import time

from sandboxes.runtime import entry, interpreter, request, tensors


def main() -> None:
    """One call of the entry; outputs into the judge's slots, then what ran and which dots it ran."""
    asked = request.current()
    interpreter.install()
    if asked.args.get("without_kernels"):
        interpreter.disable_launches()
    arrays = tensors.read(asked.sections["inputs"])
    before = interpreter.fingerprint()
    function = entry.load(asked.args)
    began = time.perf_counter()
    outputs = entry.call(function, arrays)
    seconds = time.perf_counter() - began
    problems = tensors.fill_slots(asked, outputs)
    dots = [{**dot, "file": entry.relative(dot["file"])} for dot in interpreter.dots_by_line()]
    report = {"entry_s": seconds, "problems": problems, "dots": dots, "loaded": entry.loaded_files()}
    report["intact"] = interpreter.fingerprint() == before
    asked.write_report(json.dumps(report).encode())


if __name__ == "__main__":
    main()
