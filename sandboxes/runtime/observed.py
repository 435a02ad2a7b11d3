"""The program under observation in a process of its own: whoever watches it needs neither its GIL nor its locks."""

import ctypes
import gc
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

_PR_SET_PTRACER, _ANY = 0x59616D61, -1


class Observed:
    """A forked child that runs ``body(say, orders)``; ``say`` sends one JSON message, ``orders`` is a descriptor the parent writes to."""

    def __init__(self, body: Callable[[Callable[[Any], None], int], None]) -> None:
        """Fork it. The parent has no threads of its own, so the child's locks are all free."""
        self._said, theirs = os.pipe()
        orders, self._orders = os.pipe()
        self._buffer = b""
        self.text = theirs
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._said)
            os.close(self._orders)
            _run(body, theirs, orders)
        os.close(theirs)
        os.close(orders)

    def hear(self, timeout_s: float) -> Any:
        """The next message; None when none came in time, and ``{"died": how}`` when the process has ended without one."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._said], [], [], left)[0]:
                return None
            data = os.read(self._said, 1 << 20)
            if not data:
                return {"died": self._ending()}
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)

    def tell(self) -> None:
        """Wake whoever reads the orders."""
        os.write(self._orders, b"!")

    def kill(self) -> None:
        """End it, whatever it does; a second call does nothing."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def _ending(self) -> str:
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        code = os.waitstatus_to_exitcode(status)
        return f"signal {-code}" if code < 0 else f"exit status {code}"


def native_id(thread: threading.Thread) -> int | None:
    """The kernel's id of a thread. ``threading`` keeps the parent's for the main thread of a forked process."""
    return os.getpid() if thread is threading.main_thread() else thread.native_id


def frames_of_threads() -> dict[int, FrameType]:
    """The innermost frame of each thread, by ident, without the garbage collector.

    Up to CPython 3.11.8, what is collected in the middle may give the GIL away to a thread that ends, which waits for the very lock
    that ``_current_frames`` holds: https://github.com/python/cpython/issues/106883
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collects:
            gc.enable()


def _run(body: Callable[[Callable[[Any], None], int], None], said: int, orders: int) -> None:
    """The child's whole life: it never returns into the parent's program."""
    ctypes.CDLL(None).prctl(
        _PR_SET_PTRACER, ctypes.c_ulong(_ANY), 0, 0, 0
    )  # under Yama only an ancestor may trace; refused where there is none

    def say(message: Any) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(said, data) :]

    try:
        body(say, orders)
    except BaseException as error:
        import traceback

        traceback.print_exc()
        say({"error": f"{type(error).__name__}: {error}"[:300], "at": _last_place(error)})
    finally:
        os._exit(0)


def _last_place(error: BaseException) -> list[Any] | None:
    """File and line of the innermost frame of the workspace; None when it has none."""
    from sandboxes.runtime.request import WORKSPACE

    place, trace = None, error.__traceback__
    while trace:
        path = trace.tb_frame.f_code.co_filename
        if path.startswith(WORKSPACE + "/"):
            place = [path.removeprefix(WORKSPACE + "/"), trace.tb_lineno]
        trace = trace.tb_next
    return place
