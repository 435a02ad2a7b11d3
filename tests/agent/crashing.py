"""A scripted session that is killed at its nth write or fsync: ``python -m tests.agent.crashing TASK NTH [SESSION]``.

With SESSION that one is resumed. A write is torn in the middle. Without a kill (NTH 0) it prints how many moments there were.
"""

import itertools
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra_agent.agent import session
from infra_agent.models.base import Reply, ToolSchema
from infra_agent.session import log as log_module
from infra_agent.session.budget import Limits, limits_of
from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall
from infra_agent.session.log import mend, read
from infra_agent.share import home
from infra_agent.task.load import load
from tests.support import call

_MOMENTS = itertools.count(1)
_EDIT = call("edit", path="rows/entry.py", old="torch.cumsum(product, 1)", new="torch.cumsum(product, 0)")
_STATE = call("hypothesis", do="state", claim="the axis is wrong", prediction="running falls", check="accuracy")
_PROPOSE = call("propose", title="Sum rows along axis 0", summary="The running sum ran along columns.")


class Careful:
    """Does next what the conversation shows was not done yet; so a killed session can be gone on with."""

    name = "careful"

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
        """The first of view, state, edit, propose that has not been answered; a hypothesis that stands already is told of, too."""
        seen = "\n".join(m.text for m in messages if m.role == "tool")
        plan = [("view: pass", call("view", path="rows/entry.py")), ("h-1", _STATE), ("edit: pass", _EDIT), ("", _PROPOSE)]
        name, arguments = next(wanted for sign, wanted in plan if not sign or sign not in seen)
        return Reply("", (ToolCall(id=f"c{len(messages)}", name=name, arguments=arguments),))


class Torn:
    """A file whose writes are moments to be killed at."""

    def __init__(self, file: Any, nth: int) -> None:
        self._file, self._nth = file, nth

    def write(self, data: bytes) -> int:
        """Half of it, where the moment has come."""
        if next(_MOMENTS) == self._nth:
            self._file.write(data[: len(data) // 2])
            self._file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return int(self._file.write(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> "Torn":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def arm(nth: int) -> None:
    """Make every write and every fsync of a session's log and blobs such a moment."""
    fsync = os.fsync

    def killing(descriptor: int) -> None:
        if next(_MOMENTS) == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(descriptor)

    def opened(path: Path, mode: str = "r") -> Any:
        file = open(path, mode)  # noqa: SIM115 (whoever asked closes it)
        return Torn(file, nth) if "w" in mode or "a" in mode else file

    vars(log_module)["open"] = opened
    os.fsync = killing


def main() -> None:
    """See the module."""
    task, nth = load(sys.argv[1]), int(sys.argv[2])
    arm(nth)
    if len(sys.argv) > 3:
        folder = home() / "sessions" / sys.argv[3]
        mend(folder)
        limits = limits_of(read(folder))
        print(session.resume(task, folder, Careful(), "model:careful", session.Options(False, limits, home()), lambda event: None))
    else:
        print(session.run(task, Careful(), "model:careful", session.Options(False, Limits(steps=9), home()), lambda event: None))
    print(f"moments {next(_MOMENTS) - 1}")


if __name__ == "__main__":
    main()
