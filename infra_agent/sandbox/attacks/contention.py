"""Running, looking or answering when it is not one's turn: attacks on a standing request, which the judge times."""

import struct
import time
from collections.abc import Callable

from infra_agent.sandbox.attacks.base import Arena, Attack, Trial
from infra_agent.sandbox.base import Sandbox
from infra_agent.sandbox.mapping import GUARD
from infra_agent.task.tree import pack

_PAUSE_S = 0.4
_CALL_S = 3.0
_BUSY = 2.0
"""Turns between two calls, in parts of the turns in 50 ms of a call. One that was never stopped has 8, for a pause of 0.4 s."""
_IDLE_NS = 20_000_000
_SEEN_EARLY_NS = 200_000_000

_HEAD = """
import mmap, os, socket, struct, sys, time
from sandboxes.runtime import request
from sandboxes.wire import CALL, OK, REPLY
asked = request.current()
at = asked.slots["out"]["offset"]
shared = memoryview(mmap.mmap(-1, 4096)).cast("q")  # whole words: struct would write them byte by byte

def tell(*values):
    asked.sink[at : at + 8 * len(values)] = struct.pack(f"<{len(values)}q", *values)

def background(loop):
    # a daemon of its own session, as far away from the request as a process can get
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                loop()
        os._exit(0)
    os.wait()
"""

_SPIN = """
import threading
def turn():
    shared[0] += 1
background(turn)
beside = [0]
def spin():
    while True:
        beside[0] += 1
threading.Thread(target=spin, daemon=True).start()
last = [0, 0]
def handle(first, n):
    before = [shared[0], beside[0]]
    time.sleep(0.05)
    after = [shared[0], beside[0]]
    tell(before[0] - last[0], after[0] - before[0], before[1] - last[1], after[1] - before[1])
    last[:] = after
asked.serve(handle)
"""

_EARLY_START = """
seen = asked.sections["data"][0]
def watch():
    global seen
    asked.source.madvise(mmap.MADV_DONTNEED)
    now = asked.sections["data"][0]
    if now != seen:
        seen = now
        shared[0], shared[1] = time.monotonic_ns(), now
background(watch)
def handle(first, n):
    began = time.monotonic_ns()
    when, what = shared[0], shared[1]
    tell(began - when if what == asked.sections["data"][0] else 0)  # else it was not seen before this call
    time.sleep(0.01)
asked.serve(handle)
"""

_LATE_WRITE = """
def write():
    tell(time.monotonic_ns())
background(write)
asked.serve(lambda first, n: time.sleep(0.01))
"""

_GO_ON = """
import ctypes, fcntl, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
TIMER_CREATE, TIMER_SETTIME, EXIT = (107, 110, 93) if os.uname().machine == "aarch64" else (222, 223, 60)
signal.signal(signal.SIGCONT, lambda *_: None)

def work(seconds=20):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        tell(time.monotonic_ns())

def may(act):
    # a way that is barred is no way: whoever has none left is held
    try:
        return act()
    except OSError:
        return None
"""

_TIMER = """
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_int * 12)]
number = ctypes.c_int()
libc.syscall(TIMER_CREATE, 1, ctypes.byref(Event(None, signal.SIGCONT, 0)), ctypes.byref(number))
libc.syscall(TIMER_SETTIME, number, 0, (ctypes.c_long * 4)(0, 1000000, 0, 1000000), None)
import threading
threading.Thread(target=work, daemon=True).start()
asked.serve(lambda first, n: None)
"""

_PIPE = """
import threading
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(1, fcntl.F_SETOWN, os.getpid())
may(lambda: fcntl.fcntl(1, 10, signal.SIGCONT))
fcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
threading.Thread(target=work, daemon=True).start()
def handle(first, n):
    for _ in range(20):  # more than the pipe takes, less than the host does
        may(lambda: os.write(1, b"x" * 4096))
asked.serve(handle)
"""

_EACH_OTHER = """
def others(mine):
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for pid in [shared[n] for n in range(4)]:
            if pid and pid != mine:
                may(lambda: os.kill(pid, signal.SIGCONT))
        if mine == shared[0]:
            tell(time.monotonic_ns())
for n in range(4):
    if os.fork() == 0:
        shared[n] = os.getpid()
        others(os.getpid())
        os._exit(0)
time.sleep(0.1)
asked.serve(lambda first, n: time.sleep(0.01))
"""

_AT_DEATH = """
for flags in (signal.SIGCONT, signal.SIGCHLD):
    # a child whose end, half a second from now, is told by SIGCONT; and one who asks to be told of its parent's
    libc.syscall(56 if EXIT == 60 else 220, ctypes.c_long(flags), 0, 0, 0, 0) == 0 and (time.sleep(0.5), os._exit(0))
libc.prctl(1, signal.SIGCONT, 0, 0, 0)
import threading
threading.Thread(target=work, daemon=True).start()
asked.serve(lambda first, n: None)
"""

_LEADERLESS = """
import threading
if os.fork() == 0:
    os.setsid()
    threading.Thread(target=work).start()
    time.sleep(0.05)
    libc.syscall(EXIT, 0)  # of the first thread alone
time.sleep(0.2)
asked.serve(lambda first, n: time.sleep(0.01))
"""

_BY_HAND = """
control = asked.control
control.send(REPLY.pack(b"RPLY", 0, OK, 0))
while True:
    _, number, _, _ = CALL.unpack(control.recv(64))
    {answer}
"""
_DEAF = """
control = asked.control
control.send(REPLY.pack(b"RPLY", 0, OK, 0))
number = 0
while True:
    number += 1
    control.send(REPLY.pack(b"RPLY", number, OK, 1))
    time.sleep(0.002)
"""


def _start(sandbox: Sandbox, code: str) -> str | None:
    """Start the attack as a standing request; what is wrong when it did not get ready."""
    sections = {"tree": pack({"attack.py": (_HEAD + code).encode()}), "data": bytes(4096)}
    reply = sandbox.start("attack", {}, sections, {"out": ("I64", (4,))}, timeout_s=5.0)
    if reply.status == "ok":
        return None
    return f"the attack did not do its work: {reply.status}: {sandbox.stop().text[-300:].decode(errors='replace')}"


def _told(sandbox: Sandbox) -> tuple[int, ...]:
    return struct.unpack_from("<4q", sandbox.output(), GUARD)


def _driven(name: str, about: str, code: str, drive: Callable[[Sandbox], str | None]) -> Attack:
    """An attack that the host drives: ``drive`` says what went wrong, or None."""

    def attempt(arena: Arena) -> Trial:
        if arena.sandbox is None:
            return Trial("not_run", "the control has no standing requests")
        wrong = _start(arena.sandbox, code) or drive(arena.sandbox)
        return Trial("escaped", wrong) if wrong else Trial("held")

    return Attack(name, "contention", about, attempt)


def _spin(sandbox: Sandbox) -> str | None:
    told = []
    for _ in range(5):
        status = sandbox.call(timeout_s=_CALL_S).status
        if status != "ok":
            return f"the attack did not do its work: {status}"
        told.append(_told(sandbox))
        time.sleep(_PAUSE_S)
    sandbox.stop()
    between = [sum(values) for values in zip(*told[1:], strict=True)]  # nothing comes before the first call
    ratios = [between[0] / max(1, between[1]), between[2] / max(1, between[3])]
    return f"it ran {max(ratios) / 20:.2f} s between two calls" if max(ratios) > _BUSY else None


def _early_start(sandbox: Sandbox) -> str | None:
    ahead = []
    for round_number in range(3):
        sandbox.put({"data": bytes([round_number + 1]) * 4096})
        time.sleep(_PAUSE_S)
        status = sandbox.call(timeout_s=_CALL_S).status
        if status != "ok":
            return f"the attack did not do its work: {status}"
        ahead.append(_told(sandbox)[0])
    sandbox.stop()
    return f"the inputs were seen {max(ahead) / 1e6:.0f} ms before the call" if max(ahead) > _SEEN_EARLY_NS else None


def _late_write(sandbox: Sandbox) -> str | None:
    if sandbox.call(timeout_s=_CALL_S).status != "ok":
        return "the attack did not do its work"
    first = sandbox.output()
    time.sleep(_PAUSE_S)
    second = sandbox.output()
    sandbox.stop()
    return None if first == second else "the outputs changed after the reply"


def _stays_still(sandbox: Sandbox) -> str | None:
    """Nothing it has started writes, or takes CPU time, between a reply and the next call; else the reply said that it was moving."""
    moving = False
    for _ in range(4):
        reply = sandbox.call(timeout_s=_CALL_S)
        if reply.status not in ("ok", "moving"):
            return f"the attack did not do its work: {reply.status}"
        if reply.idle_cpu_ns > _IDLE_NS and not moving:
            return f"it took {reply.idle_cpu_ns / 1e6:.0f} ms of CPU while it was stopped"
        moving = reply.status == "moving"
        first = sandbox.output()
        time.sleep(_PAUSE_S)
        if sandbox.output() != first and not moving:
            return "it went on after it was stopped"
    sandbox.stop()
    return None


def _statuses(*expected: str) -> Callable[[Sandbox], str | None]:
    """One call for each expected status."""

    def drive(sandbox: Sandbox) -> str | None:
        found = [sandbox.call(timeout_s=_CALL_S).status for _ in expected]
        sandbox.stop()
        return None if found == list(expected) else f"the calls ended {', '.join(found)}; expected {', '.join(expected)}"

    return drive


def _is_found_out(sandbox: Sandbox) -> str | None:
    """Each call is sent the next one's reply. One that was there before its call must be named, and is from then on."""
    statuses = [sandbox.call(timeout_s=_CALL_S).status for _ in range(30)]
    sandbox.stop()
    return None if statuses[-1] == "early" else f"thirty calls, the last of which ended {statuses[-1]}: none was found to be answered early"


def _never_blocks(sandbox: Sandbox) -> str | None:
    """Hundreds of calls to a child that does not read them: each must come back. What it sends after it was asked is a reply."""
    began = time.monotonic()
    for _ in range(400):
        status = sandbox.call(timeout_s=_CALL_S).status
        if status in ("timeout", "ended"):
            return f"PID 1 was blocked: {status}"
        if time.monotonic() - began > _CALL_S:
            break
    sandbox.stop()
    return None


def _by_hand(answer: str) -> str:
    return _BY_HAND.format(answer=answer)


FAMILY: tuple[Attack, ...] = (
    *(
        _driven(f"go-on-{name}", f"be continued after the stop by {about}", _GO_ON + code, _stays_still)
        for name, about, code in (
            ("timer", "a timer of its own", _TIMER),
            ("pipe", "the signal of a pipe that the host drains", _PIPE),
            ("each-other", "processes that continue each other", _EACH_OTHER),
            ("at-death", "the signal of a child's or a parent's end", _AT_DEATH),
            ("leaderless", "being looked for by a first thread that has ended", _LEADERLESS),
        )
    ),
    _driven("spin-while-stopped", "a daemon and a thread keep the core busy while the other side is timed", _SPIN, _spin),
    _driven("start-early", "watch the input mapping and start before the clock", _EARLY_START, _early_start),
    _driven("write-late", "go on writing outputs after the reply", _LATE_WRITE, _late_write),
    _driven(
        "answer-early", "send the next call's reply with this one's",
        _by_hand('control.send(REPLY.pack(b"RPLY", number, OK, 1)); control.send(REPLY.pack(b"RPLY", number + 1, OK, 1))'),
        _is_found_out,
    ),
    _driven(
        "answer-other-call", "reply to a call that was not made",
        _by_hand('control.send(REPLY.pack(b"RPLY", number + 7, OK, 1))'), _statuses("lost"),
    ),
    _driven("answer-junk", "send bytes that are no reply", _by_hand('control.send(b"DONE" + bytes(40))'), _statuses("lost")),
    _driven("answer-never", "take a call and never reply", _by_hand("time.sleep(60)"), _statuses("timeout")),
    _driven("hang-up", "close the line instead of replying", _by_hand("control.close(); time.sleep(60)"), _statuses("timeout")),
    _driven("die-in-call", "end in the middle of a call", _by_hand("os.kill(os.getpid(), 11)"), _statuses("ended")),
    _driven("never-read", "reply without reading, until the line is full", _DEAF, _never_blocks),
)  # fmt: skip
