"""Files that a command leaves."""

import filecmp
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from infra_agent.errors import UsageError


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that is there whole or not at all, and takes no other's place. Raises UsageError when there is another one of that name."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(scratch, "xb") as file:
            yield file
        path.hardlink_to(scratch)  # unlike a rename it takes no other file's place
    except FileExistsError as error:
        if not path.is_file() or not filecmp.cmp(path, scratch, shallow=False):
            raise UsageError(f"{path} is there already, and is something else; name another file") from error
    finally:
        scratch.unlink(missing_ok=True)
