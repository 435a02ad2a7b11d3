"""A package with a benchmark of several parts; one part is slowed by 30 % to 100 %."""

import random

from tests.pairs.pair import Pair

_PARTS = ("sort", "search", "join", "count", "hash", "parse", "merge")
_MEASURE = '''"""Time each part: the least of many rounds."""

import time

from work import parts

for name in parts.NAMES:
    function, best = getattr(parts, name), 1e9
    for _ in range(60):
        began = time.perf_counter()
        function(500)
        best = min(best, time.perf_counter() - began)
    print(f"{name}: {best * 1e6:.3f} us")
'''
_BODIES = (
    "    return sorted((n * 7919) % size for n in range(size * {work}))\n",
    "    return sum(n * n for n in range(size * {work}))\n",
    "    return len(' '.join(str(n) for n in range(size * {work})).split())\n",
    "    found = {{}}\n    for n in range(size * {work}):\n        found[n % 97] = found.get(n % 97, 0) + 1\n    return found\n",
)
_FAMILIES = ("more work", "done twice", "waits", "a copy each time")


def pair(seed: int) -> Pair:
    """Which part, and by how much, is drawn."""
    rng = random.Random(seed)
    names = rng.sample(_PARTS, rng.randrange(2, 5))
    works, bodies = {name: rng.randrange(4, 10) for name in names}, {name: rng.choice(_BODIES) for name in names}
    slow, family = rng.choice(names), _FAMILIES[seed % len(_FAMILIES)]
    texts = []
    for faulty in (True, False):
        text = f"NAMES = {names!r}\n"
        for name in names:
            body = bodies[name].format(work=works[name])
            if faulty and name == slow:
                body = _slowed(rng, family, bodies[name], works[name])
            text += f"\n\ndef {name}(size):\n{body}"
        texts.append(text)
    trees = [{"work/__init__.py": b"", "work/parts.py": text.encode(), "measure.py": _MEASURE.encode()} for text in texts]
    return Pair(
        "bench", trees[0], trees[1], ("slower_figure",), rf"^measure\.py: slower_figure: {slow}: ", {"runs": 10}, f"{slow}: {family}"
    )


def _slowed(rng: random.Random, family: str, body: str, work: int) -> str:
    honest = body.format(work=work)
    return {
        "more work": body.format(work=work + max(2, work // 2)),
        "done twice": f"    size = int(size * {rng.uniform(1.4, 2.0):.2f})\n{honest}",
        "waits": f"    import time\n    end = time.perf_counter() + {rng.uniform(0.0006, 0.001):.5f}\n"
        f"    while time.perf_counter() < end:\n        pass\n{honest}",
        "a copy each time": f"    for n in range(size * {work}):\n        str(n)\n{honest}",
    }[family]
