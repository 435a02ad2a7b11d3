"""Instrument ``lint``: evidence kind ``report``. Advice for the model and the reviewer; no gate reads it."""

import ast
import json
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from feedback.lint import added, rules
from feedback.lint.added import Added
from feedback.lint.kept import Kept
from feedback.lint.scan import Hit, Scanner
from sandboxes.runtime import request

Finding = dict[str, Any]


def own_names(workspace: str) -> frozenset[str]:
    """Top-level modules of the workspace."""
    return frozenset(path.stem for path in Path(workspace).iterdir() if path.is_dir() or path.suffix == ".py")


def hits(path: str, text: str, own: frozenset[str], entry: dict[str, Any]) -> list[Hit]:
    """All that is worth a question in one file, old lines and new."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of an invalid escape in a string
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 1
        return [Hit("syntax_error", line, line, f"{error}: nothing of this file was read")]
    here = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return [*Scanner(own).read(module), *Kept(module, entry["callable"] if here == entry["module"] else None).read()]


def new_hits(file: Added, own: frozenset[str], entry: dict[str, Any]) -> Iterator[tuple[int, Hit]]:
    """With the line of each: those on added lines, and those on old lines of which base did not have the like.

    The second sort comes from what was added or taken away elsewhere: a thread whose join is gone.
    """
    found = hits(file.path, file.text or "", own, entry)
    before = Counter((hit.kind, hit.message) for hit in (hits(file.path, file.before, own, entry) if found and file.before else []))
    for hit in found:
        line = next((n for n in range(hit.first, hit.last + 1) if n in file.lines), None)
        if line is not None:
            yield line, hit
        elif before[hit.kind, hit.message] > 0:
            before[hit.kind, hit.message] -= 1
        else:
            yield hit.first, hit


def findings(file: Added, own: frozenset[str], entry: dict[str, Any]) -> list[Finding]:
    """One for each line and family, the gravest of them."""
    if file.text is None:
        message = "a file that is not text was added or changed: what it does cannot be read"
        place = {"type": "file", "path": file.path}
        return [{"kind": "opaque_file", "where": place, "magnitude": rules.SEVERITY["opaque_file"], "message": message}]
    if not file.path.endswith(".py"):
        return []
    found: dict[tuple[int, str], Finding] = {}
    for line, hit in new_hits(file, own, entry):
        magnitude = rules.SEVERITY[hit.kind] - hit.less
        if (line, hit.kind) not in found or found[line, hit.kind]["magnitude"] < magnitude:
            where: dict[str, Any] = {"type": "line", "path": file.path, "line": line}
            found[line, hit.kind] = {"kind": hit.kind, "where": where, "magnitude": magnitude, "message": hit.message[:300]}
    return list(found.values())


def report(args: dict[str, Any], base: dict[str, bytes]) -> dict[str, Any]:
    """Read every file that is not as at base."""
    began = time.perf_counter()
    own = own_names(request.WORKSPACE)
    files = list(added.files(request.WORKSPACE, base))
    found = sorted((f for file in files for f in findings(file, own, args["entry"])), key=lambda f: -f["magnitude"])
    counts = Counter(f["kind"] for f in found)
    lines = sum(len(file.lines) for file in files)
    said = ", ".join(f"{count} {kind}" for kind, count in counts.most_common()) or "nothing that needs a reason"
    return {
        "status": "pass",
        "headline": f"{lines} added lines in {len(files)} files: {said}"[:400],
        "findings": found[:500],
        "data": {"files": [file.path for file in files], "added_lines": lines, "seconds": time.perf_counter() - began},
    }


def main() -> None:
    """Leave the report of the request at hand."""
    asked = request.current()
    if "base" not in asked.sections:
        found = {"status": "not_run", "headline": "base's files were not given, so nobody can say which lines the patch added"}
    else:
        found = report(asked.args, added.base_files(asked.sections["base"]))
    asked.write_report(json.dumps(found).encode())


if __name__ == "__main__":
    main()
