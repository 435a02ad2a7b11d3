"""Holding more memory, disk or names than a request may: by every kind of memory there is, by itself or by many together."""

import time

from infra_agent.sandbox.attacks.base import Arena, Attack, Trial, script

_KNOW = """
import ctypes, errno, mmap, os, resource, socket, sys, tempfile, time
libc = ctypes.CDLL(None, use_errno=True)
CAP, LIMIT = 1088, 640  # MiB: what is tried at most; what is beyond the 512 allowed for certain
DISK_CAP, DISK_LIMIT = 200, 72  # the same for files; 64 are allowed
MEGABYTE = b"x" * (1 << 20)

def fill(block):
    while block.tell() < len(block):
        block.write(MEGABYTE)

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith(key))

def verdict(held, limit, what):
    if held > limit:
        time.sleep(0.3)  # still alive after a look of the slowest watchdog: it was not held
        print(f"ESCAPED {held} MiB {what} held at once", flush=True)
    else:
        print(f"HELD at {held} MiB {what}", flush=True)

def grow(make, what, cap=CAP, step=64, limit=LIMIT):
    # make(MiB) must take that much and keep it, or raise
    held, why = 0, ""
    while held < cap:
        try:
            make(step)
        except (OSError, MemoryError) as error:
            why = f" ({error!r})"
            break
        held += step
    verdict(held, limit, what + why)

def many(work, count):
    # fork `count` processes that each take something, say how much in MiB, and keep it until told to end; what the living hold
    said, say = os.pipe()
    until, end = os.pipe()
    pids, dead = [], set()
    for _ in range(count):
        try:
            pid = os.fork()
        except OSError:
            break
        if pid == 0:
            try:
                os.close(end)
                os.write(say, b"%d %d\\n" % (os.getpid(), work()))
                os.read(until, 1)
            finally:
                os._exit(0)
        pids.append(pid)
    os.close(say)
    os.set_blocking(said, False)
    text, deadline = b"", time.monotonic() + 5
    while len(dead) + text.count(b"\\n") < len(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
        dead |= {pid for pid in pids if pid not in dead and os.waitpid(pid, os.WNOHANG)[0]}
        try:
            text += os.read(said, 4096)
        except BlockingIOError:
            pass
    time.sleep(0.1)
    dead |= {pid for pid in pids if pid not in dead and os.waitpid(pid, os.WNOHANG)[0]}
    sizes = [int(line.split()[1]) for line in text.splitlines() if int(line.split()[0]) not in dead]
    return sizes, len(dead), end
"""

_WRITE = """
def write_file(path, size, drop):
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if drop:
            os.unlink(path)
        for _ in range(size):
            if os.write(descriptor, MEGABYTE) < 1 << 20:
                raise OSError(errno.ENOSPC, "a short write")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
"""

_ONE = """
blocks = []
def take(size):
    blocks.append(mmap.mmap(-1, size << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    fill(blocks[-1])
grow(take, "of private memory")
"""

_TEN = """
blocks = []
def take():
    blocks.append(mmap.mmap(-1, 100 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    fill(blocks[-1])
    return status("VmRSS")
sizes, dead, end = many(take, 10)
verdict(sum(sizes), LIMIT, f"in {len(sizes)} processes together; {dead} died")
"""

_MEMFD = """
def take(size):
    descriptor = os.memfd_create("x")
    for _ in range(size):
        os.write(descriptor, MEGABYTE)
grow(take, "of memfd_create's files", step=16)
"""

_SHARED = """
blocks = []
def take(size):
    blocks.append(mmap.mmap(-1, size << 20, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS))
    fill(blocks[-1])
grow(take, "of shared anonymous memory")
"""

_DISK = """
home, rest = [], []
for folder in dict.fromkeys((os.getcwd(), tempfile.gettempdir(), "/tmp", "/dev/shm")):
    for number in range(DISK_CAP // 4):
        held = 4 * (len(home) + len(rest))
        if held >= DISK_CAP:
            break
        own = folder == os.getcwd() or folder == os.environ.get("TMPDIR")  # elsewhere without a name, to leave nothing behind
        path = f"{folder}/filler-{os.getpid()}-{number}"
        try:
            (home if own else rest).append(write_file(path, 4, not own))
        except OSError as error:
            why = f"{folder}: {error.strerror}"
            break
verdict(4 * (len(home) + len(rest)), DISK_LIMIT, "in files of all writable places; last " + why if "why" in dir() else "in files")
for folder in (os.getcwd(), tempfile.gettempdir()):
    for name in os.listdir(folder):
        if name.startswith("filler-"):
            os.unlink(f"{folder}/{name}")
"""

_DELETED = """
grow(lambda size: write_file("deleted", size, True), "in deleted files that stay open", cap=DISK_CAP, step=8, limit=DISK_LIMIT)
"""

_SHM = """
libc.shmat.restype = ctypes.c_void_p
def take(size):
    made = libc.shmget(0, ctypes.c_size_t(size << 20), 0o1600)
    if made < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    where = libc.shmat(made, None, 0)
    wrong = ctypes.get_errno()
    libc.shmctl(made, 0, None)  # it goes with the last process that has it
    if where in (None, ctypes.c_void_p(-1).value):
        raise OSError(wrong, "shmat")
    ctypes.memset(where, 1, size << 20)
grow(take, "of System V shared memory")
"""

_MLOCK = """
try:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
except (OSError, ValueError):
    pass
block = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(block))), ctypes.c_size_t(32 << 20))
wrong = errno.errorcode.get(ctypes.get_errno(), "no error")
locked = status("VmLck")
print(f"ESCAPED {locked} MiB locked" if locked else f"HELD nothing is locked: {wrong}")
"""

_INODES = """
made, why = 0, ""
try:
    for number in range(60):
        os.mkdir(f"many-{number}")
        for name in range(100):
            os.close(os.open(f"many-{number}/{name}", os.O_CREAT | os.O_WRONLY, 0o600))
            made += 1
except OSError as error:
    why = f": {error.strerror}"
time.sleep(0.3)
there = sum(len(os.listdir(f"many-{number}")) for number in range(60) if os.path.isdir(f"many-{number}"))
print(f"ESCAPED {there} files exist; 4000 are allowed" if there > 4000 else f"HELD at {there} files{why}")
"""

_SPARSE = """
sizes = []
for far in (1 << 40, 1 << 30, 49 << 20):
    try:
        with open("sparse", "w+b") as file:
            os.truncate(file.fileno(), far)
            file.seek(far - 1)
            file.write(b"x")
            file.flush()
            file.seek(far - 1)
            if file.read(1) == b"x":
                sizes.append(os.fstat(file.fileno()).st_size >> 20)
    except OSError as error:
        why = error.strerror
    os.unlink("sparse")
print(f"ESCAPED a file of {max(sizes)} MiB; 48 are allowed" if sizes else f"HELD {why}")
"""

_TOO_LARGE = """
with open("large", "wb", buffering=0) as file:
    try:
        for _ in range(56):
            file.write(MEGABYTE)
        why = "no error"
    except OSError as error:
        why = error.strerror
    size = os.fstat(file.fileno()).st_size
os.unlink("large")
print(f"ESCAPED a file of {size / 2**20:.1f} MiB; 48 are allowed" if size > 48 << 20 else f"HELD at {size / 2**20:.1f} MiB: {why}")
"""

_PIPES = """
def work():
    held = 0
    for _ in range(480):
        try:
            read, write = os.pipe()
        except OSError:
            break
        try:
            libc.fcntl(write, 1031, 1 << 20)  # F_SETPIPE_SZ: as large as it may be
            os.set_blocking(write, False)
            while held < 112 << 20:
                held += os.write(write, MEGABYTE)
        except BlockingIOError:
            pass
        if held >= 112 << 20:
            break
    return held >> 20
sizes, dead, end = many(work, 9)
verdict(sum(sizes), LIMIT, f"in pipes of {len(sizes)} processes; {dead} died")
"""

_SOCKETS = """
def work():
    held, kept = 0, []
    while len(kept) < 480 and held < 56 << 20:
        try:
            kept += socket.socketpair()
        except OSError:
            break
        for end in kept[-2:]:
            end.setblocking(False)
            try:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
            except PermissionError:
                pass  # it has to do with what it has
            try:
                while held < 56 << 20:
                    held += end.send(MEGABYTE[:65536])
            except BlockingIOError:
                pass
    work.kept = kept
    return held >> 20
sizes, dead, end = many(work, 18)
verdict(sum(sizes), LIMIT, f"in socket buffers of {len(sizes)} processes; {dead} died")
"""

_DEEP = """
import os
made = 0
try:
    for made in range(3500):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
except OSError as error:
    print(error)
print("HELD", made, "deep")
"""

_FLATTEN = """
import os
name, found = "d" * 200, os.path.isdir("d" * 200)
while os.path.isdir(name):
    try:
        os.rename(f"{name}/{name}", "next")
    except OSError:
        os.rmdir(name)
        break
    os.rmdir(name)
    os.rename("next", name)
print("ESCAPED the next request found them" if found else "HELD nothing is there")
"""


def _deep(arena: Arena) -> Trial:
    """The next request must find nothing of it, and not have to wait."""
    first = arena.run(_DEEP, 10.0)
    if first.ended == "disk_limit":
        return Trial("held", "the host ended it")
    if b"HELD" not in first.text:
        return Trial("escaped", f"the attack did not do its work: {first.ended}: {first.text[-300:].decode(errors='replace')}")
    began = time.monotonic()
    second = arena.run(_FLATTEN, 10.0)
    took = time.monotonic() - began
    text = second.text.decode(errors="replace").strip()
    if arena.scene.damage(second.text) or not text.startswith("HELD") or took > 5.0:
        return Trial("escaped", f"{text[-200:] or second.ended}; the next request took {took:.1f} s")
    return Trial("held", f"{first.text.decode(errors='replace').strip()[5:]}; the next request took {took:.2f} s")


_OOM = ("oom",)
_DISK_ENDS = ("oom", "disk_limit")

FAMILY: tuple[Attack, ...] = (
    script("one-process", "memory", "1 GiB of private memory in one process", _KNOW + _ONE, may_end=_OOM),
    script("ten-processes", "memory", "100 MiB in each of ten processes at once", _KNOW + _TEN, may_end=_OOM),
    script("memfd", "memory", "1 GiB in files of memfd_create, which no process's size shows", _KNOW + _MEMFD, may_end=_OOM),
    script("shared-anonymous", "memory", "1 GiB of shared anonymous memory", _KNOW + _SHARED, may_end=_OOM),
    script("all-places", "memory", "200 MiB in files of every writable place together", _KNOW + _WRITE + _DISK, may_end=_DISK_ENDS),
    script("deleted-files", "memory", "200 MiB in files that have no name any more", _KNOW + _WRITE + _DELETED, may_end=_DISK_ENDS),
    script("sysv-shm", "memory", "1 GiB of System V shared memory", _KNOW + _SHM, may_end=_OOM),
    script("mlock", "memory", "lock memory, so that the host cannot page it out", _KNOW + _MLOCK),
    script("inodes", "memory", "6000 files", _KNOW + _INODES, may_end=("disk_limit",)),
    script("sparse-file", "memory", "a file that says it is a TiB long", _KNOW + _SPARSE),
    script("large-file", "memory", "a file beyond the limit of one", _KNOW + _TOO_LARGE, may_end=("disk_limit",)),
    script("pipe-buffers", "memory", "1 GiB of the kernel's memory in full pipes", _KNOW + _PIPES, may_end=_OOM),
    script("socket-buffers", "memory", "1 GiB of the kernel's memory in full sockets", _KNOW + _SOCKETS, may_end=_OOM),
    Attack("deep-folders", "memory", "folders so deep that whoever removes them fails, or the next request waits", _deep),
)
