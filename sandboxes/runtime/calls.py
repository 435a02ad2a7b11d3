"""Load the entry once, then call it for every call of the judge: one set of inputs to a slot, one set of outputs back.

The section ``inputs`` holds safetensors bytes; a call's first slot and count are for programs that hold several sets.
"""

from sandboxes.runtime import entry, request, tensors


def main() -> None:
    """Serve calls; a stage that could not be copied is an error of that call."""
    asked = request.current()
    function = entry.load(asked.args)

    def handle(first: int, count: int) -> None:
        problems = tensors.fill_slots(asked, entry.call(function, tensors.read(asked.sections["inputs"])))
        if problems:
            raise ValueError("; ".join(f"stage {stage}: {problem}" for stage, problem in problems.items()))

    asked.serve(handle)


if __name__ == "__main__":
    main()
