"""What a program prints, and what it leaves in the memory that it shares with the judge: too much, unending, or meant for another."""

from infra_agent.errors import ArtefactError
from infra_agent.sandbox.attacks.arenas import LIMITS
from infra_agent.sandbox.attacks.base import Arena, Attack, Outcome, Trial, script
from infra_agent.sandbox.attacks.two import two

_CAP = LIMITS.output_mb << 20
_FLOOD_MB = 40
_SOON_S = 3.0
_JUNK = bytes(range(256)) * 2000
_LINE = b"x" * 900_000


def _flood(arena: Arena, outcome: Outcome) -> str | None:
    """No more than the cap may reach the host, and the end must come soon."""
    if len(outcome.text) > _CAP:
        return f"{len(outcome.text)} bytes of text reached the host; {_CAP} are allowed"
    return f"it took {outcome.wall_s:.1f} s" if outcome.wall_s > _SOON_S else None


def _endless(name: str, about: str, code: str) -> Attack:
    """A program that prints more than is allowed, in one way or another."""
    head = f"import os, sys, time\nmost = {_FLOOD_MB} << 20\n"
    return script(name, "output", about, head + code + '\nprint("HELD all was taken")', look=_flood, may_end=("output_limit",))


def _exact(name: str, about: str, code: str, wanted: bytes, after: str = "", *, at_most_s: float = _SOON_S) -> Attack:
    """A program's text must be exactly ``wanted``; with ``after``, that of a second one in the same arena."""

    def attempt(arena: Arena) -> Trial:
        outcome = Outcome("broken", b"", 0.0)
        for step in filter(None, (code, after)):
            outcome = arena.run(step, 10.0)
            if outcome.ended != "ok":
                return Trial("escaped", f"it ended as {outcome.ended} after {len(outcome.text)} bytes: {outcome.text[-300:]!r}")
            if outcome.wall_s > at_most_s:
                return Trial("escaped", f"it took {outcome.wall_s:.1f} s; {at_most_s} s are allowed")
        wrong = arena.scene.damage(outcome.text)
        if not wrong and outcome.text != wanted:
            wrong = f"{len(outcome.text)} bytes came, {len(wanted)} were printed; the last of them: {outcome.text[-60:]!r}"
        return Trial("escaped", wrong) if wrong else Trial("held", f"{len(wanted)} bytes as printed")

    return Attack(name, "output", about, attempt)


def _lasting(arena: Arena) -> Trial:
    """The host may not take closed descriptors for the end: what the program writes later must be there."""
    outcome = arena.run(_CLOSED, 10.0)
    wrong = arena.scene.damage(outcome.text)
    if wrong or outcome.ended != "ok":
        return Trial("escaped", wrong or f"it ended as {outcome.ended}: {outcome.text[-300:]!r}")
    try:
        arena.get("ws/late", 100)
    except (OSError, ArtefactError):
        return Trial("escaped", "the host did not wait for the end")
    return Trial("held", "waited for the end") if outcome.wall_s < _SOON_S else Trial("escaped", f"it took {outcome.wall_s:.1f} s")


_CLOSED = """
import os, sys, time
sys.stdout.flush()
for descriptor in (0, 1, 2):
    os.close(descriptor)
time.sleep(0.7)
with open("late", "w") as file:
    file.write("late")
os._exit(0)
"""

_BEHIND = """
import os, sys, time
print("first", flush=True)
if os.fork() == 0:
    os.setsid()
    until = time.monotonic() + 3
    while time.monotonic() < until:
        os.write(1, b"BLEED")
        time.sleep(0.05)
    os._exit(0)
"""

_SPOILED = """
import fcntl, os
for descriptor in (1, 2):
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_NONBLOCK | os.O_ASYNC | os.O_APPEND)
    try:
        fcntl.fcntl(descriptor, 1031, 4096)  # F_SETPIPE_SZ: as small as it gets
    except OSError:
        pass
"""

_DRAIN = """
import os, time
try:
    end = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)  # the other end of one's own pipe
except OSError:
    end = None
if end is not None and os.fork() == 0:
    os.setsid()
    until = time.monotonic() + 3
    while time.monotonic() < until:
        try:
            os.read(end, 65536)
        except BlockingIOError:
            pass
        time.sleep(0.001)
    os._exit(0)
"""

_MAPPINGS = """
try:
    from sandboxes.runtime import request
    source, sink = request.current().source, request.current().sink
except (ImportError, RuntimeError):
    print("NOT RUN nothing is mapped here")
    sys.exit()
text = (mark * 9).encode()[:64]
"""

_PAGES_MB = 96
_PAGES = f"""
import ctypes, mmap
libc, size = ctypes.CDLL(None, use_errno=True), {_PAGES_MB} << 20
libc.mremap.restype = ctypes.c_void_p
start = ctypes.addressof(ctypes.c_char.from_buffer(source))
if len(source) < 2 * size:  # a mapping can grow without the descriptor that it was made from
    start = libc.mremap(ctypes.c_void_p(start), ctypes.c_size_t(len(source)), ctypes.c_size_t(2 * size), 1)
    if start == 2**64 - 1:
        print("HELD it cannot grow:", os.strerror(ctypes.get_errno()))
        sys.exit()
behind = ctypes.c_void_p(start + size)  # no request of this kind has any use for what is there

def resident():
    found = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
    if libc.mincore(behind, ctypes.c_size_t(size), found):
        return -1
    return sum(page & 1 for page in found)
"""

FAMILY: tuple[Attack, ...] = (
    _endless(
        "flood-stdout", f"{_FLOOD_MB} MiB on standard output",
        "for _ in range(most >> 16):\n    os.write(1, b'out' * 21845 + b'\\n')",
    ),
    _endless(
        "flood-stderr", f"{_FLOOD_MB} MiB on standard error",
        "for _ in range(most >> 16):\n    os.write(2, b'err' * 21845 + b'\\n')",
    ),
    _endless(
        "flood-line", f"one line of {_FLOOD_MB} MiB, of bytes that are no text",
        "for _ in range(most >> 16):\n    os.write(1, b'\\0\\xff\\x1b[' * 16384)",
    ),
    _endless(
        "flood-processes", "eight processes that print at once, none of them too much by itself",
        """
for _ in range(8):
    if os.fork() == 0:
        for _ in range(most >> 19):
            os.write(1, b"p" * 65535 + b"\\n")
        os._exit(0)
for _ in range(8):
    os.wait()
""",
    ),
    _endless(
        "flood-pipe", "the flood through the pipe opened again by name, non-blocking",
        """
try:
    end = os.open("/proc/self/fd/1", os.O_WRONLY | os.O_NONBLOCK)
except OSError as error:
    print("HELD", error)
    sys.exit()
sent, until = 0, time.monotonic() + 2
while sent < most and time.monotonic() < until:
    try:
        sent += os.write(end, b"n" * 65536)
    except BlockingIOError:
        time.sleep(0.0005)
os.write(1, b"\\n")
""",
    ),
    _exact(
        "junk", "bytes that are no text come back as they are", f"import os\nos.write(1, bytes(range(256)) * {len(_JUNK) // 256})", _JUNK,
    ),
    _exact("long-line", "a line just under the cap comes back whole", f"import os\nprint('x' * {len(_LINE)}, end='')", _LINE),
    _exact(
        "drip", "a hundred thousand writes of one byte: the host must keep up",
        "import os\nfor _ in range(100000):\n    os.write(1, b'.')", b"." * 100000,
    ),
    _exact(
        "background", "a process left behind goes on printing: the request ends all the same, and the next one's text is its own",
        _BEHIND, b"second\n", "import time\nprint('second', flush=True)\ntime.sleep(0.5)", at_most_s=2.0,
    ),
    _exact(
        "spoiled-pipe", "descriptor flags (non-blocking) and a pipe of one page, which would cut the next program's text short",
        _SPOILED, _LINE, f"import os\ndata = b'x' * {len(_LINE)}\nwhile data:\n    data = data[os.write(1, data) :]",
    ),
    _exact(
        "stolen-text", "a process left behind reads from the host's end of the pipe: the next program's text must reach the host",
        _DRAIN, _LINE, f"import time\nfor _ in range(90):\n    print('x' * {len(_LINE) // 90}, end='', flush=True)\n    time.sleep(0.004)",
        at_most_s=2.0,
    ),
    Attack("closed-early", "output", "standard output and error closed long before the end", _lasting),
    script(
        "terminals", "output", "print on the host's terminals, its console or its kernel log instead",
        """
import glob, os
found = []
for path in ["/dev/tty", "/dev/console", "/dev/kmsg", "/dev/tty0", "/dev/ttyS0", *glob.glob("/dev/pts/[0-9]*")]:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK))
        found.append(path)
    except OSError:
        pass
print(f"ESCAPED can write to {found}" if found else "HELD none can be opened")
""",
    ),
    script(
        "report-length", "output", "a report that claims to be longer than everything: the host must neither read that much nor fail",
        """
import struct, sys
try:
    from sandboxes.runtime import request
    asked = request.current()
except (ImportError, RuntimeError):
    print("NOT RUN no report here")
    sys.exit()
start = asked.report_at[0]
asked.sink[start : start + 8] = struct.pack("<Q", 2**64 - 1)
""",
        may_end=("bad_report",),
    ),
    two(
        "output-mapping", "bytes behind the outputs, in the memory shared with the judge: the next program finds them",
        "sink[-64:] = sink[len(sink) // 2 : len(sink) // 2 + 64] = text",
        """
there = text in (sink[-64:], sink[len(sink) // 2 : len(sink) // 2 + 64])
print("ESCAPED they are there" if there else "HELD they are not there")
""",
        head=_MAPPINGS, family="output",
    ),
    two(
        "input-mapping", "what the host sent to the first program: the next, which was sent less, finds the rest of it",
        "# only the first program was sent this, and much of it\n" * 2000,
        """
words = b"only the first program" + b" was sent"
print("ESCAPED it is there" if words in source[: 1 << 20] else "HELD it is not there")
""",
        head=_MAPPINGS, family="output",
    ),
    two(
        "input-pages", f"{_PAGES_MB} MiB of the input mapping only looked at: the memory stays taken, and is missing to the next program",
        """
if resident():
    print("NOT RUN this kernel does not say what is in memory")
    sys.exit()
shown = (ctypes.c_char * size).from_address(behind.value)
for place in range(0, size, mmap.PAGESIZE):
    shown[place]
""",
        """
pages = resident()
print(f"ESCAPED {pages * mmap.PAGESIZE >> 20} MiB are still taken" if pages else "HELD given back")
""",
        head=_MAPPINGS + _PAGES, family="output", may_end=("signal",),
    ),
)  # fmt: skip
