"""What is worth a question, by the dotted name of what is used: the longest prefix decides."""

from typing import NamedTuple


class Rule(NamedTuple):
    """A family of findings, and what is said."""

    kind: str
    why: str


SEVERITY = {
    "introspection": 9.0, "monkeypatch": 9.0, "raw_memory": 8.0, "kept_result": 8.0, "dynamic_code": 7.0, "process": 7.0,
    "cache_by_pointer": 7.0, "thread_left": 6.0, "network": 6.0, "environment": 5.0, "clock": 5.0, "file_write": 5.0,
    "opaque_file": 4.0, "global_setting": 3.0, "file_read": 3.0, "syntax_error": 3.0, "cache_by_shape": 2.0,
}  # fmt: skip
"""Rank of a family, 10 the gravest: findings are sorted by it. It is no measurement."""

_WHY = {
    "introspection": "looks at the program that calls it, which must not matter to a result",
    "raw_memory": "works with addresses instead of tensors",
    "process": "starts, signals or outlives processes",
    "thread_left": "starts what runs beside the call",
    "network": "talks to a network, which is not there",
    "environment": "makes the result depend on where it runs",
    "clock": "reads or waits for a clock, so that what runs may depend on being timed",
    "file_write": "leaves a file, which may carry something into a later call",
    "file_read": "reads a file: what it returns may not be computed",
    "dynamic_code": "runs code that is not in the patch as text",
    "monkeypatch": "changes a library or another module for everybody in the process",
    "global_setting": "changes a setting for everything else in the process",
}
_OS = {
    "process": "fork forkpty kill killpg system popen abort _exit register_at_fork setsid nice sched_setaffinity pidfd_open execv execve "
    "execvp execvpe execl execle execlp spawnv spawnve spawnl spawnle spawnvp spawnlp posix_spawn posix_spawnp waitpid wait",
    "environment": "environ environb getenv getenvb getpid getppid uname getlogin getuid cpu_count sched_getaffinity getloadavg times",
    "file_write": "open write mkdir makedirs mkfifo remove unlink rename renames replace rmdir removedirs symlink link truncate ftruncate "
    "memfd_create chmod utime",
    "file_read": "listdir scandir walk read stat",
}
_NAMES = {
    "introspection": "sys._getframe sys._current_frames sys._getframemodulename sys.settrace sys.setprofile sys.gettrace sys.getprofile "
    "sys.modules sys.meta_path sys.path_hooks sys.addaudithook sys.monitoring sys.exc_info sys.last_traceback inspect gc builtins.globals "
    "builtins.vars traceback.extract_stack traceback.walk_stack traceback.print_stack traceback.format_stack threading.settrace "
    "threading.setprofile threading.enumerate faulthandler tracemalloc sys.getrefcount torch.overrides torch.utils._python_dispatch",
    "raw_memory": "ctypes _ctypes cffi mmap numpy.ctypeslib numpy.memmap torch.frombuffer torch.utils.dlpack multiprocessing.shared_memory",
    "process": "subprocess multiprocessing signal atexit pty concurrent.futures.ProcessPoolExecutor torch.multiprocessing resource "
    "weakref.finalize faulthandler.dump_traceback_later",
    "thread_left": "_thread.start_new_thread threading.Timer",
    "network": "socket urllib.request http.client requests httpx aiohttp ftplib smtplib socketserver",
    "environment": "platform sys.argv sys.flags sys.orig_argv getpass locale",
    "clock": "time.time time.time_ns time.monotonic time.monotonic_ns time.perf_counter time.perf_counter_ns time.process_time "
    "time.process_time_ns time.thread_time time.thread_time_ns time.clock_gettime time.clock_gettime_ns time.sleep time.localtime "
    "time.gmtime time.ctime timeit datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today datetime.date.today "
    "torch.cuda.Event triton.testing.do_bench torch.utils.benchmark",
    "file_write": "shutil tempfile numpy.save numpy.savez numpy.savez_compressed numpy.savetxt torch.save pickle.dump json.dump "
    "sqlite3 shelve dbm logging.FileHandler",
    "file_read": "numpy.load numpy.fromfile numpy.loadtxt numpy.genfromtxt linecache pkgutil.get_data importlib.resources",
    "dynamic_code": "builtins.exec builtins.eval builtins.compile pickle marshal dill cloudpickle torch.load runpy code codeop "
    "types.FunctionType types.CodeType imp importlib.util.spec_from_loader importlib.util.spec_from_file_location "
    "importlib.machinery torch.utils.cpp_extension torch.compiler torch.jit.load base64.b85decode",
    "monkeypatch": "unittest.mock importlib.reload builtins.__build_class__",
    "global_setting": "numpy.seterr torch.set_num_threads torch.set_default_dtype torch.set_float32_matmul_precision torch.manual_seed "
    "torch.use_deterministic_algorithms torch.set_flush_denormal sys.setrecursionlimit sys.setswitchinterval warnings.filterwarnings "
    "warnings.simplefilter torch.set_grad_enabled torch.set_default_device numpy.random.seed random.seed",
}
_ALLOWED = ("inspect.signature", "inspect.cleandoc", "signal.Signals", "resource.getpagesize", "torch.compiler.is_compiling")
_ATTRIBUTES = {
    "introspection": "f_back f_globals f_locals f_code tb_frame gi_frame cr_frame __globals__ __closure__ __subclasses__ __builtins__ "
    "__code__ co_consts cell_contents",
    "raw_memory": "data_ptr from_address from_buffer __array_interface__ __cuda_array_interface__ untyped_storage",
    "file_write": "write_text write_bytes tofile",
    "file_read": "read_text read_bytes",
}

BY_NAME: dict[str, Rule | None] = {name: Rule(kind, _WHY[kind]) for kind, names in _NAMES.items() for name in names.split()}
BY_NAME |= {f"os.{name}": Rule(kind, _WHY[kind]) for kind, names in _OS.items() for name in names.split()}
BY_NAME |= dict.fromkeys(_ALLOWED)
BY_ATTRIBUTE = {name: Rule(kind, _WHY[kind]) for kind, names in _ATTRIBUTES.items() for name in names.split()}
SETTINGS = ("torch.backends", "triton.knobs")
"""Where a library keeps what is meant to be set."""


def of_name(dotted: str) -> Rule | None:
    """The rule for a dotted name; None when it is worth no question."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        prefix = ".".join(parts[:count])
        if prefix in BY_NAME:
            return BY_NAME[prefix]
    return None


def why(kind: str) -> str:
    """What is said of a family."""
    return _WHY[kind]
