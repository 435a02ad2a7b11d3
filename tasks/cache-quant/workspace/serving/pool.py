"""Workers for slices of requests. Each slice has a process of its own, which is given an image and the slice's activations, nothing else."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

Arrays = dict[str, np.ndarray]
Image = dict[str, bytes]
_ROOT = Path(__file__).resolve().parents[1]
_DTYPES = ("<f4", "|u1")


def send(pipe: IO[bytes], head: dict[str, Any], arrays: Arrays) -> None:
    """One frame: sizes, a JSON head, the arrays' bytes."""
    listed = [[name, value.dtype.str, list(value.shape)] for name, value in arrays.items()]
    body = b"".join(np.ascontiguousarray(value).tobytes() for value in arrays.values())
    text = json.dumps({**head, "arrays": listed}).encode()
    pipe.write(struct.pack("<QQ", len(text), len(body)) + text + body)
    pipe.flush()


def receive(pipe: IO[bytes]) -> tuple[dict[str, Any], Arrays]:
    """The next frame. Raises EOFError where there is none."""
    sizes = pipe.read(16)
    if len(sizes) < 16:
        raise EOFError("the other side has closed")
    text, body = struct.unpack("<QQ", sizes)
    head, data, arrays = json.loads(pipe.read(text)), pipe.read(body), {}
    for name, dtype, shape in head.pop("arrays"):
        if dtype not in _DTYPES:
            raise ValueError(f"{name}: dtype {dtype}; allowed: {', '.join(_DTYPES)}")
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(data, dtype, count).reshape(shape) if count else np.zeros(shape, dtype)
        data = data[arrays[name].nbytes :]
    return head, arrays


def as_arrays(image: Image) -> Arrays:
    """An image as arrays of bytes."""
    return {f"image.{name}": np.array(bytearray(data), np.uint8) for name, data in image.items()}


def as_image(arrays: Arrays) -> Image:
    """The image among some arrays."""
    return {name.removeprefix("image."): value.tobytes() for name, value in arrays.items() if name.startswith("image.")}


class Pool:
    """Starts one process for each job, from a parent that has never seen a request."""

    def __enter__(self) -> "Pool":
        argv = [sys.executable, "-B", "-m", "serving.worker"]
        self._server = subprocess.Popen(argv, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._server.stdin and self._server.stdout
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait()

    def run(self, image: Image, steps: Arrays, length: int, request: int) -> tuple[np.ndarray, Image]:
        """Decode a slice: its outputs, and the image that it leaves."""
        found = self._job({"do": "run", "length": length, "request": request}, image, steps)
        left = as_image(found)
        if set(left) != set(image):
            raise ValueError(f"an image has the classes {', '.join(image)}; found {', '.join(left)}")
        return found["out"], left

    def contents(self, image: Image, steps: Arrays, length: int) -> Arrays:
        """What an image holds, from a process that has nothing but the image."""
        return self._job({"do": "contents", "length": length}, image, steps)

    def _job(self, head: dict[str, Any], image: Image, steps: Arrays) -> Arrays:
        assert self._server.stdin and self._server.stdout
        self._server.stdin.write(b"j")
        send(self._server.stdin, head, {**as_arrays(image), **steps})
        answer, arrays = receive(self._server.stdout)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return arrays
