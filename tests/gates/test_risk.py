"""Risk is read from the patch; every shipped detector has a hit and a near miss that load would refuse if they were wrong."""

import pytest

from infra_agent.gates.policy import shipped
from infra_agent.gates.risk import Detector, Example, Mark, assess
from infra_agent.task.patch import changes

DETECTORS = shipped().detector
WANTED = {
    "build-or-ci", "dependencies", "concurrency", "memory-lifetime", "public-interface", "tolerances", "test-weakened", "test-deleted",
    "launch-bounds", "generated", "binary", "licence-header", "secret", "many-lines", "many-files", "precision", "long-line",
    "special-mode",     "hidden-characters",
}  # fmt: skip
PATCH = b"""diff --git a/src/q.py b/src/q.py
index 1..2 100644
--- a/src/q.py
+++ b/src/q.py
@@ -10,4 +10,5 @@ def take(self):
     x = 1
-    with self.lock:
-        return x
+    y = 2
+    z = tl.dot(x, y, input_precision="ieee")
+    return x
"""


def test_every_family_has_a_detector() -> None:
    assert {d.id for d in DETECTORS} >= WANTED


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: d.id)
def test_a_detector_whose_examples_are_turned_round_is_refused(detector: Detector) -> None:
    turned = detector.model_dump(exclude={"hit", "near_miss"}) | {"hit": detector.near_miss, "near_miss": detector.hit}
    with pytest.raises(ValueError, match=f"detector '{detector.id}' does not see its own example"):
        Detector.model_validate(turned)


def test_marks_name_the_line_in_the_new_or_in_the_old_file() -> None:
    found = assess(changes(PATCH), DETECTORS)
    assert found.tier == "high"
    assert [(m.detector, m.line, m.where) for m in found.marks] == [("concurrency", -11, "src/q.py:11"), ("precision", 12, "src/q.py:12")]


def test_a_models_own_estimate_can_only_raise() -> None:
    touched = changes(PATCH)
    assert assess(touched, DETECTORS, "low").tier == "high"
    assert assess(touched, DETECTORS, "critical").tier == "critical"
    assert assess(changes(b""), DETECTORS).tier == "low"


def test_a_line_that_is_too_long_to_be_read_is_itself_a_risk() -> None:
    """Otherwise a lock could hide behind two thousand blanks."""
    hidden = Example(plus=(" " * 2_001 + "threading.Lock()",)).changes()
    assert [mark.detector for mark in assess(hidden, DETECTORS).marks] == ["long-line"]


def test_a_mark_reads_as_an_editor_opens_it() -> None:
    assert Mark(detector="d", tier="low", path="a.py", line=None, reason="r").where == "a.py"
