"""Standing requests: the relay, who runs when, and what PID 1 makes of a child that misbehaves (the attacks try more)."""

import struct
from collections.abc import Iterator

import numpy as np
import pytest
from safetensors.numpy import save

from infra_agent.errors import SandboxError
from infra_agent.sandbox import wire
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.mapping import GUARD
from infra_agent.sandbox.profile import load
from infra_agent.task.tree import pack
from tests.conftest import ROOT

CALLS = "sandboxes.runtime.calls"
ENTRY = {"entry": {"module": "square", "callable": "run"}}
SQUARE = b"""
import torch

def run(a):
    if a[0, 0] < 0:
        raise ValueError("negative")
    a += 1  # in place: the next call must not see it
    return {"out": a * a}
"""
SHAPES = {"0/out": ("F32", (4, 4))}


@pytest.fixture(scope="module")
def warm() -> Iterator[Cage]:
    cage = Cage(load("triton-interpret"))
    yield cage
    cage.close()


@pytest.fixture
def square(warm: Cage) -> Iterator[Cage]:
    """A standing request that adds one and squares."""
    sections = {"tree": pack({"square.py": SQUARE}), "inputs.0": inputs(0.0)}
    assert warm.start(CALLS, ENTRY, sections, SHAPES).status == "ok"
    yield warm
    assert warm.stop().ended == "stopped"


def inputs(value: float) -> bytes:
    return save({"a": np.full((4, 4), value, np.float32)})


def out(cage: Cage) -> np.ndarray:
    return np.frombuffer(cage.output(), np.float32, 16, GUARD)


def test_each_call_sees_what_was_put_last(square: Cage) -> None:
    for value in (1.0, 2.0, 2.0):
        square.put({"inputs.0": inputs(value)})
        assert np.isnan(out(square)).all(), "outputs are poisoned until the call"
        reply = square.call()
        assert reply.status == "ok" and 0 < reply.child_ns < reply.wall_ns
        assert (out(square) == (value + 1) ** 2).all()


def test_an_error_in_a_call_is_that_calls_error(square: Cage) -> None:
    square.put({"inputs.0": inputs(-1.0)})
    assert square.call().status == "error"
    square.put({"inputs.0": inputs(1.0)})
    assert square.call().status == "ok"


def test_a_section_keeps_its_length(square: Cage) -> None:
    with pytest.raises(ValueError, match="expected"):
        square.put({"inputs.0": b"short"})


def test_only_one_request_at_a_time(square: Cage) -> None:
    with pytest.raises(SandboxError, match="under way"):
        square.run("sandboxes.runtime.shell", {"command": "true"})


def test_a_cage_stays_warm_after_a_stop(warm: Cage) -> None:
    assert warm.alive and warm.run("sandboxes.runtime.shell", {"command": "true"}).ok


def test_a_program_that_does_not_start_says_why(warm: Cage) -> None:
    reply = warm.start(CALLS, {"entry": {"module": "nowhere", "callable": "run"}}, {})
    result = warm.stop()
    assert reply.status == "ended" and result.ended == "failed" and b"No module named 'nowhere'" in result.text


def test_stop_without_a_request_is_an_error() -> None:
    with Cage(load("reference")) as cage, pytest.raises(SandboxError, match="no request"):
        cage.stop()


def test_a_child_that_dies_in_a_call_is_named() -> None:
    with Cage(load("triton-interpret")) as cage:
        tree = pack({"square.py": b"import os\ndef run(a):\n    os.kill(os.getpid(), 11)\n"})
        assert cage.start(CALLS, ENTRY, {"tree": tree, "inputs.0": inputs(0)}, SHAPES).status == "ok"
        assert cage.call().status == "ended"
        result = cage.stop()
        assert (result.ended, result.why, cage.alive) == ("signal", "killed by SIGSEGV", False)


def test_both_sides_agree_on_the_wire() -> None:
    theirs: dict[str, object] = {}
    exec(compile((ROOT / "sandboxes" / "wire.py").read_text(), "wire", "exec"), theirs)  # noqa: S102 - our own file
    for name in ("READY", "START", "CALL", "REPLY", "DONE"):
        ours, other = getattr(wire, name), theirs[name]
        assert isinstance(other, struct.Struct) and ours.format == other.format, name
    assert [getattr(wire, name) for name in ("STANDING", "OK", "ERROR", "EARLY", "LOST")] == [
        theirs[name] for name in ("STANDING", "OK", "ERROR", "EARLY", "LOST")
    ]
