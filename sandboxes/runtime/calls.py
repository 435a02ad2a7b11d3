"""Load the entry once, then call it for every call of the judge.

Sections ``inputs.0``, ``inputs.1``, … hold one set of inputs each, as safetensors bytes; the outputs of set ``k`` go to the slots
``k/<stage>``. A call names the first set and how many: the entry is called once for each.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sandboxes.runtime import entry, request, tensors

Around = Callable[[], AbstractContextManager[object]]
OVERWRITTEN = "an input was overwritten that [entry] mutates does not name"


class OverwrittenError(ValueError):
    """A call changed what was not its to change."""


def _emulate(args: dict[str, Any]) -> Around:
    """Make the interpreter ready, and watch it if asked: what stands around each call of the entry is returned."""
    from sandboxes.runtime import interpreter, launches, races

    interpreter.install()
    if args.get("watched"):
        launches.reverse()
        races.watch()
    if args.get("own_work"):
        from sandboxes.runtime import hostwork

        return hostwork.forbidden
    return nullcontext


def main() -> None:
    """Serve calls; a stage that could not be copied is an error of that call."""
    asked = request.current()
    around = _emulate(asked.args) if os.environ.get("TRITON_INTERPRET") else nullcontext
    watched = bool(asked.args.get("watched"))
    function, mutates = entry.load(asked.args), asked.args["entry"].get("mutates", [])
    sets = {name: tensors.read(data) for name, data in asked.sections.items() if name.startswith("inputs.")}

    def handle(first: int, count: int) -> None:
        for number in range(first, first + count):
            arrays = sets[f"inputs.{number}"]
            before = entry.checksums(arrays, mutates) if watched else {}
            outputs = entry.call(function, arrays, mutates, around())
            if watched and entry.checksums(arrays, mutates) != before:
                raise OverwrittenError(OVERWRITTEN)
            problems = tensors.fill_slots(asked, outputs, f"{number}/")
            if problems:
                raise ValueError("; ".join(f"stage {stage}: {problem}" for stage, problem in problems.items()))

    asked.serve(handle)


if __name__ == "__main__":
    main()
