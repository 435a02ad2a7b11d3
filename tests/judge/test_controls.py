"""Free negative controls: each is refused by a bound that means something, and accepted by one that does not."""

from pathlib import Path

import numpy as np
import pytest

from infra_agent.judge.controls import accepted, excused, reduced, wrong_outputs
from infra_agent.judge.reference import Case, Drawn
from infra_agent.judge.tensors import Bound
from infra_agent.task.spec import Accepts
from tests.support import rows_task


def contents(seed: int) -> Drawn:
    y = np.random.default_rng(seed).standard_normal((8, 6)).astype(np.float32)
    return Drawn(b"", {"y": y.astype(np.float64)}, {"y": y})


def case(error: float) -> Case:
    return Case(name="c", split="public", size=48, when="always", bounds={"y": Bound(error=error, ratio=1e9)})


INPUTS = {"x": np.random.default_rng(9).standard_normal((8, 6)).astype(np.float32), "n": np.arange(3)}


def passed(error: float) -> set[str]:
    return {name for name, _, wrongly in accepted(case(error), contents(0), contents(1), INPUTS) if wrongly}


def test_a_bound_that_means_something_refuses_every_control() -> None:
    names = [name for name, _, _ in accepted(case(1e-5), contents(0), contents(1), INPUTS)]
    assert passed(1e-5) == set() and "copy of input x" in names and "copy of input n" not in names and len(names) == len(set(names)) == 8


def test_a_loose_bound_is_found_out_control_by_control() -> None:
    assert passed(1e-2) == {"reduced precision"}
    assert {"zeros", "constant mean", "another shape", "reduced precision"} <= passed(1.5)


@pytest.mark.parametrize(("dtype", "least", "most"), [("float32", 1e-4, 2**-8), ("float16", 1e-2, 2**-3), ("float64", 1e-9, 2**-23)])
def test_reduced_precision_is_the_next_shorter_format(dtype: str, least: float, most: float) -> None:
    value = np.random.default_rng(3).uniform(1, 2, 1000).astype(dtype)
    off = np.abs(reduced(value).astype(np.float64) - value.astype(np.float64)) / value
    assert reduced(value).dtype == value.dtype and least < off.max() <= most


def test_integers_have_controls_too() -> None:
    right = np.arange(6, dtype=np.int64).reshape(2, 3)
    names = [name for name, _ in wrong_outputs(right, right[::-1], {})]
    assert "reduced precision" not in names and {"zeros", "stale", "uninitialised"} <= set(names)


def test_what_a_task_accepts_on_purpose_is_its_stage_and_control_only(tmp_path: Path) -> None:
    spec = rows_task(tmp_path).spec
    spec = spec.model_copy(update={"accepts": (Accepts(stage="product", control="copy of input", why="it is a view"),)})
    assert excused("copy of input x", "product", spec)
    assert not excused("copy of input x", "running", spec) and not excused("zeros", "product", spec)


def test_a_figure_of_a_model_is_not_asked_for_precision_but_must_be_one(tmp_path: Path) -> None:
    spec = rows_task(tmp_path).spec
    spec = spec.model_copy(update={"entry": spec.entry.model_copy(update={"modelled": ("running",)})})
    assert excused("reduced precision", "running", spec) and not excused("reduced precision", "product", spec)
    assert not any(excused(control, "running", spec) for control in ("zeros", "uninitialised", "never written"))
