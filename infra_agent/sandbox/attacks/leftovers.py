"""What one program leaves for the next: files, processes, kernel objects, planted code, and a state that the next would start in."""

from pathlib import Path

from infra_agent.sandbox.attacks.base import Arena, Attack, Trial
from infra_agent.sandbox.attacks.two import HEAD, TIMEOUT_S, said, two


def _daemon_alive(arena: Arena) -> str | None:
    """The host's own look, that no namespace hides anything from: has a process of the host the daemon's mark on its command line?"""
    mark = f"leftover-{arena.scene.told()['host_pid']}-daemon".encode()
    alive = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            alive += [path.parent.name] if mark in path.read_bytes() else []
        except OSError:
            continue  # it ended between the two looks
    return f"the daemon outlived its request: {', '.join(alive)}" if alive else None


_SNAPSHOT = """
import resource, signal
mask = os.umask(0o22)
os.umask(mask)
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
state = {
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")}, "umask": mask,
    "signals": {name: status[name].strip() for name in ("SigBlk", "SigIgn", "SigCgt")}, "nice": os.getpriority(os.PRIO_PROCESS, 0),
    "processors": sorted(os.sched_getaffinity(0)), "policy": os.sched_getscheduler(0), "folder": os.path.basename(os.getcwd())[:12],
    "environment": sorted(f"{k}={v}" for k, v in os.environ.items() if k == k.upper()), "timer": signal.getitimer(signal.ITIMER_REAL),
    "path": sys.path, "recursion": sys.getrecursionlimit(), "descriptors": sorted(os.listdir("/proc/self/fd")),
    "functions": [repr(print), repr(open), json.loads.__qualname__], "threads": status["Threads"].strip(), "trace": repr(sys.gettrace()),
}
print("STATE", json.dumps(state, sort_keys=True))
"""

_SPOIL = """
import resource, signal
for name, value in (("NOFILE", 20), ("FSIZE", 4096), ("NPROC", 3), ("AS", 1 << 28), ("STACK", 1 << 20), ("CPU", 5), ("DATA", 1 << 28)):
    resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
for number in set(range(1, signal.NSIG)) - {signal.SIGKILL, signal.SIGSTOP, 32, 33}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.umask(0o777)
os.chdir("/")
tried(lambda: os.nice(5))
tried(lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]))
tried(lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)))
os.environ.update(LD_PRELOAD="/tmp/left.so", PYTHONSTARTUP="/tmp/left.py", PYTHONPATH="/tmp", PATH="/tmp")
sys.path.insert(0, "/tmp")
sys.setrecursionlimit(300)
json.loads = builtins.open = lambda *_, **__: None
"""


def _state(name: str, about: str) -> Attack:
    """The state that a program starts in, before and after one that spoiled its own."""

    def attempt(arena: Arena) -> Trial:
        before, spoiled, after = (arena.run(HEAD + code, TIMEOUT_S) for code in (_SNAPSHOT, _SPOIL, _SNAPSHOT))
        if spoiled.ended != "ok" or said(before.text, "STATE") is None:
            return Trial("escaped", f"the attack did not do its work: {spoiled.ended}: {(before.text + spoiled.text)[-300:]!r}")
        same = said(before.text, "STATE") == said(after.text, "STATE")
        return Trial("held" if same else "escaped", "the same" if same else f"the next started in another: {after.text[-1500:]!r}")

    return Attack(name, "leftovers", about, attempt)


_CALLS = """
import ctypes
libc, errors, name = ctypes.CDLL(None, use_errno=True), [], f"/{mark}".encode()
key = ctypes.c_int(0x4C450000 + scene["host_pid"] % 65536)

def call(function, *args):
    result = getattr(libc, function)(*args)
    if result == -1:
        errors.append(ctypes.get_errno())
        raise OSError(errors[-1], function)
    return result

get = {
    "memory": lambda flags: call("shmget", key, 4096, flags), "messages": lambda flags: call("msgget", key, flags),
    "semaphores": lambda flags: call("semget", key, 1, flags),
    "queue": lambda flags: call("mq_open", name, os.O_CREAT | os.O_RDWR if flags else os.O_RDONLY, 0o600, None),
}
remove = {
    "memory": lambda found: call("shmctl", found, 0, None), "messages": lambda found: call("msgctl", found, 0, None),
    "semaphores": lambda found: call("semctl", found, 0, 0), "queue": lambda found: call("mq_unlink", name),
}
"""

_PLANTS = """
import site
names = ("sitecustomize.py", "usercustomize.py", "left.pth", "colorsys.py", "sandboxes/__init__.py", "feedback/__init__.py")
text = "import builtins; builtins.leftover_ran = getattr(builtins, 'leftover_ran', '') + ' {}'\\n"
paths = {os.path.join(place, name): text.format(name) for place in scratch() for name in names}  # colorsys: nobody else will miss it
paths[os.path.join(site.getusersitepackages(), "left.pth")] = text.format("left.pth of the user")
"""

FAMILY: tuple[Attack, ...] = (
    two(
        "files", "a file in the working folder, in every folder for scratch, and wherever else one can be made",
        """
made = [place for place in wide if tried(lambda: open(os.path.join(place, mark), "x").close())]
assert os.getcwd() in made
""",
        """
found = [place for place in wide if tried(lambda: os.unlink(os.path.join(place, mark)))]
print("ESCAPED found in " + ", ".join(found) if found else f"HELD nothing in {len(wide)} places")
""",
        head='wide = [*scratch(), "/", "/app", "/dev", "/dev/mqueue", "/mnt", "/run", "/scratch", "/ws", os.path.abspath("..")]',
    ),
    two(
        "daemon", "a daemon: twice forked, in a session of its own, every descriptor closed",
        'daemon(lambda: os.execv(sys.executable, ["python", "-c", "import time; time.sleep(3)", mark + "-daemon"]))',
        between=_daemon_alive,
    ),
    two(
        "listeners", "a TCP port and an abstract UNIX socket on which a daemon still listens",
        """
try:
    tcp, unix = socket.create_server(("127.0.0.1", port)), socket.socket(socket.AF_UNIX)
    unix.bind("\\0" + mark)
    unix.listen()
except OSError as error:
    print("HELD", error)
    sys.exit()
high = [os.dup2(tcp.fileno(), 24), os.dup2(unix.fileno(), 25)]
daemon(lambda: time.sleep(3))
""",
        """
addresses = ((socket.AF_INET, ("127.0.0.1", port)), (socket.AF_UNIX, "\\0" + mark))
found = [address for family, address in addresses if tried(lambda: socket.socket(family).connect(address))]
print(f"ESCAPED reached {found}" if found else "HELD nobody listens")
""",
    ),
    two(
        "port-in-use", "connections that the kernel remembers after both ends are gone (TIME_WAIT): the next program cannot have the port",
        """
try:
    server = socket.create_server(("127.0.0.1", port))
    client = socket.create_connection(("127.0.0.1", port))
except OSError as error:
    print("HELD", error)
    sys.exit()
server.accept()[0].close()  # who closes first waits
client.close()
""",
        """
try:
    socket.socket().bind(("127.0.0.1", port))
    print("HELD the port is free")
except OSError as error:
    print("ESCAPED the next program is told:", error)
""",
    ),
    two(
        "kernel-objects", "System V shared memory, message queue and semaphores, and a POSIX message queue",
        """
if not [kind for kind, way in get.items() if tried(lambda: way(0o1600) and None)]:
    print("NOT RUN" if set(errors) == {errno.ENOSYS} else "HELD", "none can be made:", sorted(map(os.strerror, set(errors))))
""",
        """
found = [kind for kind, way in get.items() if tried(lambda: remove[kind](way(0)))]
print(f"ESCAPED found {', '.join(found)}" if found else "HELD none of them is there")
""",
        head=_CALLS,
    ),
    two(
        "planted-code", "modules that Python imports by itself or that shadow others, in every writable place: the next program runs them",
        """
def plant(path, text):
    if "site-packages" in path:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    elif path.endswith("__init__.py"):
        os.mkdir(os.path.dirname(path))
    with open(path, "x") as file:
        file.write(text)

assert any([tried(lambda: plant(path, text)) for path, text in paths.items()])
""",
        """
import subprocess
find = "import builtins, colorsys, importlib.util as u; [__import__(n) for n in ('sandboxes', 'feedback') if u.find_spec(n)]"
exec(find)
code = find + "; print(getattr(builtins, 'leftover_ran', ''))"
ran = getattr(builtins, "leftover_ran", "") + subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
for path, text in paths.items():
    if os.path.exists(path) and open(path).read() == text:
        os.unlink(path)
        if path.endswith("__init__.py"):
            tried(lambda: os.rmdir(os.path.dirname(path)))
print("ESCAPED ran:" + ran if ran else "HELD none of it ran")
""",
        head=_PLANTS,
    ),
    two(
        "deep-folders", "3,000 folders, one in the other: whoever empties the place must neither recurse nor run out of path",
        """
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
open("bottom", "w").close()
time.sleep(0.2)  # a watcher gets a look
""",
        """
depth = 0
while tried(lambda: os.chdir("d")):
    depth += 1
tried(lambda: os.unlink("bottom"))
for _ in range(depth):
    os.chdir(".."), os.rmdir("d")
print(f"ESCAPED {depth} folders are there" if depth else "HELD none is there")
""",
        may_end=("disk_limit",),
    ),
    two(
        "many-files", "as many files as one may make, at most 20,000",
        """
os.mkdir("many")
made, until = 0, time.monotonic() + 3
while made < 20000 and time.monotonic() < until and tried(lambda: os.close(os.open(f"many/{made}", os.O_CREAT | os.O_EXCL))):
    made += 1
""",
        """
left = os.path.isdir("many") and len(os.listdir("many"))
shutil.rmtree("many", ignore_errors=True)
print(f"ESCAPED {left} files are there" if left else "HELD none is there")
""",
        may_end=("disk_limit",),
    ),
    two(
        "odd-files", "a FIFO, a socket, a dead link, odd names, and folders without permission bits, with something in them",
        """
for place in scratch()[:3]:
    for name in ("closed", "closed/inner", "closed/inner/most"):
        tried(lambda: os.mkdir(os.path.join(place, name)))
    for act in (os.mkfifo, lambda path: os.symlink("/no", path + "-link"), lambda path: open(path + "\\udcff\\n", "w").close()):
        tried(lambda: act(os.path.join(place, "closed/inner", mark)))
    for name in ("closed/inner/most", "closed/inner", "closed"):
        tried(lambda: os.chmod(os.path.join(place, name), 0))
""",
        """
found = [place for place in scratch() if os.path.exists(os.path.join(place, "closed"))]
for place in found:
    os.chmod(os.path.join(place, "closed"), 0o700)
    shutil.rmtree(os.path.join(place, "closed"), ignore_errors=True)
print(f"ESCAPED found in {found}" if found else "HELD none is there")
""",
    ),
    two(
        "closed-workspace", "the working folder itself without permission bits",
        "print('closed' if tried(lambda: os.chmod('.', 0)) else 'HELD it cannot be closed')",
        "about = os.stat('.').st_mode & 0o777\nos.chmod('.', 0o755)\nprint('HELD' if about & 0o500 == 0o500 else 'ESCAPED', oct(about))",
    ),
    two(
        "no-workspace", "the working folder itself emptied and removed, or moved away",
        """
own = os.getcwd()
tried(lambda: [os.unlink(name) for name in os.listdir()] and None)
if not any([tried(lambda: os.rmdir(own)), tried(lambda: os.rename(own, own + ".moved"))]):
    print("HELD it stays where it is")
""",
    ),
    _state("state", "limits lowered, signals ignored and blocked, umask, priority, environment (LD_PRELOAD), functions replaced"),
)  # fmt: skip
