"""The check ``own_work``: with what a candidate's kernels leave put off, nothing that it returns may still be right."""

from dataclasses import dataclass
from typing import Any

from infra_agent.judge import tensors
from infra_agent.judge.tensors import CompareRecord
from infra_agent.session.observation import TensorWhere
from infra_agent.session.verdict import Check


@dataclass(frozen=True)
class Perturbations:
    """One call each, compared with truth."""

    kernels: CompareRecord
    """Every floating-point number that a kernel wrote was put off."""
    integers: CompareRecord | None = None
    """The whole numbers that a kernel wrote changed places; asked where a stage holds whole numbers."""
    products: CompareRecord | None = None
    """What dots multiply was put off."""
    base_products: CompareRecord | None = None
    """The same of base."""
    base: CompareRecord | None = None
    """Base as it is, on the inputs of ``base_products``."""


RECORDS = {
    "kernels": "perturbed.kernels", "integers": "perturbed.integers", "products": "perturbed.products", "base": "base.same",
    "base_products": "base.products",
}  # fmt: skip
"""What the records are called in a session, by field."""


def judge(found: Perturbations) -> Check:
    """A stage that is right although what the kernels wrote, or what base makes it of with dots, was put off is made elsewhere."""
    still = [stage for stage in right(found.kernels) if not _of_whole_numbers(found.kernels, stage)]
    whole = [stage for stage in right(found.kernels) if _of_whole_numbers(found.kernels, stage)]
    still += [stage for stage in whole if found.integers is None or stage in right(found.integers)]
    for record in (found.kernels, *((found.integers,) if found.integers and whole else ())):
        if record.ended != "ok":
            return _ended(record, floats=record is found.kernels)
    figure = f"{len(found.kernels.bounds) - len(still)} of {len(found.kernels.bounds)} stages off with the kernels"
    known: dict[str, Any] = {"name": "own_work", "trust": "in-process", "figure": figure}
    failed: dict[str, Any] = {**known, "status": "fail", "kind": "not_own_work"}
    if still:
        message = f"stage {still[0]} is right although every kernel's result was put off: the work is done elsewhere"
        return Check.model_validate({**failed, "where": TensorWhere(case=found.kernels.case, stage=still[0]), "message": message})
    if found.kernels.host_work:
        message = f"besides its kernels the entry uses {', '.join(found.kernels.host_work[:3])}: the work is done elsewhere"
        return Check.model_validate({**failed, "message": message})
    for stage in _made_of_dots(found):
        if found.products and stage in right(found.products):
            message = f"stage {stage} is right although everything that dots multiply was put off: they do not make it"
            return Check.model_validate({**failed, "where": TensorWhere(case=found.products.case, stage=stage), "message": message})
    message = "no stage is right when the kernels' results or what dots multiply are put off, and no library multiplied"
    return Check.model_validate({**known, "status": "pass", "message": message})


def has_whole_numbers(record: CompareRecord) -> bool:
    """Does any stage hold whole numbers?"""
    return any(_of_whole_numbers(record, stage) for stage in record.stages)


def right(record: CompareRecord) -> list[str]:
    """Stages that are within their limits."""
    return [stage for stage in record.bounds if stage in record.stages and tensors.stage_fault(record, stage) is None]


def _of_whole_numbers(record: CompareRecord, stage: str) -> bool:
    return not record.stages[stage].dtype.startswith(("float", "bfloat"))


def _ended(record: CompareRecord, floats: bool) -> Check:
    """A call that did not end well. With whole numbers in each other's places an honest kernel may well read beside its memory."""
    failed = {"status": "fail", "kind": "not_own_work"} if floats and record.ended == "crashed" else {"status": "inconclusive"}
    message = f"on memory that the host cannot read, with perturbed kernels, it ended with {record.ended}: {record.ending}"
    return Check.model_validate({"name": "own_work", "trust": "in-process", "message": message, **failed})


def _made_of_dots(found: Perturbations) -> list[str]:
    """Stages that base gets wrong, or otherwise wrong, because of what its dots multiply."""
    if found.base_products is None:
        return []
    wrong = [stage for stage in found.base_products.bounds if stage not in right(found.base_products)]
    return [stage for stage in wrong if found.base is None or _differs(found.base, found.base_products, stage)]


def _differs(one: CompareRecord, other: CompareRecord, stage: str) -> bool:
    """Are the outputs of two calls on the same inputs unlike? A stage without dots has the same sum of errors to the bit."""
    known = (one.stages.get(stage), other.stages.get(stage))
    if known[0] is None or known[1] is None:
        return known[0] is not known[1]
    return (known[0].sum_sq_error, known[0].nonfinite) != (known[1].sum_sq_error, known[1].nonfinite)
