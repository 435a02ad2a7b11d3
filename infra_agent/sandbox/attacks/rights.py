"""Getting rights back: mounts, namespaces, other users, set-uid programs, and the kernel's more dangerous calls."""

from infra_agent.sandbox.attacks.base import Attack, script
from infra_agent.sandbox.attacks.descriptors import KNOW

_MOUNT = """
os.mkdir("place")
libc.mount(b"tmpfs", b"place", b"tmpfs", 0, b"size=65536")
why = errno.errorcode.get(ctypes.get_errno(), "no error")
mounted = os.path.ismount("place")
if mounted:
    libc.umount2(b"place", 2)
os.rmdir("place")
verdict(["mounted a tmpfs"] if mounted else [], [why])
"""

_UNSHARE = """
def leave(flag, kind):
    before = os.readlink(f"/proc/self/ns/{kind}")
    libc.unshare(flag)
    why = errno.errorcode.get(ctypes.get_errno(), "no error")
    return f"ESCAPED a new {kind} namespace" if os.readlink(f"/proc/self/ns/{kind}") != before else f"HELD {kind}: {why}"
said = [in_child(lambda: leave(flag, kind)) for flag, kind in NAMESPACES.items()]
verdict([text[8:] for text in said if text.startswith("ESCAPED")], [text[5:] for text in said])
"""
_NAMESPACES = 'NAMESPACES = {0x10000000: "user"}\n'
_OTHER_NAMESPACES = 'NAMESPACES = {0x20000: "mnt", 0x4000000: "uts", 0x8000000: "ipc", 0x40000000: "net", 0x2000000: "cgroup"}\n'

_CLONE = """
def clone(number, *arguments):
    before, (read, write) = os.readlink("/proc/self/ns/user"), os.pipe()
    pid, why = raw(number, *arguments)
    if pid == 0:
        os.write(write, os.readlink("/proc/self/ns/user").encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        inside = file.read()
    if pid > 0:
        os.waitpid(pid, 0)
    return f"a new {inside}" if inside not in ("", before) else "", why
new = 0x10000000 | signal.SIGCHLD
wanted = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, signal.SIGCHLD)
tries = [clone(220 if ARM else 56, new, 0, 0, 0, 0), clone(435, ctypes.byref(wanted), ctypes.sizeof(wanted))]
verdict([found for found, _ in tries if found], [f"{call}: {why}" for call, (_, why) in zip(("clone", "clone3"), tries)])
"""

_SETNS = """
def enter(kind, flag):
    libc.unshare(flag)  # where that is allowed, so that there is something to come back to
    before = os.readlink(f"/proc/self/ns/{kind}")
    why = {}
    for pid in sorted({1, os.getppid(), *OURS, *THEIRS}):
        try:
            descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
        except OSError as error:
            why[error.strerror] = pid
            continue
        libc.setns(descriptor, 0)
        why[errno.errorcode.get(ctypes.get_errno(), "no error")] = pid
        if os.readlink(f"/proc/self/ns/{kind}") != before:
            return f"ESCAPED entered the {kind} namespace of process {pid}"
    return f"HELD {kind}: {', '.join(why)}"
kinds = {"uts": 0x4000000, "mnt": 0x20000, "net": 0x40000000, "ipc": 0x8000000, "pid": 0, "user": 0}
said = [in_child(lambda: enter(kind, flag)) for kind, flag in kinds.items()]
verdict([text[8:] for text in said if text.startswith("ESCAPED")], [text[5:] for text in said])
"""

_ROOT = """
def other(change):
    before = os.stat("/").st_dev, os.stat("/").st_ino
    try:
        why = change()
    except OSError as error:
        why = error.strerror
    return "ESCAPED another root folder" if (os.stat("/").st_dev, os.stat("/").st_ino) != before else f"HELD {why}"
def pivot():
    if not libc.unshare(0x20000):
        libc.mount(None, b"/", None, 0x4000 | 1 << 18, None)  # private: what follows shows nowhere else
        libc.mount(os.getcwd().encode(), os.getcwd().encode(), None, 4096, None)
        os.chdir(os.getcwd())
    return raw(41 if ARM else 155, b".", b".")[1]
said = [in_child(lambda: other(lambda: os.chroot("."))), in_child(lambda: other(pivot))]
verdict([f"{text[8:]}" for text in said if text.startswith("ESCAPED")], [text[5:] for text in said])
"""

_UIDS = """
def change(call, look, values):
    before, why = look(), "no error"
    for value in values:
        try:
            call(value)
            if look() != before:
                return f"ESCAPED {call.__name__} changed {before} to {look()}"
        except OSError as error:
            why = error.strerror
    return f"HELD {call.__name__}: {why}"
said = [
    in_child(lambda: change(os.setgroups, os.getgroups, ([0], [4242]))),
    in_child(lambda: change(os.setgid, os.getgid, (0, 1, 4242))),
    in_child(lambda: change(os.setuid, os.getuid, (0, 1, 4242))),
]
verdict([text[8:] for text in said if text.startswith("ESCAPED")], [text[5:] for text in said])
"""

_SETUID_PROGRAM = """
import stat
found, why, tried = [], [], []
for folder in ("/usr/bin", "/usr/sbin", "/bin"):
    for name in os.listdir(folder) if os.path.isdir(folder) and not os.path.islink(folder) else []:
        mode = os.lstat(f"{folder}/{name}").st_mode
        if stat.S_ISREG(mode) and mode & stat.S_ISUID and len(tried) < 5:
            tried.append(f"{folder}/{name}")
for path in tried:
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(write, True)  # full: the program waits in its first print, where it can be looked at
    try:
        process = subprocess.Popen([path, "--help"], stdin=subprocess.DEVNULL, stdout=write, stderr=write)
    except OSError as error:
        why.append(f"{path}: {error.strerror}")
        continue
    time.sleep(0.15)
    uid, rights = os.stat(f"/proc/{process.pid}").st_uid, None
    try:
        with open(f"/proc/{process.pid}/status") as file:
            about = dict(line.rstrip().split(":", 1) for line in file)
        uid, rights = int(about["Uid"].split()[1]), about["CapEff"].strip()
    except OSError:
        pass  # without namespaces: /proc of another pid is closed, but says whose it is
    process.kill()
    process.wait()
    if uid != os.geteuid() or int(rights or "0", 16):
        found.append(f"{path} runs as uid {uid} with capabilities {rights}")
    if rights is not None or uid:
        why.append(f"{path} runs as uid {uid} with capabilities {rights}")
if found or why:
    verdict(found, why)
else:
    print("NOT RUN", "what they gain cannot be seen here: it is uid 0 already" if tried else "there is no set-uid program")
"""

_EMPTY = """
def looked(text):
    about = dict(line.rstrip().split(":", 1) for line in text.splitlines())
    wanted = dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0) | {"NoNewPrivs": 1, "Seccomp": 2}
    return [f"{key} is {about[key].strip()}" for key, value in wanted.items() if int(about[key], 16) != value]
with open("/proc/self/status") as file:
    wrong = looked(file.read())
code = "print(open('/proc/self/status').read(), end='')"
child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
if child.returncode == 0:  # without namespaces /proc of another pid cannot be read
    wrong += [f"after exec {text}" for text in looked(child.stdout)]
verdict(wrong, ["all sets are empty"])
"""

_CALL = """
def judged(result, why):
    # only what was refused is held; another error came from the kernel itself, which proves neither
    if result >= 0:
        return f"ESCAPED the call worked: {result}"
    if why in ("EPERM", "EACCES"):
        return f"HELD {why}"
    return f"NOT RUN {why}: this kernel has no such call, or wants other arguments"
"""
_CALLS = {
    "io-uring": "raw(425, 8, ctypes.create_string_buffer(120))",
    "userfaultfd": "raw(282 if ARM else 323, os.O_CLOEXEC | 1)",
    "add-key": 'raw(217 if ARM else 248, b"user", b"x", b"y", 1, -2)',  # in this process's own ring
    "keyctl": "raw(219 if ARM else 250, 0, -2, 1)",
    "bpf": "raw(280 if ARM else 321, 0, (ctypes.c_uint32 * 32)(2, 4, 4, 1), 128)",  # an array of one number
    "perf": "raw(241 if ARM else 298, (ctypes.c_uint32 * 32)(1, 128, *[0] * 8, 96), 0, -1, -1, 0)",  # its own CPU clock
}
_HANDLE = """
handle, mount = ctypes.create_string_buffer(136), ctypes.c_int()
handle[0:4] = (128).to_bytes(4, sys.byteorder)
result, why = raw(264 if ARM else 303, -100, os.getcwd().encode(), ctypes.byref(handle), ctypes.byref(mount), 0)
if result < 0:  # a handle as any program can write it down: inode 2 of this file system, as a rule its top
    handle[0:16] = b"".join(number.to_bytes(4, sys.byteorder) for number in (8, 1, 2, 0))
result, opened = raw(265 if ARM else 304, os.open(".", os.O_RDONLY), ctypes.byref(handle), os.O_RDONLY)
print("ESCAPED may open files by handle (a stale one was looked up)" if opened == "ESTALE" else judged(result, f"{opened}"))
"""
_MODULE = """
said = []
for call, (result, why) in {
    "kexec_load": raw(104 if ARM else 246, 0, 65535, None, 0xFFF),
    "init_module": raw(105 if ARM else 175, ctypes.create_string_buffer(16), 16, b""),
    "finit_module": raw(273 if ARM else 313, -1, b"", 0),
}.items():
    # a right is asked for before the nonsense is looked at
    said.append(f"{'HELD' if why == 'EPERM' else 'NOT RUN' if why == 'ENOSYS' else 'ESCAPED'} {call}: {why}")
print(next((text for text in said if text.startswith("ESCAPED")), said[1]))
"""

_PROC_SYS = """
import glob
found, why, seen = [], [], 0
names = "kernel/hostname kernel/core_pattern kernel/sysrq kernel/randomize_va_space kernel/yama/ptrace_scope vm/overcommit_memory " \\
    "vm/swappiness fs/suid_dumpable net/ipv4/ip_forward net/ipv4/ip_unprivileged_port_start user/max_user_namespaces"
paths = [f"/proc/sys/{name}" for name in names.split()]
paths += ["/sys/kernel/mm/transparent_hugepage/enabled", *glob.glob("/sys/block/*/queue/read_ahead_kb")[:1], "/sys/power/state"]
for path in paths:
    try:
        with open(path) as file:
            value = file.read().strip()
        value = value[value.index("[") + 1 : value.index("]")] if "[" in value else value
        with open(path, "w") as file:
            if path != "/sys/power/state":
                file.write(value)  # what it is already
        found.append(f"wrote {path}")
    except OSError as error:
        why.append(error.strerror)
verdict(found, why)
"""

_SYSRQ = """
try:
    os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))
    print("ESCAPED /proc/sysrq-trigger can be opened for writing")
except FileNotFoundError as error:
    print("NOT RUN this kernel has none, or it is out of sight:", error)
except OSError as error:
    print("HELD", error)
"""

_CGROUP = """
import glob
def groups():
    with open("/proc/self/cgroup") as file:
        return file.read()
def leave():
    before, why = groups(), "no group is in sight"
    for path in ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs", *mounts):
        try:
            with open(path, "w") as file:
                file.write(str(os.getpid()))
        except OSError as error:
            why = error.strerror
        if groups() != before:
            return f"ESCAPED left its control group through {path}"
    return f"HELD {why}"
try:
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split()[4] + "/cgroup.procs" for line in file if " - cgroup" in line]
except OSError:
    mounts = []
print(in_child(leave))
"""

_TIOCSTI = """
import fcntl
found, why = [], []
def inject(descriptor):
    # without a byte to take: EFAULT says that one would have been taken, and nobody's terminal gets any
    return raw(29 if ARM else 16, descriptor, 0x5412, 0)[1]
try:
    theirs = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
except OSError:
    theirs = None
for descriptor in range(1024):
    if os.isatty(descriptor):
        why.append(f"descriptor {descriptor}: {inject(descriptor)}")
        if why[-1].endswith("EFAULT"):
            found.append(f"the terminal of descriptor {descriptor} takes input from here")
def own():
    os.setsid()
    try:
        main, terminal = os.openpty()
        fcntl.ioctl(terminal, 0x540E, 0)
        fcntl.ioctl(terminal, 0x5412, b"\\n")
    except OSError as error:
        return f"NOT RUN {error}: not known any more" if error.errno == errno.EIO else f"HELD own terminal: {error}"
    return "ESCAPED its own terminal took a line" if os.read(terminal, 4) == b"\\n" else "HELD nothing came"
print("ESCAPED " + "; ".join(found) if found else in_child(own))
"""

_CORE = """
import glob
def die(command):
    pid = os.fork()
    if pid == 0:
        for wanted in ((resource.RLIM_INFINITY,) * 2, (1 << 30,) * 2):
            try:
                resource.setrlimit(resource.RLIMIT_CORE, wanted)
            except (OSError, ValueError):
                pass
        quiet = os.open("/dev/null", os.O_RDWR)
        os.dup2(quiet, 2)
        if command:
            os.execv(command[0], command)  # what is loaded anew may be dumped again
        os.abort()
    return os.waitpid(pid, 0)[1]
def cores():
    return {path for folder in (os.getcwd(), "/tmp", "/") for path in glob.glob(f"{folder}/core*") if os.path.isfile(path)}
before = cores()
statuses = [die([]), die([sys.executable, "-c", "import os; os.abort()"]), die(["/bin/sh", "-c", "kill -ABRT $$"])]
files = sorted(cores() - before)
for path in glob.glob(f"{os.getcwd()}/core*"):
    os.unlink(path)
found = [f"core file {path}" for path in files] + [f"the kernel dumped or ran a handler: {s:#x}" for s in statuses if os.WCOREDUMP(s)]
verdict(found, [f"ended by signal {os.WTERMSIG(s)}, nothing dumped" for s in statuses])
"""

_PERSONALITY = """
def change():
    libc.personality(ctypes.c_ulong(0x0040000))
    why = errno.errorcode.get(ctypes.get_errno(), "no error")
    now = libc.personality(ctypes.c_ulong(0xFFFFFFFF))
    return "ESCAPED addresses are no longer random" if now > 0 and now & 0x0040000 else f"HELD {why}"
print(in_child(change))
"""

_CLOCK = """
try:
    time.clock_settime_ns(time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_REALTIME))  # what it is already
    print("ESCAPED the clock can be set")
except OSError as error:
    print("HELD", error)
"""

FAMILY: tuple[Attack, ...] = tuple(
    script(name, "rights", about, KNOW + code)
    for name, about, code in (
        ("mount", "mount a tmpfs", _MOUNT),
        ("unshare-user", "a user namespace, and with it every capability inside", _NAMESPACES + _UNSHARE),
        ("unshare", "a mount, network or other namespace", _OTHER_NAMESPACES + _UNSHARE),
        ("clone", "a user namespace by clone and clone3", _CLONE),
        ("setns", "enter the namespaces of pid 1 and others", _SETNS),
        ("other-root", "chroot and pivot_root", _ROOT),
        ("other-user", "become another user or group", _UIDS),
        ("set-uid-program", "gain rights by a set-uid program", _SETUID_PROGRAM),
        ("nothing-kept", "a capability left, no_new_privs or the filter missing", _EMPTY),
        ("handles", "open a file by its handle, past every mount", _CALL + _HANDLE),
        ("kernel-code", "kexec_load, init_module and finit_module with nonsense", _MODULE),
        ("proc-sys", "write the kernel's settings, as they are already", _PROC_SYS),
        ("sysrq", "open the kernel's emergency keys", _SYSRQ),
        ("leave-cgroup", "leave the control group and its limits", _CGROUP),
        ("typed-input", "type into a terminal with TIOCSTI", _TIOCSTI),
        ("core-dump", "a core file, or the host's handler of crashes", _CORE),
        ("personality", "switch off random addresses", _PERSONALITY),
        ("clock", "set the clock", _CLOCK),
        *((name, f"call {name} of the kernel", f"{_CALL}print(judged(*{call}))\n") for name, call in _CALLS.items()),
    )
)
