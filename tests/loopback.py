"""A chat-completions server on loopback that answers from a list; a real socket, the real SDK on the other end."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]


def completion(text: str = "", calls: list[tuple[str, str]] | None = None, finish: str | None = "stop") -> Answer:
    """A 200 with one choice; ``calls`` are (name, JSON arguments)."""
    tool_calls = [
        {"id": f"call-{name}-{n}", "type": "function", "function": {"name": name, "arguments": text_}}
        for n, (name, text_) in enumerate(calls or [])
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text, **({"tool_calls": tool_calls} if tool_calls else {})}
    body = {
        "id": "x", "object": "chat.completion", "created": 1, "model": "loopback",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18, "prompt_tokens_details": {"cached_tokens": 5}},
    }  # fmt: skip
    return 200, {}, json.dumps(body).encode()


@contextmanager
def serve(answers: list[Answer]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Base URL, and the bodies of the requests that arrived."""
    seen: list[dict[str, Any]] = []
    queue = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            status, headers, body = next(queue, (500, {}, b"{}"))
            self.send_response(status)
            for key, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
