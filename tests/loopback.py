"""A chat-completions server on loopback that answers from a list, faults included; a real socket, the real SDK on the other end."""

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Whole = tuple[int, dict[str, str], bytes]
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18, "prompt_tokens_details": {"cached_tokens": 5}}


@dataclass(frozen=True)
class Drop:
    """Not HTTP: these bytes, then the end; ``reset`` ends it with RST."""

    data: bytes = b""
    reset: bool = False


Answer = Whole | Drop


def completion(text: str | None = "", calls: list[tuple[str, str]] | None = None, finish: str | None = "stop", **more: Any) -> Whole:
    """A 200 with one choice; ``calls`` are (name, JSON arguments); ``more`` goes into the message."""
    tool_calls = [
        {"id": f"call-{name}-{n}", "type": "function", "function": {"name": name, "arguments": text_}}
        for n, (name, text_) in enumerate(calls or [])
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text, **({"tool_calls": tool_calls} if tool_calls else {}), **more}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return body({"id": "x", "object": "chat.completion", "created": 1, "model": "loopback", "choices": [choice], "usage": USAGE})


def body(data: Any, status: int = 200, **headers: str) -> Whole:
    """Any JSON with any status."""
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(data).encode()


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """A piece of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "loopback", "choices": [choice], **more}
    return json.dumps(data).encode()


def usage_chunk() -> bytes:
    """What comes last where usage is asked for."""
    return json.dumps(
        {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "loopback", "choices": [], "usage": USAGE}
    ).encode()


def stream(*chunks: bytes, done: bool = True, missing: int = 0) -> Whole:
    """Server-sent events; ``missing``: bytes that are promised and do not come."""
    data = b"".join(b"data: " + piece + b"\n\n" for piece in chunks) + (b"data: [DONE]\n\n" if done else b"")
    return 200, {"Content-Type": "text/event-stream", "Content-Length": str(len(data) + missing)}, data


@contextmanager
def serve(answers: list[Answer], late_s: float = 0.0) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Base URL, and the bodies of the requests that arrived. The first answer comes ``late_s`` late."""
    seen: list[dict[str, Any]] = []
    queue = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if len(seen) == 1:
                time.sleep(late_s)
            answer: Answer = next(queue, (500, {}, b"{}"))
            if isinstance(answer, Drop):
                return self._drop(answer)
            status, headers, data = answer
            self.send_response(status)
            for key, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)
            return None

        def _drop(self, answer: Drop) -> None:
            self.wfile.write(answer.data)
            if answer.reset:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()

        def log_message(self, *_: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that left first is no news."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
