"""Read a request from the input mapping, run its program, write what it leaves to the output mapping.

Input:   u64 length of a JSON head, the head, then sections at the offsets the head names.
Output:  slots at the offsets the head names (poisoned by the host), then the report: u64 length, bytes.
"""

import io
import json
import mmap
import os
import runpy
import socket
import struct
import sys
import tarfile
import time
import traceback
from collections.abc import Callable
from typing import Any

from sandboxes.wire import CALL, ERROR, OK, REPLY

WORKSPACE = os.environ.get("CAGE_WORKSPACE", "/ws")


class Request:
    """What the host asked for. ``slots`` maps a stage to dtype, shape, offset in bytes; ``sections`` are the inputs by name."""

    def __init__(self, source: mmap.mmap, sink: mmap.mmap, control: socket.socket | None) -> None:
        """Read it from the input mapping ``source``; outputs and report go to ``sink``."""
        view = memoryview(source)
        (size,) = struct.unpack_from("<Q", view)
        head = json.loads(bytes(view[8 : 8 + size]))
        self.program: str = head["program"]
        self.args: dict[str, Any] = head["args"]
        self.slots: dict[str, dict[str, Any]] = head["slots"]
        self.report_at: tuple[int, int] = tuple(head["report"])
        self.sections = {name: view[start : start + count] for name, (start, count) in head["sections"].items()}
        self.source = source
        self.sink = sink
        self.control = control

    def write_report(self, data: bytes) -> None:
        """Leave ``data`` as the request's report; raises ValueError when it is larger than the host allows."""
        offset, capacity = self.report_at
        if len(data) + 8 > capacity:
            raise ValueError(f"report of {len(data)} bytes, {capacity - 8} allowed")
        self.sink[offset : offset + 8] = struct.pack("<Q", len(data))
        self.sink[offset + 8 : offset + 8 + len(data)] = data

    def serve(self, handle: Callable[[int, int], None]) -> None:
        """Answer the judge's calls with ``handle(first slot, count)`` until the judge ends this request.

        Before each call the pages that earlier ones wrote in the input are given back: what a call sees is what the judge put.
        """
        if self.control is None:
            raise RuntimeError("no calls come to a request that runs once")
        self.control.send(REPLY.pack(b"RPLY", 0, OK, 0))
        while message := self.control.recv(CALL.size):
            _, sequence, first, count = CALL.unpack(message)
            self.source.madvise(mmap.MADV_DONTNEED)
            began, status = time.perf_counter_ns(), OK
            try:
                handle(first, count)
            except Exception:
                traceback.print_exc()
                status = ERROR
            self.control.send(REPLY.pack(b"RPLY", sequence, status, time.perf_counter_ns() - began))


_current: Request | None = None


def current() -> Request:
    """The request that this process serves."""
    if _current is None:
        raise RuntimeError("no request: this program runs only inside a cage")
    return _current


def run(source: mmap.mmap, sink: mmap.mmap, control: socket.socket | None) -> None:
    """Unpack the workspace and run the program, ``python -m`` style."""
    global _current
    _current = request = Request(source, sink, control)
    os.chdir(WORKSPACE)
    if "tree" in request.sections:
        with tarfile.open(fileobj=io.BytesIO(request.sections["tree"])) as tree:
            if hasattr(tarfile, "data_filter"):  # Python 3.11.4; the tar holds the host's own bytes either way
                tree.extraction_filter = tarfile.data_filter
            tree.extractall(WORKSPACE)
    sys.path += request.args.get("roots", [])  # a user's instruments
    sys.path.append(WORKSPACE)  # behind the instruments: a workspace cannot shadow them
    sys.argv = [request.program]
    runpy.run_module(request.program, run_name="__main__", alter_sys=False)
