"""Faults of chat-completions servers: what is answered, and what must come of it. Providers and proxies were seen to make them."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, Literal

from tests.loopback import USAGE, Answer, Drop, Whole, body, chunk, completion, stream, usage_chunk

OK = completion("ok")
Want = Literal["reply", "error", "context"]


@dataclass(frozen=True)
class Fault:
    """``answers`` in order; ``requests``: how many must have been made in the end; ``waits``: between which bounds each pause must lie."""

    name: str
    answers: tuple[Answer, ...]
    want: Want
    requests: int
    said: str = ""
    """A regular expression that the error must match."""
    waits: tuple[tuple[float, float], ...] = ()
    streamed: bool = False
    """Only where the answer comes in pieces."""


def error(status: int, message: str = "no", code: object = None, **headers: str) -> Answer:
    return body({"error": {"message": message, "code": code}}, status, **headers)


def lasting(status: int, message: str = "no such thing", code: object = None) -> Fault:
    return Fault(f"{status} {message[:24]}", (error(status, message, code), OK), "error", 1, f"answered {status}.*{message[:20]}")


def passing(name: str, first: Answer, low: float = 0.5, high: float = 1.0, streamed: bool = False) -> Fault:
    """Tried again after a pause, and well then."""
    return Fault(name, (first, OK), "reply", 2, waits=((low, high),), streamed=streamed)


def too_long(name: str, message: str, status: int = 400, **more: Any) -> Fault:
    return Fault(f"context: {name}", (body({"error": {"message": message, **more}}, status), OK), "context", 1, "answered")


def in_seconds(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "view", "arguments": ""}}
HALF = (
    chunk({"role": "assistant", "content": None}),
    chunk({"tool_calls": [CALL]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"pa'}}]}),
)


def _in_stream(error: dict[str, str]) -> bytes:
    return json.dumps({"error": error}).encode()


def _piece(text: str) -> bytes:
    return chunk({"content": text})


def _kept_alive(answer: Whole) -> Whole:
    """Comments before the events, as servers send that are busy."""
    return 200, {"Content-Type": "text/event-stream"}, b": ping\n\n" + answer[2]


STATUSES = [lasting(status) for status in (400, 401, 403, 404, 405, 422)]
STATUSES += [
    lasting(429, "You exceeded your current quota, please check your plan and billing details.", "insufficient_quota"),
    lasting(402, "Insufficient Balance"),
    lasting(400, "The response was filtered due to the content management policy", "content_filter"),
]
STATUSES += [passing(f"{status}", error(status)) for status in (408, 409, 429, 500, 502, 503, 504, 529)]
STATUSES += [
    passing("502 html", (502, {"Content-Type": "text/html"}, b"<html>bad gateway</html>")),
    passing("503 empty", (503, {}, b"")),
    passing(
        "429 tokens per minute", error(429, "Rate limit reached on tokens per min (TPM): Limit 30000, Requested 40000. input too long")
    ),
    Fault("503 for ever", (error(503, "busy"),) * 9, "error", 5, "answered 503.*5 attempts", ((0.5, 1), (1, 2), (2, 4), (4, 8))),
]
RETRY_AFTER = [
    passing("retry-after seconds", error(429, Retry_After="3"), 3, 3),
    passing("retry-after fraction", error(429, Retry_After="0.25"), 0.25, 0.25),
    passing("retry-after date", error(503, Retry_After=in_seconds(86_400)), 60, 60),
    passing("retry-after past date", error(503, Retry_After=in_seconds(-20))),
    passing("retry-after nonsense", error(429, Retry_After="soon")),
    passing("retry-after nought", error(429, Retry_After="0")),
    passing("retry-after an hour", error(429, Retry_After="3600"), 60, 60),
]
CONTEXT = [
    too_long(
        "openai", "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        code="context_length_exceeded",
    ),
    too_long("vllm", "Input length (9000) exceeds model's maximum context length (8192).", code=400),
    too_long("vllm chat", "The decoder prompt (length 9000) is too long. Please reduce the length of the messages"),
    too_long("sglang", "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
    too_long("llama.cpp", "the request exceeds the available context size. try increasing the context size or enable context shift"),
    too_long("anthropic", "prompt is too long: 210000 tokens > 200000 maximum", type="invalid_request_error"),
    too_long("google", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    too_long("mistral", "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    too_long("z.ai", "Prompt exceeds max length", code="1261"),
    too_long("413", "Request too large", 413),
]  # fmt: skip
BODIES = [
    passing("200 with an error", body({"error": {"message": "upstream busy", "code": 1302}})),
    Fault("200 with a status inside", (body({"error": {"message": "bad key", "code": 401}}), OK), "error", 1, "answered 401.*bad key"),
    Fault("200 with a context error", (body({"error": {"message": "Prompt exceeds max length"}}), OK), "context", 1),
    passing("200 html", (200, {"Content-Type": "text/html"}, b"<html>busy</html>")),
    passing("200 half of it", (200, {}, b'{"choices": [tru')),
    passing("200 empty", (200, {}, b"")),
    passing("200 a list", body([1, 2])),
    passing("no choices", body({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [], "usage": USAGE})),
    passing("empty answer", completion("")),
    passing("white space", completion(" \n")),
    passing("no finish reason", completion("half", finish=None)),
    Fault("filtered", (completion("", finish="content_filter"), OK), "error", 1, "content filter"),
]
STREAMS = [
    passing("stream ends without a reason", stream(*HALF, done=False), streamed=True),
    passing("stream is done without a reason", stream(*HALF), streamed=True),
    passing("stream is cut", stream(*HALF, done=False, missing=100), streamed=True),
    passing("stream is cut in a piece", stream(HALF[0], HALF[1][:20], done=False, missing=10), streamed=True),
    passing("stream of nothing", stream(), streamed=True),
    passing("junk in a stream", stream(HALF[0], b"{not json", *HALF[1:]), streamed=True),
    passing("an error in a stream", stream(HALF[0], _in_stream({"message": "overloaded", "code": "1305"})), streamed=True),
    Fault("context in a stream", (stream(_in_stream({"message": "Prompt exceeds max length"})), OK), "context", 1, streamed=True),
    Fault("filtered stream", (stream(_piece("a"), chunk({}, "content_filter")), OK), "error", 1, "content filter", streamed=True),
    Fault("no usage", (stream(_piece("ok"), chunk({}, "stop")),), "reply", 1, streamed=True),
    Fault("keep-alives", (_kept_alive(stream(_piece("ok"), chunk({}, "stop"), usage_chunk())),), "reply", 1, streamed=True),
]
CONNECTIONS = [
    passing("closed at once", Drop()),
    passing("reset", Drop(reset=True)),
    passing("not HTTP", Drop(b"SSH-2.0-OpenSSH_9.6\r\n")),
    passing("half a header", Drop(b"HTTP/1.1 200 OK\r\nContent-Type: appl")),
    passing("half a body", (200, {"Content-Length": "5000"}, b'{"id": "x"')),
]
FAULTS = STATUSES + RETRY_AFTER + CONTEXT + BODIES + STREAMS + CONNECTIONS
