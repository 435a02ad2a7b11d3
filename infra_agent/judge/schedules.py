"""Which schedules to look at: drawn at first, then those that turn an order round that only chance gave. Pure."""

from collections.abc import Sequence

from infra_agent.judge.events import Event

_TURNED = ("send", "acquire", "read", "write", "receive")
Delays = dict[str, float]
"""``thread@place`` -> virtual seconds for which it is held back there."""


def turned(log: Sequence[Event], most: int) -> list[Delays]:
    """Delays that put the second of two neighbours on one object first: the closest pairs first, each pair of places once."""
    latest: dict[str, Event] = {}
    pairs: dict[tuple[str, str], float] = {}
    for event in log:
        if event.op not in _TURNED:
            continue
        before = latest.get(event.object)
        latest[event.object] = event
        if before is not None and before.who != event.who:
            key = (f"{before.who}@{before.place}", f"{event.who}@{event.place}")
            pairs[key] = min(event.time - before.time, pairs.get(key, float("inf")))
    ordered = sorted(pairs.items(), key=lambda item: item[1])
    return [{first: 2 * gap + 1e-5} for (first, _), gap in ordered[:most]]
