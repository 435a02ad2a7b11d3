"""Parent of the workers: reads one byte, forks, and lets the child read the job. It never holds a request itself."""

import os
import resource
import sys
import traceback
from typing import Any

from serving.pool import Arrays, as_arrays, as_image, receive, send


def _answer(head: dict[str, Any], arrays: Arrays) -> Arrays:
    from hybrid import decode

    image = as_image(arrays)
    steps = {name: value for name, value in arrays.items() if not name.startswith("image.")}
    if head["do"] == "contents":
        return decode.contents(image, steps, head["length"])
    out, image = decode.run(image, steps, head["length"], head["request"])
    return {"out": out, **as_arrays(image)}


def _work() -> None:
    """One job, in the child."""
    with open(0, "rb", closefd=False) as jobs, open(1, "wb", closefd=False) as answers:
        head, arrays = receive(jobs)
        try:
            found = _answer(head, arrays)
        except Exception:
            send(answers, {"error": traceback.format_exc()}, {})
        else:
            send(answers, {}, found)


def main() -> None:
    """Serve until the other side closes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # a worker that is gone leaves no file behind
    while os.read(0, 1):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _work()
                code = 0
            finally:
                os._exit(code)
        if os.waitpid(child, 0)[1]:
            with open(1, "wb", closefd=False) as answers:
                send(answers, {"error": "a worker ended before it answered"}, {})


if __name__ == "__main__":
    sys.exit(main())
