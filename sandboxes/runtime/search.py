"""Find a regular expression in the workspace: one ``path:line: text`` a hit, on standard output."""

import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path

from sandboxes.runtime import request

MOST_HITS = 500
WIDTH = 200


def main() -> int:
    """Print the hits; exit status 2 for a pattern that is not one."""
    args = request.current().args
    try:
        pattern = re.compile(args["pattern"])
    except re.error as error:
        print(f"pattern: {error}")
        return 2
    hits = 0
    for path in sorted(Path(request.WORKSPACE).rglob("*")):
        name = path.relative_to(request.WORKSPACE).as_posix()
        if path.is_file() and fnmatchcase(name, args["glob"]):
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                if pattern.search(line) and hits < MOST_HITS:
                    hits += 1
                    print(f"{name}:{number}: {line.strip()[:WIDTH]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
