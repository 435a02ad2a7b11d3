"""Instrument ``bench``: evidence kind ``figures``. It runs the command once and leaves its text; the judge reads, times and concludes."""

import json
from pathlib import Path

from feedback.tests import child
from sandboxes.runtime import request

_FILE = 4 << 20
_PRINTED = 2000


def _written(path: str) -> str | None:
    """Contents of the file that the command was to write; None when it is not there, is no text, or has more than 4 MiB."""
    file = Path(request.WORKSPACE, path)
    if not path or not file.is_file() or file.stat().st_size > _FILE:
        return None
    try:
        return file.read_text()
    except UnicodeDecodeError:
        return None


def main() -> None:
    """Run the command; the nonce is written only now that the child has ended, and the child was never told it."""
    asked = request.current()
    ended = child.run(asked.args["argv"], {})
    print(ended.text[-_PRINTED:])
    report = {"nonce": asked.args["nonce"], "code": ended.code, "printed": ended.text, "file": _written(asked.args["file"])}
    asked.write_report(json.dumps(report).encode())


if __name__ == "__main__":
    main()
