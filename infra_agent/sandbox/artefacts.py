"""Files that a request left, read by the host without trusting one name of them."""

import os
import stat

from infra_agent.errors import ArtefactError

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Artefacts:
    """The scratch space of one request: folders ``ws``, ``tmp``, ``shm``. It lives until ``close``, in memory, after the request's end."""

    def __init__(self, descriptor: int) -> None:
        self._root = descriptor

    def read(self, path: str, limit: int) -> bytes:
        """The bytes of a plain file, at most ``limit``. Raises ArtefactError saying why not.

        Every component is opened without following a link; the last must be a regular file with one name. Nothing is opened for
        reading before that is known: opening a FIFO or a device can block, or do things.
        """
        parts = path.split("/")
        if not path.isprintable() or any(part in ("", ".", "..") for part in parts):
            raise ArtefactError(f"artefact {path!r}: a relative path of printable characters without empty parts, '.' and '..' is needed")
        try:
            where = os.dup(self._root)
        except OSError as error:
            raise ArtefactError(f"artefact {path}: {error.strerror}") from error
        try:
            for part in parts:
                inner = os.open(part, _STEP, dir_fd=where)
                os.close(where)
                where = inner
            return self._content(path, where, limit)
        except OSError as error:
            raise ArtefactError(f"artefact {path}: {error.strerror}") from error
        finally:
            os.close(where)

    @staticmethod
    def _content(path: str, found: int, limit: int) -> bytes:
        about = os.fstat(found)
        if not stat.S_ISREG(about.st_mode):
            raise ArtefactError(f"artefact {path}: not a regular file")
        if about.st_nlink != 1:
            raise ArtefactError(f"artefact {path}: it has {about.st_nlink} names; one is allowed")
        if about.st_size > limit:
            raise ArtefactError(f"artefact {path}: {about.st_size} bytes; {limit} are allowed")
        with open(f"/proc/self/fd/{found}", "rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise ArtefactError(f"artefact {path}: it grew beyond {limit} bytes")
        return data

    def used(self) -> int:
        """Bytes that the scratch space takes, as its file system counts them; what was deleted but is open counts."""
        state = os.fstatvfs(self._root)
        return (state.f_blocks - state.f_bfree) * state.f_frsize

    def close(self) -> None:
        """Let the scratch space go."""
        os.close(self._root)
