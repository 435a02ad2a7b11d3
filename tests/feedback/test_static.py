"""The static instrument in real cages. Figures are those of triton 3.9.0 and the ptxas it carries."""

import ast
import io
import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from infra_agent.sandbox.cage import Cage, Result
from infra_agent.sandbox.profile import load

FIXTURES = Path(__file__).parent / "kernels_static"
KDA = Path(__file__).parents[2] / "tasks" / "kda-cp-tf32" / "workspace"
Report = dict[str, Any]
Ask = Callable[..., Report]


def pack(folder: Path) -> bytes:
    """A tar of a folder's files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tree:
        tree.add(folder, arcname=".")
    return buffer.getvalue()


def square(seed: int, side: int = 64) -> np.ndarray:
    """A float32 matrix."""
    return np.random.default_rng(seed).standard_normal((side, side)).astype(np.float32)


def line_of(file: str, text: str) -> int:
    """The line of a fixture that contains ``text``; it must be one."""
    lines = [number for number, line in enumerate((FIXTURES / file).read_text().splitlines(), 1) if text in line]
    assert len(lines) == 1, (text, lines)
    return lines[0]


def request(
    cage: Cage, entry: str, inputs: bytes | dict[str, np.ndarray], target: str = "sm_90", folder: Path = FIXTURES, **more: str
) -> Result:
    """Run the instrument on ``entry`` ("module:callable") of the workspace ``folder``; ``more``: its other arguments."""
    module, _, callable_name = entry.partition(":")
    args = {"entry": {"module": module, "callable": callable_name}, "target": target, **more}
    data = inputs if isinstance(inputs, bytes) else save(inputs)
    return cage.run("feedback.static", args, {"tree": pack(folder), "inputs": data})


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Runs the instrument and returns its report; each request has a fresh namespace and an empty compile cache."""
    cage = Cage(load("triton-compile"))

    def run(*args: Any, **kwargs: Any) -> Report:
        nonlocal cage
        if not cage.alive:
            cage = Cage(load("triton-compile"))
        result = request(cage, *args, **kwargs)
        assert result.ok, result.text.decode(errors="replace")[-3000:]
        return json.loads(result.report)

    yield run
    cage.close()


def counts(report: Report) -> dict[str, tuple[int, int]]:
    """Precision -> (tensor-core, FMA) instructions of a kernel that is compiled once per precision."""
    return {
        kernel["constexprs"]["PRECISION"]: (kernel["tensor_core_instructions"], kernel["fma_instructions"]) for kernel in report["kernels"]
    }


def test_one_dot_at_each_precision(ask: Ask) -> None:
    report = ask("dots:one_dot_each", {"a": square(1), "b": square(2)})
    assert report["errors"] == []
    assert len(report["kernels"]) == 4, "a repeated launch is one kernel"
    # 64*64*64 multiply-adds over 128 threads are 2048 a thread; wgmma m64n64k8 takes eight steps, three times for tf32x3;
    # k16 takes four, three times for bf16x3 (which Triton moves to the line of its operand)
    assert counts(report) == {"ieee": (0, 2048), "tf32": (8, 0), "tf32x3": (24, 0), "bf16x3": (12, 0)}
    line = line_of("dots.py", "tl.load(a_ptr + tile), tl.load(b_ptr + tile)")
    for kernel in report["kernels"]:
        precision = kernel["constexprs"]["PRECISION"]
        unit = "fma" if precision == "ieee" else "tensor_core"
        assert kernel["dots"] == [{"file": "dots.py", "line": line, "precision": precision, "operand": "fp32", "unit": unit}]
        assert kernel["signature"] == {
            "a_ptr": "*fp32", "b_ptr": "*fp32", "c_ptr": "*fp32", "PRECISION": "constexpr", "N": "constexpr"
        }  # fmt: skip
        assert (kernel["name"], kernel["file"], kernel["line"]) == ("square", "dots.py", line_of("dots.py", "def square("))
        assert kernel["num_warps"] == 4
    assert list(report["loaded"]) == ["dots.py"]


def test_blocks_of_32_count_as_measured(ask: Ask) -> None:
    """MEASURED says 8 and 21 for tf32 and tf32x3: those are all wgmma lines; 4 and 12 of them multiply."""
    report = ask("dots:blocks_of_32", {"a": square(1), "b": square(2)})
    assert counts(report) == {"ieee": (0, 1024), "tf32": (4, 0), "tf32x3": (12, 0)}
    assert {name: value for name, value in report["kernels"][0]["constexprs"].items() if name in ("sak", "BK")} == {"sak": 1, "BK": 32}


@pytest.mark.parametrize(("target", "tf32", "ieee"), [("sm_80", 64, 2048), ("sm_100", 8, 2048)])
def test_other_targets(ask: Ask, target: str, tf32: int, ieee: int) -> None:
    report = ask("dots:one_dot_each", {"a": square(1), "b": square(2)}, target=target)
    assert report["target"] == target
    assert counts(report)["tf32"] == (tf32, 0)
    assert counts(report)["ieee"][0] == 0
    assert counts(report)["ieee"][1] == ieee
    assert {dot["unit"] for kernel in report["kernels"] for dot in kernel["dots"] if dot["precision"] != "ieee"} == {"tensor_core"}
    assert {dot["unit"] for kernel in report["kernels"] for dot in kernel["dots"] if dot["precision"] == "ieee"} == {"fma"}


def test_spills_are_tied_to_lines(ask: Ask) -> None:
    half = {"a": np.zeros((128, 64), np.float16), "b": np.zeros((64, 256), np.float16)}
    four, eight = ask("dots:spilling", half)["kernels"]
    assert (four["num_warps"], four["registers"], four["stack_bytes"]) == (4, 255, 1080)
    assert (four["spill_stores"], four["spill_loads"]) == (422, 298)
    assert sum(spill["stores"] for spill in four["spills"]) == 422
    assert sum(spill["loads"] for spill in four["spills"]) == 298
    first, last = line_of("dots.py", "rm = tl.program_id(0)"), line_of("dots.py", "tl.store(c_ptr + rm[:, None]")
    assert all(spill["file"] == "dots.py" and first <= spill["line"] <= last for spill in four["spills"])
    assert len({spill["line"] for spill in four["spills"]}) > 5
    weights = [spill["stores"] + spill["loads"] for spill in four["spills"]]
    assert weights == sorted(weights, reverse=True)
    assert (eight["num_warps"], eight["registers"], eight["stack_bytes"]) == (8, 177, 0)
    assert (eight["spill_stores"], eight["spill_loads"], eight["spills"]) == (0, 0, [])
    assert {dot["operand"] for dot in four["dots"]} == {"fp16"}
    assert four["shared_bytes"] == 147456


def test_spills_in_library_code_are_tied_to_the_line_that_called_it(ask: Ask) -> None:
    """tl.sum lies in Triton's own files; the line to change is the workspace's."""
    (kernel,) = ask("dots:spilling_in_library_code", {"a": square(1)})["kernels"]
    assert kernel["spill_stores"] > 0
    assert kernel["registers"] <= 32
    lines = {spill["line"]: spill for spill in kernel["spills"]}
    assert {spill["file"] for spill in kernel["spills"]} == {"dots.py"}
    assert line_of("dots.py", "tl.cumsum(") in lines


def test_dots_in_helpers_and_unrolled_loops(ask: Ask) -> None:
    (kernel,) = ask("dots:in_helpers", {"a": square(3)})["kernels"]
    helper = line_of("dots.py", "return tl.dot(a, b")
    expected = Counter(
        {
            (line_of("dots.py", "+ tl.dot(a, a)"), "tf32", "tensor_core"): 1,
            (helper, "ieee", "fma"): 1,
            (helper, "tf32", "tensor_core"): 1,
            (line_of("dots.py", "c = tl.dot(a, c)"), "tf32", "tensor_core"): 2,
        }
    )
    assert Counter((dot["line"], dot["precision"], dot["unit"]) for dot in kernel["dots"]) == expected
    assert kernel["tensor_core_instructions"] == 4 * 8


def test_dots_that_cannot_be_told_apart_count_as_lost(ask: Ask) -> None:
    """An unrolled loop puts both dots at one place; when one of them stayed on FMA units, neither is vouched for."""
    (kernel,) = ask("dots:unrolled_at_two_precisions", {"a": square(3)})["kernels"]
    assert [(dot["precision"], dot["unit"]) for dot in kernel["dots"]] == [("ieee", "fma"), ("tf32", "fma")]
    assert (kernel["tensor_core_instructions"], kernel["fma_instructions"]) == (8, 2048)


def kda_inputs() -> dict[str, np.ndarray]:
    """Two ranks of three chunks of 64 tokens, K = V = 64."""
    rng = np.random.default_rng(5)
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("q", "k", "w", "u", "do"), (2, 3, 64, 64))
    shapes |= {"decay": (2, 3, 64), "s0": (64, 64), "ds_end": (64, 64)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def dot_lines(path: Path) -> dict[str, list[int]]:
    """Kernel -> lines of its tl.dot calls, read from the source."""
    functions = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    return {
        function.name: sorted(
            call.lineno for call in ast.walk(function) if isinstance(call, ast.Call) and ast.unparse(call.func) == "tl.dot"
        )
        for function in functions
    }


def test_kda_base_is_tf32_on_tensor_cores(ask: Ask) -> None:
    report = ask("kda.context_parallel:context_parallel", kda_inputs(), folder=KDA)
    assert report["errors"] == []
    names = [kernel["name"] for kernel in report["kernels"]]
    assert names == ["pre_process_forward", "pre_process_backward", "merge", "merge", "scan"]
    assert [kernel["constexprs"]["REVERSE"] for kernel in report["kernels"] if kernel["name"] == "merge"] == [False, True]
    lines = dot_lines(KDA / "kda" / "kernels.py")
    for kernel in report["kernels"]:
        assert sorted(dot["line"] for dot in kernel["dots"]) == lines[kernel["name"]]
        for dot in kernel["dots"]:
            assert dot["file"] == "kda/kernels.py"
            assert (dot["precision"], dot["operand"], dot["unit"]) == ("tf32", "fp32", "tensor_core")
        assert kernel["tensor_core_instructions"] == 8 * len(kernel["dots"])
        assert kernel["fma_instructions"] == 0
        assert kernel["shared_bytes"] <= 232448
    assert set(report["loaded"]) == {"kda/__init__.py", "kda/context_parallel.py", "kda/kernels.py"}


def test_a_kernel_that_does_not_compile_is_an_error(ask: Ask) -> None:
    report = ask("faults:two_refused", {"x": np.zeros(128, np.float32)})
    assert [kernel["name"] for kernel in report["kernels"]] == ["sound"]
    assert [error["kernel"] for error in report["errors"]] == ["refused_by_triton", "refused_by_ptxas"]
    by_triton, by_ptxas = (error["message"] for error in report["errors"])
    assert by_triton.startswith(f"faults.py:{line_of('faults.py', 'return x + half')}: ")
    assert "128" in by_triton
    assert "64" in by_triton
    assert by_ptxas.startswith(f"faults.py:{line_of('faults.py', 'no.such.instruction')}: PTXASError: ")
    assert "Not a name of any known instruction: 'no'" in by_ptxas


def test_an_entry_that_raises_keeps_its_kernels(ask: Ask) -> None:
    report = ask("faults:raises_midway", {"x": np.zeros(512, np.float32)})
    assert [kernel["constexprs"]["N"] for kernel in report["kernels"]] == [512]
    line = line_of("faults.py", "raise RuntimeError")
    assert report["errors"] == [{"kernel": "faults:raises_midway", "message": f"faults.py:{line}: RuntimeError: no plan for 512 elements"}]


def test_an_entry_that_is_not_there(ask: Ask) -> None:
    report = ask("faults:missing", {"x": np.zeros(128, np.float32)})
    assert report["kernels"] == []
    (error,) = report["errors"]
    assert "missing" in error["message"]


def test_autotuned_kernel_says_that_one_configuration_was_compiled(ask: Ask) -> None:
    report = ask("host:autotuned", {"x": np.zeros(4096, np.float32)})
    (kernel,) = report["kernels"]
    assert kernel["name"] == "tuned"
    assert (kernel["constexprs"]["BLOCK"], kernel["constexprs"]["EVEN"], kernel["num_warps"]) == (64, True, 2)
    (note,) = report["notes"]
    assert report["errors"] == [] and note.startswith("tuned is autotuned: the first of 2 configurations")


def test_host_code_that_compiles_ahead(ask: Ask) -> None:
    report = ask("host:compiled_ahead", {"x": np.zeros(4096, np.float32)})
    assert report["errors"] == []
    (kernel,) = report["kernels"]
    assert kernel["constexprs"]["PROGRAMS"] == 132


def placed(x: np.ndarray, past: int) -> bytes:
    """Safetensors bytes whose data starts ``past`` bytes after a multiple of 16; the usual writer leaves it at 0 or 8."""
    head = {"x": {"dtype": "F32", "shape": list(x.shape), "data_offsets": [0, x.nbytes]}}
    text = json.dumps(head).encode()
    text += b" " * (-(len(text) + 8) % 16 + past)
    return len(text).to_bytes(8, "little") + text + x.tobytes()


def test_placement_of_inputs_does_not_change_the_kernel(ask: Ask) -> None:
    """On a device every allocation is aligned; where the bytes lie in the request must not unspecialise a pointer."""
    x = np.zeros(512, np.float32)  # four to a thread: one wide access when the address is known to be aligned
    even, odd = (ask("faults:raises_midway", data)["kernels"][0] for data in (placed(x, 0), placed(x, 2)))
    assert even["ptx_sha256"] == odd["ptx_sha256"]


def test_an_unknown_target_is_refused() -> None:
    cage = Cage(load("triton-compile"))
    result = request(cage, "dots:in_helpers", {"a": square(3)}, target="sm_75")
    cage.close()
    assert (result.ended, result.report) == ("failed", b"")
    assert "target 'sm_75'; one of sm_80, sm_90, sm_100 is expected" in result.text.decode()
