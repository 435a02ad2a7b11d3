"""Entries that lose time in one of eight ways: a loop in Python, threads that wait for each other, a sleep that outlasts its reason."""

import random
import textwrap
from collections.abc import Callable

from tests.pairs.pair import Pair

_NAMES = ("rows", "pages", "tokens", "blocks", "scores", "states")
_THREADS = ("loader", "router", "sampler", "writer", "transfer", "decode")
_ENTRY = '''"""An entry."""

import queue
import threading
import time

import numpy as np
import torch

{padding}

{body}
'''


def pair(seed: int) -> Pair:
    """One of eight families; names, sizes, times and lines are drawn."""
    rng = random.Random(seed)
    return _FAMILIES[seed % len(_FAMILIES)](rng)


def _pair(rng: random.Random, body: str, edits: dict[str, str], kind: str, about: str) -> Pair:
    """``edits``: lines of the healthy body and what the faulty twin has instead; lines marked ``# here`` are those to be named."""
    padding = "".join(f"SETTING_{n} = {rng.randrange(100)}\n" for n in range(rng.randrange(12)))
    healthy = faulty = _ENTRY.format(padding=padding, body=textwrap.dedent(body).strip())
    for right, wrong in edits.items():
        assert healthy.count(right) == 1, right
        faulty = faulty.replace(right, wrong)
    lines = [n for n, line in enumerate(faulty.splitlines(), 1) if "# here" in line]
    assert lines
    trees = [{"work/__init__.py": b"", "work/entry.py": text.encode()} for text in (faulty, healthy)]
    return Pair("plain", trees[0], trees[1], (kind,), rf"^work/entry\.py:({'|'.join(map(str, lines))}): {kind}: ", {}, about)


def _rows_of_tensor(rng: random.Random) -> Pair:
    """Each row by itself, or all at once; what is done around it is the same."""
    name, rows, wide = rng.choice(_NAMES), rng.randrange(400, 1500), rng.randrange(16, 128)
    each, whole = rng.choice((("{n}[i].softmax(-1)", "{n}.softmax(-1)"), ("{n}[i] * {n}[i].sum()", "{n} * {n}.sum(-1, keepdim=True)")))
    body = f"""
    def run(x):
        {name} = torch.ones({rows}, {wide}) * x[0]
        out = torch.empty_like({name})
        out[:] = {whole.format(n=name)}
        return {{"y": x * 2}}
    """
    loop = f"for i in range({rows}):\n        out[i] = {each.format(n=name)}  # here"
    return _pair(rng, body, {f"out[:] = {whole.format(n=name)}": loop}, "hot_line", "a loop over the rows of a tensor")


def _python_numbers(rng: random.Random) -> Pair:
    """Plain Python arithmetic on numbers taken out of an array."""
    name, size, step = rng.choice(_NAMES), rng.randrange(20_000, 60_000), rng.randrange(2, 9)
    body = f"""
    {name.upper()} = np.arange({size}, dtype=np.float64)


    def score({name}):
        total = float(np.sum({name} * {name} % {step}))
        return total


    def run(x):
        score({name.upper()})
        return {{"y": x * 2}}
    """
    wrong = f"total = 0.0\n    for value in {name}:\n        total += value * value % {step}  # here"
    return _pair(rng, body, {f"total = float(np.sum({name} * {name} % {step}))": wrong}, "hot_line", "a sum in Python")


def _comprehension(rng: random.Random) -> Pair:
    """One call of numpy for each row inside a comprehension, all on one line."""
    name, rows, wide = rng.choice(_NAMES), rng.randrange(1000, 4000), rng.randrange(8, 64)
    right = f"found = {name}.max(axis=1)"
    body = f"""
    TABLE = np.ones(({rows}, {wide}))


    def largest({name}):
        {right}
        return found


    def run(x):
        largest(TABLE)
        return {{"y": x * 2}}
    """
    wrong = f"found = np.array([{rng.choice(('np.max(row)', 'row.max()'))} for row in {name}])  # here"
    return _pair(rng, body, {right: wrong}, "hot_line", "a comprehension over rows")


def _beside(rng: random.Random, work: str, count: int) -> str:
    names = rng.sample(_THREADS, count)
    return f"""
    threads = [threading.Thread(target={work}, args=(n,), name=name) for n, name in enumerate({names!r})]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {{"y": x * 2}}""".strip()


def _one_lock(rng: random.Random) -> Pair:
    """Two workers take the same lock around their products, or each one its own."""
    size, steps = rng.randrange(500, 800), rng.randrange(4, 8)
    body = f"""
    LOCKS = [threading.Lock() for _ in range(4)]
    TABLE = torch.ones({size}, {size})


    def work(number):
        for _ in range({steps}):
            with LOCKS[number]:
                TABLE @ TABLE


    def run(x):
        {_beside(rng, "work", 2)}
    """
    return _pair(rng, body, {"with LOCKS[number]:": "with LOCKS[0]:  # here"}, "serialised", "products under one lock")


def _asleep_with_lock(rng: random.Random) -> Pair:
    """Workers that wait for something slow, holding a lock that the others need, or let go of before."""
    steps, slow, count = rng.randrange(2, 5), rng.uniform(0.008, 0.02), rng.randrange(2, 4)
    body = f"""
    GUARD = threading.Lock()
    SEEN = []


    def work(number):
        for step in range({steps}):
            GUARD.acquire()
            SEEN.append(step)
            GUARD.release(); time.sleep({slow:.4f})


    def run(x):
        {_beside(rng, "work", count)}
    """
    edits = {
        f"GUARD.release(); time.sleep({slow:.4f})": f"time.sleep({slow:.4f}); GUARD.release()",
        "GUARD.acquire()": "GUARD.acquire()  # here",
    }
    return _pair(rng, body, edits, "serialised", "a lock held while asleep")


def _in_turns(rng: random.Random) -> Pair:
    """A producer that waits for each item to be worked off, or goes on."""
    size, items = rng.randrange(650, 900), rng.randrange(4, 8)
    body = f"""
    TABLE = torch.ones({size}, {size})
    ITEMS, DONE = queue.Queue(), queue.Queue()


    def produce():
        for _ in range({items}):
            ITEMS.put(TABLE @ TABLE)
            DONE.qsize()


    def consume():
        for _ in range({items}):
            item = ITEMS.get()  # here
            item @ TABLE
            DONE.put(None)


    def run(x):
        threads = [threading.Thread(target=f, name=f.__name__) for f in (produce, consume)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        while not DONE.empty():
            DONE.get()
        return {{"y": x * 2}}
    """
    return _pair(rng, body, {"DONE.qsize()": "DONE.get()  # here"}, "serialised", "a producer that waits for its consumer")


def _polls(rng: random.Random) -> Pair:
    """The caller looks from time to time whether the worker is done, or is woken."""
    size, steps, wait = rng.randrange(500, 700), rng.randrange(2, 5), rng.uniform(0.06, 0.12)
    name = rng.choice(_THREADS)
    body = f"""
    TABLE = torch.ones({size}, {size})


    def work(done):
        for _ in range({steps}):
            TABLE @ TABLE
        done.set()


    def run(x):
        done = threading.Event()
        worker = threading.Thread(target=work, args=(done,), name="{name}")
        worker.start()
        done.wait()
        worker.join()
        return {{"y": x * 2}}
    """
    wrong = f"while not done.is_set():\n        time.sleep({wait:.3f})  # here"
    return _pair(rng, body, {"done.wait()": wrong}, "gap", "a caller that polls")


def _polling_worker(rng: random.Random) -> Pair:
    """A worker that looks from time to time whether there is an item, or is given one; the caller waits for its answer."""
    size, items, wait = rng.randrange(400, 600), rng.randrange(2, 4), rng.uniform(0.03, 0.06)
    body = f"""
    TABLE = torch.ones({size}, {size})


    def work(items, answers):
        for _ in range({items}):
            item = items.get()
            answers.put(item @ TABLE)


    def run(x):
        items, answers = queue.Queue(), queue.Queue()
        worker = threading.Thread(target=work, args=(items, answers), name="{rng.choice(_THREADS)}")
        worker.start()
        for _ in range({items}):
            items.put(TABLE @ TABLE)
            answers.get()
        worker.join()
        return {{"y": x * 2}}
    """
    wrong = f"while items.empty():\n            time.sleep({wait:.3f})  # here\n        item = items.get()"
    return _pair(rng, body, {"item = items.get()": wrong}, "gap", "a worker that polls")


_FAMILIES: tuple[Callable[[random.Random], Pair], ...] = (
    _rows_of_tensor, _one_lock, _polls, _python_numbers, _in_turns, _polling_worker, _comprehension, _asleep_with_lock,
)  # fmt: skip
