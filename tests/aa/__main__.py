"""Time equal programs, and a program with 3 % more work, many times: ``python -m tests.aa``. Exit 1 when a bar is missed.

Every trial is a whole timing verdict with fresh contents: warm cages, looks, fitness.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from infra_agent.judge import seeds, standing, timing
from infra_agent.judge.collector import Collector
from infra_agent.judge.statistics import clopper_pearson
from infra_agent.task.load import load
from infra_agent.task.tree import read_folder

TASKS = Path(__file__).resolve().parent / "tasks"
WORKLOADS = ("matmul", "loop", "softmax")
MORE = (b"STEPS = 5_000", b"STEPS = 5_150")
"""Three per cent more work, exactly."""
_FALSE_SHARE = 0.005
_FALSE_BESIDE_NEIGHBOUR = 0.01
_OPEN_SHARE = 0.2
_POWER_SHARE = 0.9
_SPIN = "import array\nx = array.array('d', range(1 << 20))\nwhile True:\n    x = x[::-1]\n"


def trials(workload: str, count: int, more: bool) -> Iterator[dict[str, Any]]:
    """``count`` verdicts on one workload."""
    task = load(str(TASKS / workload))
    base = read_folder(task.workspace)
    tree = {path: data.replace(*MORE) for path, data in base.items()} if more else base
    assert task.spec.timing
    assert not more or tree != base, "more work must be another program"
    with Collector(task, seeds.new_secret()) as collector:
        collector.warm()
        for _ in range(count):
            began = time.monotonic()
            record = standing.timing(collector, tree, base, collector.public_case("only"))
            found = timing.assess(record, task.spec.timing, task.spec)
            yield {
                "workload": workload, "more": more, "claim": found.claim, "status": found.status, "message": found.message,
                "restarts": len(record.restarts), "seconds": time.monotonic() - began,
                "effect": found.interval.effect if found.interval else None,
            }  # fmt: skip


def job(number: int, cores: int, count: int, more: int, workloads: list[str]) -> None:
    """One process: its share of each of ``workloads``, a line of JSON for each verdict."""
    there = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(there[cores * number : cores * (number + 1)]) or set(there))
    plan = [trials(workload, count, False) for workload in workloads if count] + ([trials("loop", more, True)] if more else [])
    for turn in zip_longest(*plan):  # in turns: a run that is stopped has seen as much of each
        for found in filter(None, turn):
            print(json.dumps(found), flush=True)


def run(jobs: int, cores: int, verdicts: int, power: int, neighbour: bool, limit_s: float, workloads: list[str]) -> list[dict[str, Any]]:
    """All jobs side by side. What is not done after ``limit_s`` is left out, and said."""
    share, more = -(-verdicts // (jobs * len(workloads))), -(-power // jobs)
    argv = [sys.executable, "-m", "tests.aa", "--verdicts", str(share), "--power", str(more), "--cores", str(cores)]
    argv += ["--workloads", *workloads, "--job"]
    spinning = [subprocess.Popen([sys.executable, "-c", _SPIN], text=True) for _ in range(jobs if neighbour else 0)]
    running = [subprocess.Popen([*argv, str(n)], stdout=subprocess.PIPE, text=True) for n in range(jobs)]
    found, deadline = [], time.monotonic() + limit_s
    for process in running:
        try:
            said, _ = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.terminate()
            said, _ = process.communicate()
            print(f"a job was stopped after {limit_s:.0f} s")
        found += [json.loads(line) for line in said.splitlines() if line.endswith("}")]
    for process in spinning:
        process.kill()
        process.wait()
    return found


def _share(hits: int, trials: int) -> str:
    if not trials:
        return "0 of 0"
    low, high = clopper_pearson(hits, trials)
    return f"{hits} of {trials} [{low:.2%}, {high:.2%}]"


def _claims(found: list[dict[str, Any]], *claims: str) -> int:
    return sum(trial["claim"] in claims for trial in found)


def report(found: list[dict[str, Any]], neighbour: bool) -> int:
    """Print figures by workload and the last line; 1 when a bar is missed."""
    same, more = ([trial for trial in found if trial["more"] is slower] for slower in (False, True))
    for workload in WORKLOADS:  # each by itself: a pool must not hide one
        mine = [trial for trial in same if trial["workload"] == workload]
        if mine:
            false, undecided = _claims(mine, "faster", "slower"), _claims(mine, "undecided")
            restarts, seconds = (sum(trial[key] for trial in mine) / len(mine) for key in ("restarts", "seconds"))
            print(
                f"{workload:<8} false {_share(false, len(mine))}, inconclusive {_share(undecided, len(mine))}, "
                f"{restarts:.0f} restarts and {seconds:.1f} s a verdict"
            )
    false, undecided = _claims(same, "faster", "slower"), _claims(same, "undecided")
    print(f"{'all':<8} false {_share(false, len(same))}, inconclusive {_share(undecided, len(same))}")
    hits = _claims(more, "slower")
    if more:
        print(f"{'3 % more':<8} found {_share(hits, len(more))}, called faster {_claims(more, 'faster')}")
    print(f"aa: {false} false of {len(same)}; power {hits} of {len(more)} at 3 %")
    allowed = (_FALSE_BESIDE_NEIGHBOUR if neighbour else _FALSE_SHARE) * len(same)
    missed = false > allowed or (not neighbour and undecided > _OPEN_SHARE * len(same)) or hits < _POWER_SHARE * len(more)
    return int(missed)


def main() -> int:
    """Run it; see the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verdicts", type=int, default=1000, help="verdicts on equal programs, over all workloads")
    parser.add_argument("--power", type=int, default=100, help="verdicts on a program with 3 %% more work")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help="which equal programs to time")
    parser.add_argument("--jobs", type=int, default=0, help="verdicts at a time; 0 for as many as there are cores for")
    parser.add_argument("--cores", type=int, default=2, choices=(1, 2), help="cores of each: 1 puts the judge on the cages' core")
    parser.add_argument("--neighbour", action="store_true", help="beside busy processes that are pinned nowhere, one for each job")
    parser.add_argument("--limit-s", type=float, default=86_400.0, help="stop after so many seconds with what there is")
    parser.add_argument("--out", type=Path, help="write every verdict there, a JSON line each")
    parser.add_argument("--pool", type=Path, nargs="+", help="time nothing: put earlier --out files together")
    parser.add_argument("--job", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job is not None:
        job(given.job, given.cores, given.verdicts, given.power, given.workloads)
        return 0
    if given.pool:
        found = [json.loads(line) for path in given.pool for line in path.read_text().splitlines()]
    else:
        jobs = given.jobs or max(1, len(os.sched_getaffinity(0)) // given.cores)
        found = run(jobs, given.cores, given.verdicts, given.power, given.neighbour, given.limit_s, given.workloads)
    if given.out:
        given.out.write_text("".join(json.dumps(trial) + "\n" for trial in found))
    return report(found, given.neighbour)


if __name__ == "__main__":
    sys.exit(main())
