"""Instrument ``hang``: evidence kind ``report``. Advice for the model; no gate reads it."""

import faulthandler
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from feedback.hang import graph, locks, witness
from sandboxes.runtime import entry, request, spy, tensors
from sandboxes.runtime.observed import Observed

Array = np.ndarray
Told = dict[str, Any]
_WITNESS_S = 3.0
"""A witness that has not answered by then does not get the GIL."""
_FAULT_FILE = "hang-stacks"
_FAULT_LINE = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


def work(args: Told, inputs: dict[str, Array], say: Callable[[Any], None], orders: int) -> None:
    """The observed process: import the entry, call it once, say when each is done."""
    threading.current_thread().name = "main"
    locks.install()
    witness.start(say, orders)
    with open(_stacks(), "w") as file:
        faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)
        function = entry.load(args)
        say("loaded")
        began = time.perf_counter()
        entry.call(function, inputs, args["entry"].get("mutates", ()))
        say({"seconds": time.perf_counter() - began})


def _stacks() -> str:
    return f"{os.environ.get('TMPDIR', '/tmp')}/{_FAULT_FILE}"


def observe(args: Told, inputs: dict[str, Array], limit_s: float) -> Told:
    """The whole report."""
    child = Observed(lambda say, orders: work(args, inputs, say, orders))
    try:
        began = time.monotonic()
        doing, said = "importing the entry", child.hear(limit_s)
        if said == "loaded":
            began = time.monotonic()
            doing, said = "the call of the entry", child.hear(limit_s)
        if isinstance(said, dict):
            return _ended(said, limit_s)
        return _hung(child, doing, limit_s, began)
    finally:
        child.kill()


def _ended(said: Told, limit_s: float) -> Told:
    if "seconds" in said:
        seconds = float(said["seconds"])
        metrics = [{"name": "seconds", "value": seconds, "unit": "s", "target": limit_s}]
        return {"status": "pass", "headline": f"the entry ended after {seconds:.3g} s, within {limit_s:g} s", "metrics": metrics}
    how = said.get("error") or f"the process ended: {said.get('died')}"
    findings = []
    if said.get("at"):
        where = {"type": "line", "path": said["at"][0], "line": said["at"][1]}
        findings.append({"kind": "crashed", "where": where, "magnitude": 1.0, "message": how})
    return {"status": "fail", "headline": f"the entry failed: {how}"[:400], "findings": findings}


def _hung(child: Observed, doing: str, limit_s: float, began: float) -> Told:
    """Ask the witness, then py-spy; where the witness gets no GIL only those that need none are left."""
    child.tell()
    answer = child.hear(_WITNESS_S)
    if isinstance(answer, dict) and "seconds" in answer:
        return {"status": "inconclusive", "headline": f"{doing} ended just after its {limit_s:g} s; give it a longer limit_s"}
    elapsed, refusal, seen = time.monotonic() - began, "", []
    try:
        seen = spy.dump(child.pid)
    except spy.SpyError as error:
        refusal = str(error)
    told = isinstance(answer, dict) and "threads" in answer
    threads = _with_native(answer["threads"], seen) if told else _without_gil(seen, child) if seen else _from_faulthandler(child)
    for thread in threads:
        thread["state"] = _state(child.pid, thread.get("native_id"))
    findings = graph.findings(threads, elapsed)
    gaps = "" if told else "; no thread could be asked, one keeps the GIL"
    gaps += f"; C functions are not named: {refusal}" if refusal else ""
    first = findings[0]["message"] if findings else "no thread could be looked at"
    headline = f"{doing} did not end within {limit_s:g} s{gaps}; {first}"
    return {"status": "fail", "headline": headline[:400], "findings": findings, "data": {"threads": threads, "not_named": refusal}}


def _with_native(threads: list[Told], seen: list[Told]) -> list[Told]:
    """What the witness told, and the C function of each thread that waits for nothing it knows."""
    by_id = {thread["native_id"]: thread for thread in seen}
    for thread in threads:
        look = by_id.get(thread["native_id"])
        frame = spy.called(look["stack"]) if look else None
        thread["native"] = spy.spelled(frame) if frame else ""
    return threads


def _without_gil(seen: list[Told], child: Observed) -> list[Told]:
    """What py-spy saw, told as the witness would: one thread has the GIL, the others wait for it or in C."""
    holder = next((thread for thread in seen if thread["owns_gil"]), None)
    threads = []
    for look in seen:
        if look["name"] == witness.NAME:
            continue
        frame = spy.called(look["stack"])
        about: Told = {"ident": look["ident"], "name": look["name"], "native_id": look["native_id"], "order": 0, "waited_s": 0.0}
        about |= {"place": spy.workspace_place(look["stack"]), "function": "", "native": spy.spelled(frame) if frame else ""}
        about |= {"owns_gil": look["owns_gil"], "waits": None, "main": look["native_id"] == child.pid}
        about["cpu_s"] = _cpu(child.pid, look["native_id"])
        if holder and look is not holder and spy.waits_for_gil(look["stack"]):
            held_in = spy.called(holder["stack"])
            held = {
                "thread": holder["ident"],
                "at": spy.workspace_place(holder["stack"]),
                "native": spy.spelled(held_in) if held_in else "",
            }
            about["waits"] = {"kind": "gil", "what": "the GIL", "held": held}
        threads.append(about)
    return threads


def _from_faulthandler(child: Observed) -> list[Told]:
    """Python stacks as a signal handler prints them, without names: it needs no GIL. Innermost frame first."""
    os.kill(child.pid, signal.SIGUSR1)
    time.sleep(0.5)
    with open(_stacks()) as file:
        blocks = re.split(r"\n(?=(?:Current t|T)hread 0x)", "\n" + file.read())
    threads = []
    for block in blocks:
        head = re.search(r"hread 0x([0-9a-f]+)", block)
        frames = [match.groups() for line in block.splitlines() if (match := _FAULT_LINE.match(line))]
        if head and not any(path.endswith("feedback/hang/witness.py") for path, _, _ in frames):
            own = next(([entry.relative(path), int(line)] for path, line, _ in frames if path.startswith(request.WORKSPACE + "/")), None)
            name = f"0x{head[1][-8:]}"
            threads.append(
                {"ident": int(head[1], 16), "name": name, "native_id": None, "order": 0, "waited_s": 0.0, "place": own, "waits": None}
            )
            threads[-1] |= {"function": frames[0][2] if frames else "", "cpu_s": 0.0}
    return threads


def _stat(pid: int, thread: int) -> list[bytes]:
    with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
        return file.read().rsplit(b")", 1)[1].split()


def _state(pid: int, thread: int | None) -> str:
    """The kernel's letter for what a thread does: R runs, S sleeps; "" when it cannot be read."""
    try:
        return _stat(pid, thread)[0].decode() if thread else ""
    except OSError:
        return ""


def _cpu(pid: int, thread: int) -> float:
    """CPU time of a thread, in s."""
    try:
        fields = _stat(pid, thread)
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Leave the report of the request at hand."""
    asked = request.current()
    limit_s = min(60.0, max(0.2, float(asked.args.get("limit_s", 5.0))))
    report = observe(asked.args, tensors.read(asked.sections["inputs"]), limit_s)
    asked.write_report(json.dumps(report, allow_nan=False).encode())


if __name__ == "__main__":
    main()
