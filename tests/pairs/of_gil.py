"""Programs of two threads, one of which keeps the interpreter for itself; the twin gives it way."""

import random
import textwrap
from collections.abc import Callable

from tests.pairs import extension
from tests.pairs.pair import Pair

_VERBS = ("pack", "poll", "copy", "hash", "drain", "sweep", "merge", "scan")
_NOUNS = ("pages", "slots", "tokens", "blocks", "batches", "requests")
_THREADS = ("loader", "router", "sampler", "writer", "transfer", "tokenizer")

_C = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <time.h>

static volatile double sink;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

void __attribute__((noinline, visibility("default"))) {inner}(double ms) {
    double end = now() + ms / 1e3;
    {loop}
}

static PyObject *{name}(PyObject *self, PyObject *args) {
    double ms;
    if (!PyArg_ParseTuple(args, "d", &ms)) return NULL;
    {call}
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"{shown}", {name}, METH_VARARGS, NULL}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "extension", NULL, -1, methods};
PyMODINIT_FUNC PyInit_extension(void) { return PyModule_Create(&module); }
"""
_BURN = "for (long i = 0; i < (long)(ms * 3e5); i++) sink += i; (void)end;"
"""A fixed amount of work, about a millisecond each: a clock in the loop would shorten it on a busy machine."""
_SLEEP = "struct timespec t = {0, (long)(ms * 1e6)}; nanosleep(&t, NULL); (void)end;"
_ENTRY = '''"""A worker beside a main thread."""

import ctypes
import json
import re
import threading
import time

import numpy as np
import torch

{imports}
{padding}

{body}

def run(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Twice x, with a worker beside it."""
    worker = threading.Thread(target={function}, args=({steps},), name="{thread}")
    {start}
    return {{"y": x * 2}}
'''


def pair(seed: int) -> Pair:
    """One of six ways of keeping the interpreter; names, sizes, times and the thread are drawn."""
    rng = random.Random(seed)
    return _FAMILIES[seed % len(_FAMILIES)](rng)


def _entry(rng: random.Random, body: str, function: str, steps: int, imports: str) -> str:
    padding = "".join(f"SETTING_{n} = {rng.randrange(100)}\n" for n in range(rng.randrange(12)))
    beside = (
        f"worker.start()\n    for _ in range({rng.randrange(3, 9)}):\n        time.sleep({rng.uniform(1e-3, 4e-3):.4f})\n    worker.join()"
    )
    start = rng.choice((beside, f"worker.run()  # in {rng.choice(_THREADS)}'s place"))
    thread = rng.choice(_THREADS)
    return _ENTRY.format(
        imports=imports,
        padding=padding,
        body=textwrap.dedent(body).strip() + "\n",
        function=function,
        steps=steps,
        thread=thread,
        start=start,
    )


def _pair(rng: random.Random, body: str, wrong: tuple[str, str], kinds: tuple[str, ...], said: str, about: str) -> Pair:
    """``wrong``: a line of ``body`` and what the faulty twin has in its place; the line is the one to be named, with ``said``."""
    function, steps = "work_off", rng.randrange(2, 6)
    healthy = _entry(rng, body, function, steps, "")
    assert healthy.count(wrong[0]) == 1, wrong
    faulty = healthy.replace(*wrong)
    trees = [{"work/__init__.py": b"", "work/entry.py": text.encode()} for text in (faulty, healthy)]
    return Pair("plain", trees[0], trees[1], kinds, _place(faulty, "# here", kinds, said), {"seconds": 2.0}, about)


def _place(text: str, mark: str, kinds: tuple[str, ...], said: str) -> str:
    line = next(n for n, content in enumerate(text.splitlines(), 1) if mark in content)
    return rf"^work/entry\.py:{line}: ({'|'.join(kinds)}): [^\n]*{said}"


def _extension(rng: random.Random, loop: str, about: str) -> Pair:
    name, shown = f"{rng.choice(_VERBS)}_{rng.choice(_NOUNS)}", rng.choice(_VERBS)
    inner = f"{rng.choice(_VERBS)}_one_{rng.randrange(100)}"
    body = f"""
    def work_off(steps: int) -> None:
        for _ in range(steps):
            extension.{shown}({rng.uniform(15.0, 30.0):.1f})  # here
    """
    entry = _entry(rng, body, "work_off", rng.randrange(2, 6), "from work.build import extension\n")
    trees = []
    for call in (f"{inner}(ms);", f"Py_BEGIN_ALLOW_THREADS {inner}(ms); Py_END_ALLOW_THREADS"):
        drawn = {"{inner}": inner, "{loop}": loop, "{name}": name, "{call}": call, "{shown}": shown}
        trees.append(extension.tree(entry, _C, drawn))
    return Pair("plain", trees[0], trees[1], ("gil_held",), _place(entry, "# here", ("gil_held",), rf"\b{name}\b"), {"seconds": 2.0}, about)


def _computes(rng: random.Random) -> Pair:
    return _extension(rng, _BURN, "a C extension that computes without releasing the GIL")


def _sleeps(rng: random.Random) -> Pair:
    return _extension(rng, _SLEEP, "a C extension that sleeps without releasing the GIL")


def _ctypes(rng: random.Random) -> Pair:
    name = f"{rng.choice(_VERBS)}_{rng.choice(_NOUNS)}"
    body = f"""
    LIBRARY = ctypes.CDLL(str(PATH))
    DISPATCH = LIBRARY.{name}
    DISPATCH.argtypes = [ctypes.c_double]


    def work_off(steps: int) -> None:
        for _ in range(steps):
            DISPATCH({rng.uniform(15.0, 30.0):.1f})  # here
    """
    healthy = _entry(rng, body, "work_off", rng.randrange(2, 6), "from work.build import PATH\n")
    faulty = healthy.replace("ctypes.CDLL(", "ctypes.PyDLL(")
    drawn = {"{inner}": name, "{loop}": _BURN, "{name}": "unused", "{call}": ";", "{shown}": "unused"}
    trees = [extension.tree(text, _C, drawn) for text in (faulty, healthy)]
    where = _place(faulty, "# here", ("gil_held",), rf"\b{name}\b")
    return Pair("plain", trees[0], trees[1], ("gil_held",), where, {"seconds": 2.0}, "a library called through PyDLL")


def _one_piece(rng: random.Random) -> Pair:
    """The same work in one call of the C encoder, or in many."""
    rows, wide = rng.randrange(300, 500), rng.randrange(500, 700)
    body = f"""
    ROWS = [list(range({wide})) for _ in range({rows})]


    def work_off(steps: int) -> None:
        for _ in range(steps):
            sum(len(json.dumps(row)) for row in ROWS)
    """
    wrong = ("sum(len(json.dumps(row)) for row in ROWS)", "json.dumps(ROWS)  # here")
    return _pair(rng, body, wrong, ("gil_held",), r"\b(encoder|without a symbol)", "one call of json.dumps on everything")


def _backtracks(rng: random.Random) -> Pair:
    """A pattern that looks for its last character from every place, or from the only one where it can be."""
    size = rng.randrange(5000, 6500)
    letter = rng.choice("abcdexyz")
    body = f"""
    TEXT = "{letter}" * {size}


    def work_off(steps: int) -> None:
        for _ in range(steps):
            time.sleep(0.02)
            re.match("{letter}+!", TEXT)
    """
    wrong = (f're.match("{letter}+!", TEXT)', f're.search("{letter}+!", TEXT)  # here')
    return _pair(rng, body, wrong, ("gil_held",), r"\b(_?sre|pattern|without a symbol)", "a regular expression that backtracks")


def _spins(rng: random.Random) -> Pair:
    wait, size = rng.uniform(0.03, 0.08), rng.randrange(200, 900)
    body = f"""
    def work_off(steps: int) -> None:
        for _ in range(steps):
            until = time.perf_counter() + {wait:.3f}
            while time.perf_counter() < until:
                time.sleep(0.002)
    """
    wrong = ("time.sleep(0.002)", f"sum(n * n for n in range({size}))  # here")
    return _pair(rng, body, wrong, ("gil_busy", "gil_held"), "Python code", "a thread that spins")


_FAMILIES: tuple[Callable[[random.Random], Pair], ...] = (_computes, _one_piece, _spins, _sleeps, _backtracks, _ctypes)
