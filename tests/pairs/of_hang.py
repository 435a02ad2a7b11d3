"""Programs of a few threads that do not end; the twin does."""

import random
import textwrap
from collections.abc import Callable

from tests.pairs import extension
from tests.pairs.pair import Pair

_NAMES = ("pages", "slots", "ring", "table", "batch", "requests", "blocks")
_THREADS = ("prefill", "decode", "loader", "router", "sampler", "writer")
_HEAD = '''"""Threads."""

import queue
import threading
import time

import torch
'''
_TAIL = '''

def run(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Twice x, once the threads have ended."""
    serve()
    return {"y": x * 2}
'''
_C = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static PyObject *{slow}(PyObject *self, PyObject *args) {
    struct timespec t = {0, {ns}};
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&mutex);
    nanosleep(&t, NULL);
    {unlock_early}
    Py_END_ALLOW_THREADS
    {unlock_late}
    Py_RETURN_NONE;
}

static PyObject *{quick}(PyObject *self, PyObject *args) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"{slow}", {slow}, METH_NOARGS, NULL}, {"{quick}", {quick}, METH_NOARGS, NULL}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "extension", NULL, -1, methods};
PyMODINIT_FUNC PyInit_extension(void) { return PyModule_Create(&module); }
"""


def pair(seed: int) -> Pair:
    """One of seven ways of never ending; names, sizes, times and line numbers are drawn."""
    rng = random.Random(seed)
    return _FAMILIES[seed % len(_FAMILIES)](rng)


def _text(rng: random.Random, body: str, imports: str = "") -> str:
    padding = "".join(f"SETTING_{n} = {rng.randrange(100)}\n" for n in range(rng.randrange(12)))
    return _HEAD + imports + "\n" + padding + "\n" + textwrap.dedent(body).strip() + "\n" + _TAIL


def _pair(rng: random.Random, body: str, edges: dict[str, str], marks: tuple[str, ...], said: str, about: str) -> Pair:
    """``edges``: lines of ``body``, each there once, and what the faulty twin has for them. One of the lines marked must be named."""
    healthy = faulty = _text(rng, body)
    for right, wrong in edges.items():
        assert healthy.count(right) == 1, right
        faulty = faulty.replace(right, wrong)
    trees = [{"work/__init__.py": b"", "work/entry.py": text.encode()} for text in (faulty, healthy)]
    return Pair("plain", trees[0], trees[1], ("hang",), _place(faulty, marks, said), {"limit_s": 2.0}, about)


def _place(text: str, marks: tuple[str, ...], said: str) -> str:
    lines = "|".join(str(n) for n, line in enumerate(text.splitlines(), 1) if any(mark in line for mark in marks))
    return rf"^work/entry\.py:({lines}): hang: [^\n]*{said}"


def _wait(rng: random.Random) -> str:
    return f"time.sleep({rng.uniform(0.02, 0.1):.3f})"


def _opposite(rng: random.Random) -> Pair:
    first, second = rng.sample(_NAMES, 2)
    kind, (one, two) = rng.choice(("Lock", "RLock")), rng.sample(_THREADS, 2)
    body = f"""
    {first} = threading.{kind}()
    {second} = threading.{kind}()


    def {one}() -> None:
        with {first}:
            {_wait(rng)}
            with {second}:  # one
                pass


    def {two}() -> None:
        with {first}:  # outer
            {_wait(rng)}
            with {second}:  # two
                pass


    def serve() -> None:
        threads = [threading.Thread(target=target, name=target.__name__, daemon=True) for target in ({one}, {two})]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """
    edges = {f"with {first}:  # outer": f"with {second}:  # outer", f"with {second}:  # two": f"with {first}:  # two"}
    said = rf"(waits for (reentrant )?lock '({first}|{second})')[^\n]*held by thread ({one}|{two})"
    return _pair(rng, body, edges, ("# one", "# two"), said, "two locks in opposite orders")


def _unfed(rng: random.Random) -> Pair:
    name, thread = rng.choice(_NAMES), rng.choice(_THREADS)
    body = f"""
    class Server:
        def __init__(self) -> None:
            self.{name} = queue.Queue()

        def work(self) -> None:
            while self.{name}.get() is not None:  # takes
                {_wait(rng)}


    def serve() -> None:
        server = Server()
        worker = threading.Thread(target=server.work, name="{thread}", daemon=True)
        worker.start()
        for item in range({rng.randrange(0, 4)}):
            server.{name}.put(item)
        server.{name}.put(None)  # ends
        worker.join()
    """
    edges = {f"server.{name}.put(None)  # ends": f"{_wait(rng)}  # ends"}
    return _pair(rng, body, edges, ("# takes",), rf"thread {thread} waits for an item of queue 'self.{name}'", "a queue that nobody feeds")


def _joined_in_lock(rng: random.Random) -> Pair:
    name, thread = rng.choice(_NAMES), rng.choice(_THREADS)
    body = f"""
    {name}_lock = threading.Lock()


    def work() -> None:
        {_wait(rng)}
        for step in range({rng.randrange(1, 5)}):
            with {name}_lock:  # takes
                pass


    def serve() -> None:
        worker = threading.Thread(target=work, name="{thread}", daemon=True)
        with {name}_lock:
            worker.start()
            {_wait(rng)}
        worker.join()  # joins
    """
    edges = {"        worker.join()  # joins": "            worker.join()  # joins"}
    body_edges = {right.removeprefix("    "): wrong.removeprefix("    ") for right, wrong in edges.items()}
    return _pair(rng, body, body_edges, ("# takes", "# joins"), "closes the cycle", "a join on a thread that needs its joiner's lock")


def _inverted(rng: random.Random) -> Pair:
    """The GIL and a lock of C's, in opposite orders: nobody in Python can even look."""
    noun, thread = rng.choice(_NAMES), rng.choice(_THREADS)
    slow, quick = f"flush_{noun}", f"peek_{noun}"
    body = f"""
    def work() -> None:
        extension.{slow}()  # slow


    def serve() -> None:
        worker = threading.Thread(target=work, name="{thread}", daemon=True)
        worker.start()
        time.sleep(0.05)
        extension.{quick}()  # quick
        worker.join()
    """
    entry = _text(rng, body, "\nfrom work.build import extension\n")
    trees = []
    for early, late in (("", "pthread_mutex_unlock(&mutex);"), ("pthread_mutex_unlock(&mutex);", "")):
        drawn = {
            "{slow}": slow,
            "{quick}": quick,
            "{ns}": str(rng.randrange(200, 400) * 10**6),
            "{unlock_early}": early,
            "{unlock_late}": late,
        }
        trees.append(extension.tree(entry, _C, drawn))
    where = _place(entry, ("# slow", "# quick"), rf"\b({quick}|{slow})\b")
    return Pair("plain", trees[0], trees[1], ("hang",), where, {"limit_s": 2.0}, "the GIL and a mutex in opposite orders")


def _full(rng: random.Random) -> Pair:
    name, thread, size = rng.choice(_NAMES), rng.choice(_THREADS), rng.randrange(1, 4)
    body = f"""
    def work({name}: queue.Queue) -> None:
        for item in range({size + rng.randrange(2, 5)}):
            {name}.put(item)  # puts
        {name}.put(None)


    def serve() -> None:
        {name} = queue.Queue({size})
        producer = threading.Thread(target=work, args=({name},), name="{thread}")
        producer.start()
        while {name}.get() is not None:
            continue  # goes on
        producer.join()
    """
    return _pair(rng, body, {"continue  # goes on": "break"}, ("# puts",), rf"room in queue '{name}'", "a full queue that nobody empties")


def _never_set(rng: random.Random) -> Pair:
    name, thread = rng.choice(_NAMES), rng.choice(_THREADS)
    body = f"""
    {name}_ready = threading.Event()


    def work(count: int) -> None:
        for step in range(count):
            {_wait(rng)}
            if step == count - 1:
                {name}_ready.set()


    def serve() -> None:
        worker = threading.Thread(target=work, args=({rng.randrange(2, 5)},), name="{thread}")
        worker.start()
        {name}_ready.wait()  # waits
        worker.join()
    """
    return _pair(rng, body, {"step == count - 1": "step == count"}, ("# waits",), rf"event '{name}_ready'", "an event that is never set")


def _runs_on(rng: random.Random) -> Pair:
    name = rng.choice(_NAMES)
    body = f"""
    def work({name}: list[int]) -> int:
        found = 0
        while {name}:  # loops
            found += {name}[-1]  # loops
            {name}.pop()  # loops
        return found


    def serve() -> None:
        work(list(range({rng.randrange(10, 1000)})))
    """
    return _pair(rng, body, {f"{name}.pop()  # loops": f"{name}[:-1]  # loops"}, ("# loops",), "runs on", "a loop that never ends")


_FAMILIES: tuple[Callable[[random.Random], Pair], ...] = (_opposite, _unfed, _joined_in_lock, _inverted, _full, _never_set, _runs_on)
