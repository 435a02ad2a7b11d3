"""File trees as plain data: path -> bytes. The host builds what enters a cage from these, never from a cage's disk."""

import io
import tarfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from infra_agent import canonical

Tree = Mapping[str, bytes]
T = TypeVar("T")

_SKIPPED = {"__pycache__", ".git", ".pytest_cache"}


def read_folder(folder: Path) -> dict[str, bytes]:
    """Every regular file under ``folder``, links and caches left out."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_symlink())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files if not _SKIPPED & set(p.relative_to(folder).parts)}


def digest(tree: Tree) -> str:
    """SHA-256 over paths and contents."""
    return canonical.digest_of({path: canonical.digest(data) for path, data in tree.items()})


def pack(tree: Tree) -> bytes:
    """An uncompressed tar with fixed owner, mode and time: equal trees give equal bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(tree):
            info = tarfile.TarInfo(path)
            info.size = len(tree[path])
            info.mode = 0o644
            archive.addfile(info, io.BytesIO(tree[path]))
    return buffer.getvalue()


def plain(path: str) -> bool:
    """A path inside the workspace as git would print it: relative, no empty or dotted part, nothing to quote or to hide."""
    parts = path.split("/")
    return bool(path) and path.isprintable() and not set(path) & set('"\\') and not {"", ".", ".."} & set(parts)


def matches(path: str, globs: Sequence[str]) -> bool:
    """True when ``path`` matches one of ``globs``; ``**`` spans folders, ``*`` does too (as fnmatch has it)."""
    return any(fnmatchcase(path, pattern) or (pattern.endswith("/**") and path.startswith(pattern[:-2])) for pattern in globs)


def with_protected(tree: Mapping[str, T], base: Mapping[str, T], globs: Sequence[str]) -> dict[str, T]:
    """The files of ``tree`` with base's protected ones: tests are base's whatever was done to them. Files may be bytes or digests."""
    own = {path: data for path, data in tree.items() if not matches(path, globs) or path in base}
    return own | {path: data for path, data in base.items() if matches(path, globs)}
