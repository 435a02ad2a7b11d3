"""Widths, offsets, cubins handed in, targets and the cache of ``static``, in real cages. Figures are those of triton 3.9.0."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.profile import load as load_profile
from infra_agent.session.observation import Observation
from infra_agent.task.load import load
from infra_agent.task.tree import Tree
from tests.feedback.test_static import FIXTURES, Ask, Report, line_of, pack, request, square
from tests.feedback.test_static import ask as ask  # noqa: PLC0414 - the fixture
from tests.pairs.pair import TASKS
from tests.pairs.pair import ask as measure


def by_line(rows: list[Report], text: str, kind: str, file: str = "memory.py") -> Report:
    """The one row of a line of the fixture."""
    (row,) = [row for row in rows if (row["file"], row["line"], row["kind"]) == (file, line_of(file, text), kind)]
    return row


def flat(size: int) -> dict[str, np.ndarray]:
    return {"x": np.zeros(size, np.float32)}


def test_widths_by_line(ask: Ask) -> None:
    """LLVM numbers the lines of inline assembly itself: a masked load with a default would be found four lines further down."""
    (kernel,) = ask("memory:copied", flat(8192))["kernels"]
    wide, apart = (by_line(kernel["widths"], text, "load") for text in ("# wide", "# apart"))
    assert (wide["widest"], wide["narrowest"], wide["instructions"]) == (16, 16, 2)
    assert (apart["widest"], apart["narrowest"], apart["instructions"]) == (4, 4, 8)
    assert by_line(kernel["widths"], "# stores", "store")["narrowest"] == 16
    assert len(kernel["widths"]) == 3
    used = {row["line"]: row["allows_wide"] for row in kernel["accesses"]}
    assert used == {line_of("memory.py", "# wide"): True, line_of("memory.py", "# apart"): False, line_of("memory.py", "# stores"): True}
    assert kernel["other_float_instructions"] == 8


def test_pipelined_copies_are_loads(ask: Ask) -> None:
    half = {"a": np.zeros((128, 64), np.float16), "b": np.zeros((64, 256), np.float16)}
    (four, _) = ask("dots:spilling", half)["kernels"]
    for text in ("a = tl.load(a_ptr + rm[:, None] * sam", "b = tl.load(b_ptr + (k"):
        assert by_line(four["widths"], text, "load", "dots.py")["narrowest"] == 16


def test_contiguity_that_the_compiler_could_not_see(ask: Ask) -> None:
    (kernel,) = ask("memory:unspecialised", {"x": np.zeros((8, 512), np.float32)})["kernels"]
    assert by_line(kernel["widths"], "# could be wide", "load")["widest"] == 4
    assert by_line(kernel["accesses"], "# could be wide", "load")["allows_wide"]


def test_offsets_as_launched_and_at_other_shapes(ask: Ask) -> None:
    report = ask("memory:by_rows", {"x": np.zeros((64, 128), np.float32)}, shapes="x=65536x65536")
    (kernel,), (large,) = report["kernels"], report["at_shapes"]
    assert by_line(kernel["accesses"], "# by row", "load")["largest"] == 63 * 128 + 0  # the largest of what is added: row * stride, column
    assert all(row["computed_line"] == 0 for row in kernel["accesses"])
    far = by_line(large["accesses"], "# by row", "load")
    assert (far["computed_file"], far["computed_line"]) == ("memory.py", line_of("memory.py", "# by row"))
    assert (far["bits"], far["reaches"]) == (32, 65535 * 65536)
    store = next(row for row in large["accesses"] if row["kind"] == "store")
    assert (store["computed_line"], store["largest"]) == (0, 65535 * 65536)
    assert report["notes"] == [] == report["errors"]


def test_what_is_not_bounded_says_so(ask: Ask) -> None:
    (kernel,) = ask("memory:by_rows", {"x": np.zeros((64, 128), np.float32)})["kernels"]
    loaded = f"what tt.load gives at memory.py:{line_of('memory.py', 'other = tl.load')}"
    by_index, by_long = (by_line(kernel["accesses"], text, "load") for text in ("# by index", "# by long index"))
    assert (by_index["largest"], by_index["unbounded"], by_index["narrow"]) == (None, [loaded], True)
    assert (by_long["largest"], by_long["unbounded"], by_long["narrow"]) == (None, [loaded], False), "64 bits hold any index"
    guarded = by_line(kernel["accesses"], "# guarded", "load")
    assert (guarded["largest"], guarded["unbounded"]) == (2 * 99, []), "the mask bounds it"


def test_loops_that_add_are_bounded_and_others_are_not(ask: Ask) -> None:
    (kernel,) = ask("memory:walked", flat(256))["kernels"]
    far = by_line(kernel["accesses"], "# walks", "load")
    assert (far["largest"], far["computed_line"]) == (127 + 999 * 3_000_000, line_of("memory.py", "# steps"))
    double = by_line(kernel["accesses"], "# doubles", "load")
    assert double["largest"] is None and double["narrow"]
    assert double["unbounded"] == [f"what the loop at memory.py:{line_of('memory.py', 'for _ in range(n)')} carries"]


def test_shapes_that_cannot_be(ask: Ask) -> None:
    report = ask("memory:by_rows", {"x": np.zeros((64, 128), np.float32)}, shapes="z=4x4")
    assert len(report["kernels"]) == 1
    assert report["notes"] == ["at the shapes asked for: ValueError: shapes: no input z; inputs are x"]


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_every_target_gives_every_figure(ask: Ask, target: str) -> None:
    report = ask("memory:copied", flat(8192), target=target)
    (kernel,) = report["kernels"]
    assert report["max_shared_bytes"] == {"sm_80": 166912, "sm_90": 232448, "sm_100": 232448}[target]
    assert by_line(kernel["widths"], "# wide", "load")["narrowest"] == 16
    assert 0 < kernel["registers"] <= 255 and kernel["spills"] == []


@pytest.fixture(scope="module")
def cubins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Cubins of the fixtures, compiled in a process of their own by Triton itself; one in its cache may name another checkout's files."""
    import os
    import subprocess
    import sys

    program = f"""
import sys; sys.path[:0] = [{str(Path(__file__).parents[2])!r}, {str(FIXTURES)!r}]
from triton.runtime.driver import driver
from feedback.static.device import Driver
driver.set_active(Driver(90))
import torch, dots, memory
a, b, c = torch.empty(128, 64).half(), torch.empty(64, 256).half(), torch.empty(128, 256)
given = (a, b, c, 128, 256, 64, 64, 1, 256, 1, 256, 1)
sizes = dict(BM=128, BN=256, BK=64, PRECISION='tf32', grid=(1, 1))
made = [dots.blocks.warmup(*given, **sizes, num_warps=warps) for warps in (4, 8)]
made.append(memory.copies.warmup(c, c, 4096, B=1024, grid=(4,)))
sys.stdout.buffer.write(repr([one.asm['cubin'] for one in made]).encode())
"""
    import ast

    fresh = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, check=True, env=fresh)
    return dict(zip(("four", "eight", "copies"), ast.literal_eval(done.stdout.decode()), strict=True))


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector(load(str(TASKS / "static")), seeds.new_secret()) as made:
        yield made


def tree(**files: bytes) -> Tree:
    """A workspace whose entry must not be called."""
    return {"work/__init__.py": b"", "work/entry.py": b"def run(x, w):\n    raise SystemExit('called')\n", **files}


def handed_in(collector: Collector, name: str, data: bytes, ask_for: str = "") -> Observation:
    files = tree(**{f"{name}.cubin": data})
    return measure(collector, "static", files, files, {"cubin": ask_for or f"{name}.cubin"})


def test_a_cubin_that_spills(collector: Collector, cubins: dict[str, bytes]) -> None:
    four = handed_in(collector, "four", cubins["four"])
    figures = {metric.name: metric.value for metric in four.metrics}
    assert (four.status, figures["registers.blocks"], figures["spilled.blocks"]) == ("pass", 255, 422 + 298)
    assert figures["HGMMA.blocks"] > 0
    assert {finding.kind for finding in four.findings} == {"spill"}
    assert all(str(finding.where).startswith(str(FIXTURES / "dots.py") + ":") for finding in four.findings)
    eight = handed_in(collector, "eight", cubins["eight"])
    assert eight.findings == () and {m.name: m.value for m in eight.metrics}["spilled.blocks"] == 0


def test_widths_in_a_cubin(collector: Collector, cubins: dict[str, bytes]) -> None:
    found = collector.static(tree(**{"a/b.cubin": cubins["copies"]}), "sm_90", {"cubin": "a/b.cubin"})
    (one,) = found.binaries
    assert one.name == "copies" and {width.kind: width.widest for width in one.widths if width.kind == "store"} == {"store": 16}
    assert {width.widest for width in one.widths if width.kind == "load"} == {16, 4}
    assert found.kernels == () and found.loaded == {}


@pytest.mark.parametrize(("path", "said"), [("no.cubin", "no such file"), ("../../etc/passwd", "no such file"), ("bad.cubin", "cuobjdump")])
def test_a_cubin_that_is_none(collector: Collector, path: str, said: str) -> None:
    seen = handed_in(collector, "bad", b"not a cubin", path)
    assert seen.status == "fail" and said in seen.findings[0].message


HEALTHY = (FIXTURES / "memory.py").read_bytes().replace(b"def copied(", b"def run(x, w):\n    return copied(x)\n\n\ndef copied(")


def test_the_second_look_is_free_and_the_gate_compiles_again(collector: Collector) -> None:
    """50 ms is what a cached look may cost; the first is bounded by 2 s once its cage is warm."""
    measure(collector, "static", tree(), tree(), {})  # starts the cages; compiles nothing
    files = {"work/__init__.py": b"", "work/entry.py": HEALTHY}
    began = time.monotonic()
    first = measure(collector, "static", files, files, {})
    between = time.monotonic()
    again = measure(collector, "static", dict(files), files, {})
    ended = time.monotonic()
    print(f"first look {between - began:.3f} s, second {ended - between:.4f} s")
    assert ended - between <= 0.05
    assert (first.metrics, first.findings, first.evidence) == (again.metrics, again.findings, again.evidence)
    asked: list[Any] = []
    kept, collector.run = collector.run, lambda *args, **more: asked.append(args[1]) or kept(*args, **more)  # type: ignore[method-assign]
    try:
        measure(collector, "static", files, files, {"target": "sm_80"})
        assert len(asked) == 1, "another target is another question, asked once for a tree that is candidate and base"
        collector.static_pair(files, files, "sm_90")
        assert len(asked) == 3, "a gate takes nothing that a look left"
        collector.static_pair(files, files, "sm_90")
        assert len(asked) == 4, "and compiles the candidate every time"
    finally:
        collector.run = kept  # type: ignore[method-assign]


def test_a_small_kernel_takes_less_than_two_seconds() -> None:
    """In a warm cage, the program's whole time."""
    cage = Cage(load_profile("triton-compile"))
    try:
        request(cage, "dots:in_helpers", {"a": square(3)})
        began = time.monotonic()
        result = request(cage, "dots:one_dot_each", save({"a": square(1), "b": square(2)}))
        took = time.monotonic() - began
    finally:
        cage.close()
    assert result.ok
    print(f"four kernels in {took:.2f} s: {result.text.decode().strip()}")
    assert took / 4 <= 2.0
    assert len(pack(FIXTURES)) > 0
