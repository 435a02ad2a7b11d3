"""Threads of the virtual clock, and where in the user's code they are."""

import sys
from collections.abc import Coroutine, Generator
from pathlib import Path
from types import coroutine
from typing import Any

Task = Coroutine[Any, Any, Any]
_OWN = f"{Path(__file__).parent}/"


class Thread:
    """A coroutine with a name. ``result`` is what it returned."""

    def __init__(self, name: str, task: Task) -> None:
        self.name = name
        self.task = task
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.waiters: list[Thread] = []


@coroutine
def give_way(until: float | None) -> Generator[float | None, None, None]:
    """Let others run: until a time, or, for None, until somebody wakes this thread."""
    yield until


def caller() -> str:
    """``path:line`` of the code outside this package that called."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
