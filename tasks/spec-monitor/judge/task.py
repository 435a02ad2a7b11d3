"""What the judge knows of this task. Imported in a reference cage only; a candidate never sees this file.

Traffic comes from ``models``; here it is decided what each attempt of each request goes through, and when it should have been aborted.
The entry is given what workers report, and no label: labels stay in ``_HIDDEN``, under request ids that are drawn at random. Inputs and
truth of a draw are made by the same process, so ``truth`` finds them there.

Requests come in twins: first attempts that are equal, step by step, up to a fork that lies where one of them goes wrong, or where one of
two that went wrong recovers, well after it should have been aborted. What a monitor says before the fork must be the same for both.
One that decides by the end of a record misses those that recover, and aborts those with a closing that both models know; one that looks a
little ahead aborts earlier than anybody can know, which ``wasted`` and ``acceptance`` show.
"""

from typing import Any

import models
import numpy as np
from traffic import Attempt, healthy, wrong

Arrays = dict[str, np.ndarray]
ATTEMPTS = 4
"""Recorded attempts of a request: one more than may be made."""
ALLOWED = 3
MINIMUM = 128
"""Output tokens before which no attempt is judged, as published."""
LAG = {"garbled": 64, "loop": 224}
"""Output tokens from the first wrong one to the abort that is due."""
BLOCK, MARKS = 8, 112
_HIDDEN: dict[int, list[Attempt]] = {}

_USUAL: dict[str, Any] = {
    "size": 1000, "wrong": {"garbled": 0.5, "loop": 0.5}, "persistent": 0.05, "recovering": 0.3, "late": 0.65, "miscounting": 0.0,
    "depths": [4], "when": "gate",
}  # fmt: skip
"""``persistent``: share of the requests gone wrong that do so on every attempt. ``late``: share of wrong attempts that begin healthy.
``recovering``: share of twins of which both go wrong and one recovers; 0.3 more are a healthy request and one that forks from it.
``miscounting``: share of attempts on workers that count the target's own token as accepted. ``depths``: draft tokens a step, by attempt.
"""
_PUBLIC: list[dict[str, Any]] = [
    {"name": "garbled-kv", "wrong": {"garbled": 1.0}, "healthy": {"plain": 1.0}, "when": "always"},
    {"name": "loops", "wrong": {"loop": 1.0}, "healthy": {"plain": 1.0}, "when": "always"},
    {
        "name": "one-day",
        "wrong": {"garbled": 0.5, "loop": 0.5},
        "healthy": {"plain": 0.9, "short": 0.1},
        "persistent": 0.2,
        "when": "always",
    },
]
_HELD_OUT: list[dict[str, Any]] = [
    {"name": "tables-and-code", "healthy": {"plain": 0.3, "table": 0.5, "boilerplate": 0.2}},
    {"name": "short-outputs", "healthy": {"plain": 0.2, "short": 0.8}},
    {"name": "bonus-counted", "healthy": {"plain": 0.6, "drift_up": 0.4}, "miscounting": 0.5},
    {"name": "outage", "healthy": {"plain": 1.0}, "persistent": 1.0},
    {"name": "drifting-drafts", "healthy": {"drift_up": 0.4, "drift_down": 0.6}, "depths": [2, 3, 4]},
    {"name": "busy-scheduler", "healthy": {"plain": 0.4, "undrafted": 0.6}},
]  # fmt: skip


def cases(split: str) -> list[dict[str, Any]]:
    """Cases of ``public`` or ``held_out``: name, size (requests), when (always | gate), and how to draw inputs."""
    table = {"public": _PUBLIC, "held_out": _HELD_OUT}[split]
    return [{**_USUAL, **case} for case in table]


def smaller(case: dict[str, Any]) -> list[dict[str, Any]]:
    """One kind of traffic less, or fewer requests."""
    less = [{**case, name: 0.0} for name in ("persistent", "recovering", "late") if case[name]]
    one = [{**case, part: {kind: 1.0}} for part in ("wrong", "healthy") for kind in case[part] if len(case[part]) > 1]
    return [*one, *less, *([{**case, "size": case["size"] // 4}] if case["size"] >= 800 else [])]


def bounds(case: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Relative Frobenius errors; the stages are integers, so ``ratio`` and ``peak`` say nothing here.

    abort: with P attempts to abort, the error is sqrt((missed + false) / P). Up to 0.1, missed and false together are at most 1 % of P:
    recall is at least 99 % and, as false / (P - missed + false) <= 0.01, so is precision. P is 500 and more.
    wasted: output tokens up to each abort, against those at which it was due: 221 in the root mean square in garbled-kv, 361 in loops. Up
    to 0.35, aborts are 77 and 126 tokens off in the root mean square at most, early or late; half of them less than sqrt(2) times that. The
    solutions leave 0.02 to 0.12, an average over 200 steps 0.47 and more, a monitor that sees 48 steps ahead 0.5 in loops.
    timeline: the same on a grid of 8 tokens, for the sake of findings, which name request, attempts and 128 output tokens. 0.17 and 0.56.
    acceptance: 0.004 to 0.06 by when aborts happen; 0.5 when half of the workers count one token a step too many.
    attempts: 0.1 is one attempt too many or too few in 40 requests; with no bound on retries a fifth of persistent faults leaves 0.18.
    """
    request = ["request", "attempt"]
    loose = {"ratio": 1e7, "peak": 1e3}
    return {
        "abort": {"error": 0.1, "axes": request, **loose},
        "wasted": {"error": 0.35, "axes": request, **loose},
        "timeline": {"error": 0.55, "axes": [*request, "mark"], **loose},
        "acceptance": {"error": 0.1, "axes": request, **loose},
        "attempts": {"error": 0.1, "axes": ["request"], **loose},
    }


def _choose(rng: np.random.Generator, shares: dict[str, float]) -> str:
    return str(rng.choice(list(shares), p=np.array(list(shares.values())) / sum(shares.values())))


def _twins(case: dict[str, Any], rng: np.random.Generator) -> tuple[Attempt, Attempt]:
    """First attempts of two requests, equal up to a fork."""
    first = healthy(_choose(rng, case["healthy"]), rng)
    draw, kind = rng.random(), _choose(rng, case["wrong"])
    if draw < case["recovering"]:
        stays = wrong(kind, rng, first, case["late"])
        return stays, stays.recovering(rng)
    if draw < case["recovering"] + 0.3:
        return first, wrong(kind, rng, first, case["late"])
    return first, healthy(_choose(rng, case["healthy"]), rng)


def _requests(case: dict[str, Any], rng: np.random.Generator) -> list[list[Attempt]]:
    """All attempts of all requests; twins stand beside each other."""
    rows: list[list[Attempt]] = []
    for _ in range(case["size"] // 2):
        for first in _twins(case, rng):
            doomed = first.kind in LAG and rng.random() < case["persistent"]
            again = [_retry(case, rng, doomed) for _ in range(ATTEMPTS - 1)]
            rows.append([first, *again])
    return rows


def _retry(case: dict[str, Any], rng: np.random.Generator, doomed: bool) -> Attempt:
    plain = healthy(_choose(rng, case["healthy"]), rng)
    return wrong(_choose(rng, case["wrong"]), rng, plain, case["late"]) if doomed or rng.random() < 0.1 else plain


def inputs(case: dict[str, Any], seed: int) -> Arrays:
    """request_ids [R] int64; verify_steps [R, A] int32; draft_tokens, accepted_tokens, output_tokens [R, A, S] int16."""
    rng = np.random.default_rng(seed)
    rows = _requests(case, rng)
    flat = [attempt for row in rows for attempt in row]
    number = np.arange(len(flat)).reshape(-1, ATTEMPTS)
    twin, depth = number.copy(), rng.choice(case["depths"], size=number.shape)
    twin[1::2, 0], depth[1::2, 0] = number[::2, 0], depth[::2, 0]
    starts, modes = (np.array([list(pair) for attempt in flat for pair in [attempt.padded()[which]]]) for which in (0, 1))
    lengths = np.array([attempt.length for attempt in flat])
    steps, drafted, accepted, emitted = models.decode(starts, modes, lengths, depth.reshape(-1), twin.reshape(-1), rng)
    for attempt in flat:
        attempt.miscounted = bool(rng.random() < case["miscounting"])
    accepted += np.array([attempt.miscounted for attempt in flat])[:, None] * _verifying(steps, drafted.shape[1])
    order, ids = rng.permutation(len(rows)), rng.integers(1, 2**62, len(rows))
    for place, row in zip(ids, order, strict=True):
        _HIDDEN[int(place)] = rows[row]
    whole = {"draft_tokens": drafted, "accepted_tokens": accepted, "output_tokens": emitted}
    shaped = {name: np.ascontiguousarray(value.reshape(len(rows), ATTEMPTS, -1)[order], np.int16) for name, value in whole.items()}
    return {"request_ids": ids, "verify_steps": steps.reshape(-1, ATTEMPTS)[order].astype(np.int32), **shaped}


def _verifying(steps: np.ndarray, most: int) -> np.ndarray:
    """1 for each step of an attempt but prefill."""
    at = np.arange(most)
    return ((at > 0) & (at < steps[:, None])).astype(np.int16)


def _due(attempt: Attempt) -> int:
    """Output tokens from which on it should be aborted; 0 for never."""
    return max(MINIMUM, attempt.onset + LAG[attempt.kind]) if attempt.kind in LAG else 0


def _compute(x: Arrays) -> Arrays:
    """Every stage, of a monitor that knows what is wrong with whom and aborts when it is due."""
    hidden = [_HIDDEN[int(name)] for name in x["request_ids"]]
    due = np.array([[_due(attempt) for attempt in row] for row in hidden])
    extra = np.array([[attempt.miscounted for attempt in row] for row in hidden])
    emitted, steps = x["output_tokens"].astype(np.int64), x["verify_steps"].astype(np.int64)
    _, attempts, most = emitted.shape
    at = np.arange(most)
    reached = (emitted >= due[..., None]) & (due[..., None] > 0) & (at < steps[..., None])
    abort = reached.any(axis=-1)
    made = np.cumsum(np.cumprod(np.pad(abort, ((0, 0), (1, 0)), constant_values=True)[:, :-1], axis=1), axis=1)
    made = (np.diff(np.pad(made, ((0, 0), (1, 0))), axis=1) > 0) & (np.arange(attempts) < ALLOWED)
    abort &= made
    last = np.where(abort, reached.argmax(axis=-1), steps - 1)
    counted = (at <= last[..., None]) & made[..., None]
    wasted = np.where(abort, np.take_along_axis(emitted, np.minimum(last, most - 1)[..., None], axis=-1)[..., 0], 0)
    accepted = x["accepted_tokens"].astype(np.int64) - extra[..., None] * (at > 0)
    taken, tried = ((value * counted).sum(axis=-1) for value in (accepted, x["draft_tokens"].astype(np.int64)))
    return {
        "abort": abort,
        "wasted": wasted,
        "timeline": abort[..., None] & (np.arange(MARKS) * BLOCK >= wasted[..., None]),
        "acceptance": np.round(1000 * taken / np.maximum(tried, 1)),
        "attempts": made.sum(axis=1),
    }


def truth(arrays: Arrays) -> Arrays:
    """Every stage in float64."""
    return {stage: value.astype(np.float64) for stage, value in _compute(arrays).items()}


def reference(arrays: Arrays) -> Arrays:
    """Every stage as the entry returns it."""
    return {stage: value.astype(np.int32) for stage, value in _compute(arrays).items()}
