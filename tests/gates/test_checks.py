"""The proposal gate's questions that need no run."""

from pathlib import Path

import pytest

from infra_agent.gates import checks, own_work, reading
from infra_agent.gates.own_work import Perturbations
from infra_agent.judge.records import DeterminismRecord, RanRecord, RepeatRecord
from infra_agent.judge.tensors import CompareRecord, StageRecord
from infra_agent.task.repository import for_task
from tests.support import RIGHT, patch_of, rows_task

BASE = frozenset({"rows/__init__.py", "rows/entry.py", "tests/test_rows.py"})
SAME, OTHER = "a" * 64, "b" * 64


@pytest.mark.parametrize(
    ("files", "status", "where"),
    [
        ({"rows__entry_py": RIGHT}, "pass", None),
        ({"tests__test_new_py": "def test(): assert True\n"}, "pass", None),
        ({"tests__test_rows_py": "\n"}, "fail", "tests/test_rows.py"),
        ({"conftest_py": "\n"}, "fail", "conftest.py"),
        ({"rows__conftest_py": "\n"}, "fail", "rows/conftest.py"),
        ({"rows__sitecustomize_py": "\n"}, "fail", "rows/sitecustomize.py"),
        ({"setup_py": "\n"}, "fail", "setup.py"),
    ],
)
def test_scope(tmp_path: Path, home: Path, files: dict[str, str], status: str, where: str | None) -> None:
    task = rows_task(tmp_path)
    check = reading.scope(patch_of(task, home, **files), task.spec, BASE)
    assert (check.status, check.kind) == (status, None if status == "pass" else "out_of_scope")
    assert (str(check.where) if check.where else None) == where


def test_an_empty_patch_is_not_a_proposal(tmp_path: Path) -> None:
    check = reading.scope(b"", rows_task(tmp_path).spec, BASE)
    assert (check.status, check.kind) == ("fail", "empty")


def test_too_large_a_patch_is_out_of_scope(tmp_path: Path, home: Path) -> None:
    task = rows_task(tmp_path)
    check = reading.scope(patch_of(task, home, rows__big_py="x = 1\n" * 3000), task.spec, BASE)
    assert check.kind == "out_of_scope" and "2000 lines" in check.message


def test_a_link_is_not_a_regular_file(tmp_path: Path, home: Path) -> None:
    task = rows_task(tmp_path)
    repository, base = for_task(task, home)
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"/etc/passwd").decode().strip()
    index = tmp_path / "index"
    repository.git("read-tree", base, index=index)
    repository.git("update-index", "--index-info", stdin=f"120000 {blob}\trows/link\n".encode(), index=index)
    patch = repository.diff(base, repository.git("write-tree", index=index).decode().strip())
    check = reading.scope(patch, task.spec, BASE)
    assert check.kind == "out_of_scope" and "mode 120000" in check.message


def test_what_nobody_can_read_or_name_is_out_of_scope(tmp_path: Path, home: Path) -> None:
    task = rows_task(tmp_path)
    repository, base = for_task(task, home)
    tree = repository.read_tree(base)
    binary, text = bytes(range(256)), b"x\n"
    for path, data in {"rows/blob.bin": binary, "rows/.gitattributes": text, 'rows/x"y.py': text, "rows/a\nb.py": text}.items():
        check = reading.scope(repository.diff(base, repository.write_tree({**tree, path: data})), task.spec, BASE)
        assert (check.status, check.kind) == ("fail", "out_of_scope"), path


def test_a_secret_in_an_added_line(tmp_path: Path, home: Path) -> None:
    task = rows_task(tmp_path)
    patch = patch_of(task, home, rows__entry_py=RIGHT + "KEY = 'ghp_" + "Z" * 36 + "'\n")
    assert reading.secrets(patch).status == "fail" and "Z" * 36 not in reading.secrets(patch).message
    assert reading.secrets(patch_of(task, home, rows__entry_py=RIGHT)).status == "pass"


@pytest.mark.parametrize(
    ("digests", "kind"), [((SAME, SAME), None), ((SAME, OTHER), "nondeterministic"), (("crashed: boom", "crashed: boom"), "crashed")]
)
def test_determinism(digests: tuple[str, ...], kind: str | None) -> None:
    assert checks.determinism(DeterminismRecord(case="c", tree="t", digests=digests)).kind == kind


@pytest.mark.parametrize(
    ("loaded", "kind"),
    [({"m.py": SAME}, None), ({"m.py": OTHER}, "tampered"), ({"m.py": SAME, "x.py": SAME}, "tampered"), ({}, "stale_build")],
)
def test_what_ran_is_what_was_changed(loaded: dict[str, str], kind: str | None) -> None:
    assert checks.ran(RanRecord(expected={"m.py": SAME}, loaded=loaded, entry="m.py")).kind == kind


def test_no_record_is_not_a_pass() -> None:
    assert checks.accuracy([], held_out=True, platform="cpu-emulated").status == "not_run"


def compared(error: float, ended: str = "ok", **more: object) -> CompareRecord:
    """One stage that is off by ``error``, its limit 1e-3."""
    stage = StageRecord(
        shape=(2, 2), dtype="float32", count=4, nonfinite=0, untouched=0, guard_intact=True, sum_sq_error=4 * error**2, sum_sq_truth=4.0,
        max_error=error, reference_sum_sq_error=4e-12,
    )  # fmt: skip
    known = {"case": "c", "split": "public", "size": 4, "tree": "t", "bounds": {"y": {"error": 1e-3, "ratio": 1e6}}}
    return CompareRecord.model_validate({**known, "ended": ended, "stages": {"y": stage} if ended == "ok" else {}, **more})


OFF, STILL_RIGHT = compared(1e-2), compared(1e-5)


@pytest.mark.parametrize(("kernels", "products", "base", "kind"), [
    (OFF, None, None, None),
    (OFF, OFF, OFF, None),
    (OFF, OFF, STILL_RIGHT, None),
    (OFF, STILL_RIGHT, STILL_RIGHT, None),
    (STILL_RIGHT, OFF, OFF, "not_own_work"),
    (OFF, STILL_RIGHT, OFF, "not_own_work"),
    (compared(1e-2, host_work=("aten::mm",)), OFF, OFF, "not_own_work"),
    (compared(0, "crashed", ending="signal 11"), OFF, OFF, "not_own_work"),
])  # fmt: skip
def test_own_work(kernels: CompareRecord, products: CompareRecord | None, base: CompareRecord | None, kind: str | None) -> None:
    check = own_work.judge(Perturbations(kernels, products=products, base_products=base))
    assert (check.status, check.kind) == ("fail" if kind else "pass", kind)


def test_own_work_that_ran_out_of_time_decides_nothing() -> None:
    found = Perturbations(compared(0, "timeout"), products=OFF, base_products=OFF)
    assert own_work.judge(found).status == "inconclusive"


def whole(record: CompareRecord) -> CompareRecord:
    """The same of a stage of whole numbers."""
    return record.model_copy(update={"stages": {name: stage.model_copy(update={"dtype": "int8"}) for name, stage in record.stages.items()}})


@pytest.mark.parametrize(("kernels", "integers", "status"), [
    (whole(STILL_RIGHT), whole(OFF), "pass"),
    (whole(STILL_RIGHT), whole(STILL_RIGHT), "fail"),
    (whole(STILL_RIGHT), compared(0, "crashed", ending="signal 11"), "inconclusive"),
    (whole(OFF), compared(0, "crashed", ending="signal 11"), "pass"),
    (STILL_RIGHT, whole(OFF), "fail"),
])  # fmt: skip
def test_whole_numbers_may_change_places_instead(kernels: CompareRecord, integers: CompareRecord, status: str) -> None:
    assert own_work.judge(Perturbations(kernels, integers)).status == status


@pytest.mark.parametrize(("base", "base_products", "status"), [
    (compared(2e-2), OFF, "fail"),
    (OFF, OFF, "pass"),
    (STILL_RIGHT, OFF, "fail"),
    (STILL_RIGHT, STILL_RIGHT, "pass"),
])  # fmt: skip
def test_a_stage_is_made_of_dots_if_they_change_it_in_base(base: CompareRecord, base_products: CompareRecord, status: str) -> None:
    """Base may have it wrong as it is: that is what the task is about."""
    assert own_work.judge(Perturbations(OFF, None, STILL_RIGHT, base_products, base)).status == status


@pytest.mark.parametrize(("ending", "kind"), [
    ("races.RaceError: layer: k.py:3: program 1 loads what program 0 stores", "nondeterministic"),
    ("hostwork.HostWorkError: besides its kernels the entry uses aten::mm", "not_own_work"),
    ("OverwrittenError: an input", "incorrect"), ("ValueError: x", "crashed"),
])  # fmt: skip
def test_what_a_watched_call_raises_has_a_kind(ending: str, kind: str) -> None:
    good = RepeatRecord(case="a", tree="t", calls=(STILL_RIGHT,), replayed=())
    bad = RepeatRecord(case="b", tree="t", calls=(), replayed=(), ended="error", ending=ending)
    assert checks.repeat([good], "cpu-emulated").status == "pass"
    check = checks.repeat([good, bad], "cpu-emulated")
    assert (check.status, check.kind) == ("fail", kind)
    assert ending in check.message
