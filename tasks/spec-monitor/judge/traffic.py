"""What an attempt goes through: which mode of the models from which output token on, and whether that is wrong."""

from dataclasses import dataclass, replace

import numpy as np
from models import MODE

SEGMENTS = 6
_NEVER = 1 << 30


@dataclass
class Attempt:
    """One attempt. ``segments``: (first output token, mode), in order, the first at 0."""

    kind: str
    segments: list[tuple[int, str]]
    length: int
    """Output tokens, of which the last verify step may add a few."""
    onset: int = 0
    """First wrong output token, of a wrong kind."""
    miscounted: bool = False
    """Its worker counts the token that the target adds as accepted."""

    def padded(self) -> tuple[list[int], list[int]]:
        """Starts and mode numbers, as many as there may be."""
        rest = SEGMENTS - len(self.segments)
        return [start for start, _ in self.segments] + [_NEVER] * rest, [MODE[mode] for _, mode in self.segments] + [0] * rest

    def recovering(self, rng: np.random.Generator) -> "Attempt":
        """The same, but usual again some time after it should have been aborted."""
        ends = self.onset + _between(rng, *_WRONG_FOR[self.kind])
        return replace(self, segments=[*self.segments, (ends, "usual")], length=ends + _between(rng, 32, 160))


_WRONG_FOR = {"garbled": (240, 320), "loop": (400, 448)}
"""Tokens that something stays wrong for before it may recover."""
_WRONG_MORE = {"garbled": (320, 480), "loop": (448, 560)}
"""Tokens to the end when it does not."""


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high))


def healthy(kind: str, rng: np.random.Generator) -> Attempt:
    """An attempt of a healthy kind."""
    segments, length = {
        "plain": _plain, "short": _short, "table": _table, "boilerplate": _boilerplate, "drift_up": _drift_up, "drift_down": _drift_down,
        "undrafted": _undrafted,
    }[kind](rng)  # fmt: skip
    return Attempt(kind, segments, length)


def _plain(rng: np.random.Generator) -> tuple[list[tuple[int, str]], int]:
    """Usual; a fifth ends with a closing that both models know."""
    length = _between(rng, 192, 640)
    closing = [(length - _between(rng, 40, 90), "boilerplate")] if rng.random() < 0.2 else []
    return [(0, "usual"), *closing], length


def _short(rng: np.random.Generator) -> tuple[list[tuple[int, str]], int]:
    return [(0, ("usual", "far", "boilerplate")[_between(rng, 0, 3)])], _between(rng, 3, 64)


def _table(rng: np.random.Generator) -> tuple[list[tuple[int, str]], int]:
    """Rows and cells, or code: 0.96 of draft tokens are accepted for a few hundred tokens."""
    start = 0 if rng.random() < 0.3 else _between(rng, 1, 160)
    end = start + _between(rng, 160, 300)
    opening = [(0, "usual")] if start else []
    return [*opening, (start, "table"), (end, "usual")], end + _between(rng, 32, 200)


def _boilerplate(rng: np.random.Generator) -> tuple[list[tuple[int, str]], int]:
    """A licence, an import block: every draft token is accepted for up to 96 tokens."""
    start = 0 if rng.random() < 0.3 else _between(rng, 1, 200)
    end = start + _between(rng, 48, 96)
    opening = [(0, "usual")] if start else []
    return [*opening, (start, "boilerplate"), (end, "usual")], end + _between(rng, 100, 300)


def _drift(rng: np.random.Generator, *levels: str) -> tuple[list[tuple[int, str]], int]:
    starts = np.cumsum([0, *(_between(rng, 60, 160) for _ in levels[1:])])
    return [(int(start), level) for start, level in zip(starts, levels, strict=True)], int(starts[-1]) + _between(rng, 128, 256)


def _drift_up(rng: np.random.Generator) -> tuple[list[tuple[int, str]], int]:
    return _drift(rng, "usual", "near", "close")


def _drift_down(rng: np.random.Generator) -> tuple[list[tuple[int, str]], int]:
    return _drift(rng, "usual", "far", "farther")


def _undrafted(rng: np.random.Generator) -> tuple[list[tuple[int, str]], int]:
    """The scheduler runs some steps without a draft, for as long as the batch is full."""
    start = 0 if rng.random() < 0.3 else _between(rng, 1, 200)
    end = start + _between(rng, 64, 250)
    opening = [(0, "usual")] if start else []
    return [*opening, (start, "undrafted"), (end, "usual")], end + _between(rng, 64, 300)


def wrong(kind: str, rng: np.random.Generator, before: Attempt, late: float) -> Attempt:
    """An attempt that goes wrong: from its first token on or, with probability ``late``, after as much of a healthy one as there is."""
    onset = min(_between(rng, 64, 320), before.length - 1) if rng.random() < late else 0
    kept = [(start, mode) for start, mode in before.segments if start < onset]
    return Attempt(kind, [*kept, (onset, kind)], onset + _between(rng, *_WRONG_MORE[kind]), onset)
