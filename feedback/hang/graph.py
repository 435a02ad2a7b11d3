"""Who waits for whom: from what each thread was seen to do to the cycle, or the end of the chain. Pure."""

from typing import Any

Told = dict[str, Any]
_CYCLE, _END, _OTHER, _CHAIN = 10.0, 5.0, 3.0, 1.0
"""Magnitudes: a cycle's threads, the end of the main thread's chain, ends of other chains, and what leads to any of them."""


def findings(threads: list[Told], elapsed_s: float) -> list[Told]:
    """One for each thread of a cycle, or of the chain from the main thread, worst first.

    ``threads``: as the witness tells of them, or as py-spy saw them; ``native``, where it is known, is the C function a thread is in.
    """
    known = {thread["ident"]: thread for thread in threads}
    chains = [_follow(thread["ident"], known) for thread in threads]
    loops = [chain[chain.index(again) :] for chain, again in chains if again is not None]
    cycles = {frozenset(loop): loop for loop in loops}
    worth: dict[int, tuple[float, str]] = {}
    for cycle in cycles.values():
        closes = max(cycle, key=lambda ident: (known[ident]["order"], ident))
        at = cycle.index(closes)
        spelled = " -> ".join(known[ident]["name"] for ident in [*cycle[at:], *cycle[: at + 1]])
        for rank, ident in enumerate(sorted(cycle, key=lambda ident: (ident == closes, known[ident]["order"]))):
            worth[ident] = (_CYCLE + rank / len(cycle), f"closes the cycle {spelled}" if ident == closes else "in the cycle")
    main = next((n for n, thread in enumerate(threads) if thread.get("main")), 0)
    for n, (chain, again) in enumerate(chains[main : main + 1] + chains[:main] + chains[main + 1 :]):
        if _idle(known[chain[0]]) or (n and _background(known[chain[0]])):
            continue
        if again is None:
            worth.setdefault(chain[-1], (_OTHER if n else _END, "the end of the chain: nothing that it waits for is seen to come"))
        for place, ident in enumerate(chain):
            worth.setdefault(ident, (_CHAIN + place / (len(chain) + 1) - (0.5 if n else 0.0), "waits in turn"))
    ordered = sorted(worth.items(), key=lambda item: -item[1][0])
    return [_finding(known[ident], known, magnitude, why, elapsed_s) for ident, (magnitude, why) in ordered]


def _follow(start: int, known: dict[int, Told]) -> tuple[list[int], int | None]:
    """Threads from ``start`` along who holds what the one before waits for; and the one it comes back to, None when it ends."""
    chain: list[int] = []
    at: int | None = start
    while at is not None and at in known and at not in chain:
        chain.append(at)
        at = ((known[at]["waits"] or {}).get("held") or {}).get("thread")
    return chain, at if at in chain else None


def _idle(thread: Told) -> bool:
    return bool(thread["waits"]) and thread["waits"]["kind"] == "idle"


def _background(thread: Told) -> bool:
    """A daemon that waits for work, as a server's helpers do, is no part of a hang unless a chain leads to it."""
    return bool(thread.get("daemon")) and bool(thread["waits"]) and not thread["waits"].get("held")


def _finding(thread: Told, known: dict[int, Told], magnitude: float, why: str, elapsed_s: float) -> Told:
    place = thread["place"]
    where = {"type": "line", "path": place[0], "line": place[1]} if place else {"type": "thread", "thread": thread["name"]}
    said = _waiting(thread, known) if thread["waits"] else _doing(thread, elapsed_s)
    waited = f", {thread['waited_s']:.1f} s by now" if thread["waited_s"] else ""
    chained = "" if why.startswith("the end") and not thread["waits"] else f"; {why}"
    return {"kind": "hang", "where": where, "magnitude": magnitude, "message": f"thread {thread['name']} {said}{waited}{chained}"}


def _waiting(thread: Told, known: dict[int, Told]) -> str:
    waits = thread["waits"]
    text = f"waits for {waits['what']}"
    if waits.get("made"):
        text += f" (made at {_spelled(waits['made'])})"
    if waits.get("note"):
        text += f" ({waits['note']})"
    held = waits.get("held")
    if held and waits["kind"] != "join":
        owner = known.get(held["thread"])
        who = "itself" if owner is thread else f"thread {owner['name']}" if owner else "a thread that has ended" if held["thread"] else ""
        text += f", held by {who}" if who else ", whose holder is not known"
        text += f", taken at {_spelled(held['at'])}" if held.get("at") else ""
        text += f" in C function {held['native']}" if held.get("native") else ""
    return text


def _doing(thread: Told, elapsed_s: float) -> str:
    """A thread that waits for nothing that is known by name."""
    inside = f" in C function {thread['native']}" if thread.get("native") else f" in {thread['function']}" if thread.get("function") else ""
    gil = " and holds the GIL" if thread.get("owns_gil") else ""
    if thread["cpu_s"] >= elapsed_s / 2 or thread.get("state") == "R":
        return f"runs on{inside}{gil}: {thread['cpu_s']:.1f} s of CPU in {elapsed_s:.1f} s, waiting for nothing"
    return f"sleeps{inside}{gil}: {thread['cpu_s']:.1f} s of CPU in {elapsed_s:.1f} s"


def _spelled(place: Any) -> str:
    return f"{place[0]}:{place[1]}"
