"""How often lines run in one call, counted by the interpreter itself: a call more, for counting alone, and not timed."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

from sandboxes.runtime.request import WORKSPACE

_MOST = 1_000_000
"""Line events, after which counting ends: the numbers are then what was counted until there."""


def count(call: Callable[[], object], lines: set[tuple[str, int]], seconds: float) -> tuple[Counter[tuple[str, int]], bool]:
    """Executions of ``lines`` (path below the workspace, line) in ``call()``, and whether all were counted.

    After ``seconds`` (of ``time.perf_counter``) nothing more is counted; the call itself runs to its end.
    """
    counter = _Counter(lines, time.perf_counter() + seconds)
    previous = sys.gettrace()
    threading.settrace(counter.enter)
    sys.settrace(counter.enter)
    try:
        call()
    finally:
        sys.settrace(previous)
        threading.settrace(None)
    return counter.found, counter.left > 0


class _Counter:
    def __init__(self, lines: set[tuple[str, int]], deadline: float) -> None:
        self._lines = {(f"{WORKSPACE}/{path}", line): (path, line) for path, line in lines}
        self._files = {path for path, _ in self._lines}
        self._deadline, self.left = deadline, _MOST
        self.found: Counter[tuple[str, int]] = Counter()

    def enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        """A function begins: only those of files with lines to count are followed."""
        return self.step if self.left > 0 and frame.f_code.co_filename in self._files else None

    def step(self, frame: FrameType, event: str, _argument: Any) -> Any:
        """A line begins; that of a comprehension once for each turn."""
        if event == "line":
            self.left -= 1
            place = self._lines.get((frame.f_code.co_filename, frame.f_lineno))
            if place:
                self.found[place] += 1
            if self.left % 1000 == 0 and time.perf_counter() > self._deadline:
                self.left = 0
        return self.step if self.left > 0 else None
