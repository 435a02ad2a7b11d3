"""The reference side: the task's own judge code in a cage of its own. What leaves it is JSON and safetensors."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors.numpy import save as save_tensors

from infra_agent import share
from infra_agent.errors import UsageError
from infra_agent.judge import evidence
from infra_agent.judge.tensors import Bound
from infra_agent.sandbox.backend import Backend
from infra_agent.sandbox.pool import CagePool
from infra_agent.sandbox.text import last_line

_PROGRAM = "sandboxes.runtime.reference"
_PLACE = "/judge"
_REPORT_MB = 1024
_REPORT_SHARE = 512 << 20
_GROUPS = ("inputs", "truth", "reference")
Arrays = dict[str, np.ndarray]
_FLOATS = {"float64": "F64", "float32": "F32", "float16": "F16"}
_INTEGERS = {"int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL"}
_DTYPES = _FLOATS | _INTEGERS


class Case(BaseModel):
    """One case of a task: public or held-out."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str
    split: str
    size: int
    when: str
    """always: cheap enough for every look. gate: only when a proposal is judged."""
    bounds: dict[str, Bound]
    shrunk_from: str = ""
    """The listed case that this is a smaller version of. The reference cage is then given the case itself: no list holds it."""

    @property
    def own(self) -> dict[str, Any]:
        """The case as the task gave it."""
        return {"name": self.name, "size": self.size, "when": self.when, **(self.model_extra or {})}

    @property
    def numbers(self) -> dict[str, float]:
        """Every number of the case, those of the task's own that its shapes are made from included."""
        own = {"size": self.size, **(self.model_extra or {})}
        return {name: value for name, value in own.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}


@dataclass(frozen=True)
class Drawn:
    """Fresh contents of a case: inputs as safetensors bytes, truth in float64, the reference's outputs."""

    inputs: bytes
    truth: dict[str, np.ndarray]
    reference: dict[str, np.ndarray]

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return len(self.inputs) + sum(value.nbytes for group in (self.truth, self.reference) for value in group.values())

    @property
    def shapes(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Stage -> (safetensors dtype, shape) of what a candidate must return."""
        return {stage: (_DTYPES[value.dtype.name], value.shape) for stage, value in self.reference.items()}


class Reference:
    """Talks to the reference cage of one task."""

    def __init__(self, judge_folder: Path, backend: Backend) -> None:
        self._where = judge_folder / "task.py"
        self._pool = CagePool("reference", {_PLACE: judge_folder}, share.hidden(), backend)

    def _ask(self, operation: str, **args: Any) -> tuple[Any, bytes]:
        with self._pool.cage() as cage:
            result = cage.run(_PROGRAM, {"operation": operation, "judge": cage.place(_PLACE), **args}, report_mb=_REPORT_MB)
        if not result.ok:
            raise UsageError(f"{self._where}: {operation} {result.ended}: {last_line(result.text)}")
        if len(result.report) < 8:
            raise UsageError(f"{self._where}: {operation}: {len(result.report)} bytes came back, no answer")
        (size,) = struct.unpack_from("<Q", result.report)
        return evidence.document(result.report[8 : 8 + size], f"{self._where}: {operation}"), result.report[8 + size :]

    def cases(self, split: str) -> list[Case]:
        """Cases of a split, with their bounds."""
        listed, _ = self._ask("cases", split=split)
        try:
            return [Case.model_validate({**entry, "split": split}) for entry in listed]
        except ValidationError as error:
            raise UsageError(f"{self._where}: cases('{split}'): {error}") from error

    def smaller(self, case: Case) -> list[Case] | None:
        """Smaller versions of a case, as the task's ``smaller`` lists them; None when the task has no such function."""
        started = case.shrunk_from or case.name
        listed, _ = self._ask("smaller", split=case.split, given=case.own, started=started)
        if listed is None:
            return None
        try:
            return [Case.model_validate({**entry, "split": case.split, "shrunk_from": started}) for entry in listed]
        except (ValidationError, TypeError) as error:
            raise UsageError(f"{self._where}: smaller({case.own}): {error}") from error

    def draw(self, case: Case, seed: int) -> Drawn:
        """Inputs, truth and reference of one case. Raises UsageError when the task itself is not finite."""
        return self.draws(case, [seed])[0]

    def draws(self, case: Case, seeds: Sequence[int]) -> list[Drawn]:
        """The same for several seeds, in as many requests as their size asks for."""
        first = self._contents(case, seeds[:1])
        each = max(1, _REPORT_SHARE // max(1, first[0].nbytes))
        rest = [drawn for start in range(1, len(seeds), each) for drawn in self._contents(case, seeds[start : start + each])]
        return first + rest

    def _contents(self, case: Case, seeds: Sequence[int]) -> list[Drawn]:
        given = {"given": case.own} if case.shrunk_from else {}
        _, data = self._ask("contents", split=case.split, case=case.name, seeds=list(seeds), **given)
        arrays = evidence.tensors(data, f"{self._where}: case {case.name}")
        groups: dict[tuple[str, str], dict[str, np.ndarray]] = {}
        for name, value in sorted(arrays.items()):  # safetensors gives them in any order, and the layout of the outputs follows it
            number, group, stage = name.split("/", 2)
            groups.setdefault((number, group), {})[stage] = value
        return [self._drawn(case, *(groups.get((str(n), group), {}) for group in _GROUPS)) for n in range(len(seeds))]

    def _drawn(self, case: Case, inputs: Arrays, truth: Arrays, reference: Arrays) -> Drawn:
        for stage in case.bounds:
            self._check_shapes(case, stage, truth.get(stage), reference.get(stage))
            if not (np.isfinite(truth[stage]).all() and np.isfinite(reference[stage]).all()):
                raise UsageError(
                    f"{self._where}: case {case.name}: stage {stage} of the truth or the reference is not finite: the task is invalid"
                )
        return Drawn(save_tensors(inputs), truth, reference)

    def _check_shapes(self, case: Case, stage: str, truth: np.ndarray | None, reference: np.ndarray | None) -> None:
        where = f"{self._where}: case {case.name}: stage {stage}"
        if truth is None or reference is None:
            raise UsageError(f"{where} has a bound, but truth() or reference() does not return it")
        if truth.shape != reference.shape or truth.dtype != np.float64:
            raise UsageError(
                f"{where}: truth must be float64 of the reference's shape; found {truth.dtype} {truth.shape}, {reference.shape}"
            )
        if reference.dtype.name not in _DTYPES:
            raise UsageError(f"{where}: dtype {reference.dtype} is not supported; use one of {', '.join(_DTYPES)}")

    def sensitivity(self, case: Case, seed: int) -> dict[str, Any]:
        """For an audit: how much each input matters, which stages are constant, whether all is finite."""
        found, _ = self._ask("sensitivity", split=case.split, case=case.name, seed=seed)
        return found  # type: ignore[no-any-return]

    def abort(self) -> None:
        """Kill the cage in use, from any thread."""
        self._pool.abort()

    def close(self) -> None:
        """End the cage."""
        self._pool.close()
