"""A session as one file, ``.tar.zst``: written the same every time, and read from anywhere as what it is, input that nobody vouches for.

Its first member, ``bundle.json``, names every other with size and SHA-256. It is plain ustar with regular files alone, so that a reader
needs to know nothing else: links, folders, devices, sparse files and long names do not occur, and what has them is refused.
"""

import fcntl
import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import Field, StringConstraints, ValidationError

from infra_agent import canonical
from infra_agent.errors import UsageError
from infra_agent.frozen import Frozen, one_line

SUFFIX = ".tar.zst"
_MANIFEST = "bundle.json"
_BLOCK = 512
_PIECE = 1 << 20
_MOST_MANIFEST = 64 << 20
_MOST_BYTES = 4 << 30
_WINDOW_LOG = 27
"""Of the decompressor: 128 MiB of memory at most, whatever the file asks for."""
_NAME = r"^(session\.jsonl|HEAD|blobs/[0-9a-f]{64})$"


class Member(Frozen):
    """A file of the session."""

    name: Annotated[str, StringConstraints(pattern=_NAME)]
    bytes: Annotated[int, Field(ge=0, le=_MOST_BYTES)]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Manifest(Frozen):
    """What ``bundle.json`` says."""

    v: Literal[1] = 1
    session: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    files: Annotated[tuple[Member, ...], Field(max_length=500_000)]


class BundleError(UsageError):
    """A file that is no bundle, or not one that may be believed."""


def write(folder: Path, session: str, out: BinaryIO) -> Manifest:
    """Write the session in ``folder`` to ``out``; equal sessions give equal bytes. Raises UsageError while somebody writes it."""
    with open(folder / "session.jsonl", "rb") as log:
        try:
            fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"session {session} is being written; wait for it to end, or stop it") from error
        blobs = sorted(path.name for path in (folder / "blobs").glob("[0-9a-f]*"))
        names = ["session.jsonl", "HEAD", *(f"blobs/{name}" for name in blobs)]
        manifest = Manifest(session=session, files=tuple(_member(folder, name) for name in names))
        with _zstd().open(out, "wb", level=9) as packed, tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
            listed = canonical.encode(manifest.model_dump(mode="json"))
            tar.addfile(_header(_MANIFEST, len(listed)), io.BytesIO(listed))
            for member in manifest.files:
                with open(folder / member.name, "rb") as file:
                    tar.addfile(_header(member.name, member.bytes), file)
    return manifest


def _member(folder: Path, name: str) -> Member:
    with open(folder / name, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if name.startswith("blobs/") and name != f"blobs/{digest}":
            raise UsageError(f"{folder / name}: its content does not have the digest that is its name; nothing was bundled")
        return Member(name=name, bytes=file.tell(), sha256=digest)


def _header(name: str, size: int) -> tarfile.TarInfo:
    """No time, owner or mode of the machine."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o444
    return info


def unpack(bundle: Path, into: Path) -> Manifest:
    """Put the session of a bundle into the empty folder ``into``, every file checked before it is believed.

    Raises BundleError that names what is wrong. Nothing outside ``into`` is written, nothing larger than the manifest says, and under no
    name but those that a session has.
    """
    zstd = _zstd()
    limits = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
    try:
        with zstd.open(bundle, "rb", options=limits) as stream:
            manifest = _manifest(stream)
            (into / "blobs").mkdir(exist_ok=True)
            for member in manifest.files:
                _copy(stream, member, into)
            _ends(stream)
    except (zstd.ZstdError, EOFError, tarfile.HeaderError) as error:
        raise BundleError(f"{bundle}: not a bundle that can be read: {' '.join(str(error).split())[:200]}") from error
    except BundleError as error:
        raise BundleError(f"{bundle}: {error}") from error
    except OSError as error:
        raise UsageError(f"{error.filename or bundle}: {error.strerror or error}") from error
    return manifest


def _manifest(stream: BinaryIO) -> Manifest:
    size = _next(stream, _MANIFEST)
    if size > _MOST_MANIFEST:
        raise BundleError(f"{_MANIFEST} of {size} bytes, {_MOST_MANIFEST} at most")
    data = b"".join(_content(stream, size))
    try:
        found = Manifest.model_validate_json(data)
    except ValidationError as error:
        raise BundleError(f"{_MANIFEST}: {_version(data) or one_line(error)}") from error
    names = [member.name for member in found.files]
    if len(set(names)) != len(names) or not {"session.jsonl", "HEAD"} <= set(names):
        raise BundleError(f"{_MANIFEST}: a session has one session.jsonl, one HEAD, and each blob once")
    if sum(member.bytes for member in found.files) > _MOST_BYTES:
        raise BundleError(f"{_MANIFEST}: over {_MOST_BYTES} bytes in all")
    return found


def _version(data: bytes) -> str:
    """Of a manifest that a later program wrote; empty for any other."""
    try:
        stated = json.loads(data)["v"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return "" if stated == 1 else f"version {str(stated)[:20]}; this program reads version 1"


def _copy(stream: BinaryIO, member: Member, into: Path) -> None:
    size = _next(stream, member.name)
    if size != member.bytes:
        raise BundleError(f"{member.name} has {size} bytes, {_MANIFEST} says {member.bytes}")
    found = hashlib.sha256()
    with open(into / member.name, "xb") as file:
        for piece in _content(stream, size):
            found.update(piece)
            file.write(piece)
    if found.hexdigest() != member.sha256:
        raise BundleError(f"{member.name} is not what {_MANIFEST} says: its SHA-256 is {found.hexdigest()[:12]}…")


def _next(stream: BinaryIO, name: str) -> int:
    """The size of the next member, which must be a regular file of this name."""
    info = tarfile.TarInfo.frombuf(_exactly(stream, _BLOCK), "ascii", "strict")
    if info.type != tarfile.REGTYPE or info.linkname:
        raise BundleError(f"'{info.name[:100]}' is no regular file")
    if info.name != name:
        raise BundleError(f"'{info.name[:100]}' where {name} is to be")
    return info.size


def _content(stream: BinaryIO, size: int) -> Iterator[bytes]:
    left = size
    while left:
        piece = _exactly(stream, min(left, _PIECE))
        left -= len(piece)
        yield piece
    _exactly(stream, -size % _BLOCK)


def _ends(stream: BinaryIO) -> None:
    """Nothing follows but the zeros that end a tar file."""
    rest = stream.read(tarfile.RECORDSIZE + 1)
    if len(rest) > tarfile.RECORDSIZE or rest.strip(b"\0"):
        raise BundleError("something follows the last file")


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    while len(data) < size:
        more = stream.read(size - len(data))
        if not more:
            raise EOFError("it is cut off")
        data += more
    return data


def _zstd() -> Any:
    """The module, of the standard library where that has it."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
