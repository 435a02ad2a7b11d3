"""Does a session go round in circles? Pure: from what was done and seen to a reason, which the model is told once before the end."""

import json
from collections import Counter, deque
from typing import Any

from infra_agent.session.observation import Observation

_TIMES = 3
_WINDOW = 12


class Watch:
    """The last actions of a session."""

    def __init__(self) -> None:
        self._done: deque[tuple[str, ...]] = deque(maxlen=_WINDOW)
        self._errors: deque[tuple[str, ...]] = deque(maxlen=_TIMES)
        self._trees: deque[str] = deque(maxlen=2 * _TIMES - 1)

    def see(self, tool: str, arguments: dict[str, Any], observation: Observation, tree: str) -> str | None:
        """Why this action shows that nothing moves any more; None when it does not. ``tree``: digest of the files after it.

        What was measured on other files, or with another outcome, is not the same although its numbers are drawn afresh each time.
        """
        said = (tool, observation.status, observation.kind or "")
        failed = observation.status == "fail" and not observation.evidence
        self._done.append((*said, json.dumps(arguments, sort_keys=True), tree))
        self._errors.append((*said, observation.headline) if failed else ())
        if not self._trees or self._trees[-1] != tree:
            self._trees.append(tree)
        return self._again() or self._error() or self._ping_pong()

    def forget(self) -> None:
        """Begin again: the model was told."""
        self._done.clear()
        self._errors.clear()
        self._trees.clear()

    def _again(self) -> str | None:
        action, times = Counter(self._done).most_common(1)[0]
        return f"the same call of {action[0]} on the same files, with the same outcome, {times} times" if times >= _TIMES else None

    def _error(self) -> str | None:
        if len(self._errors) < _TIMES or len(set(self._errors)) > 1 or not self._errors[0]:
            return None
        return f"the same error of {self._errors[0][0]} {_TIMES} times: {self._errors[0][-1]}"

    def _ping_pong(self) -> str | None:
        full = len(self._trees) == self._trees.maxlen
        return "edits go back and forth between the same two states" if full and len(set(self._trees)) == 2 else None
