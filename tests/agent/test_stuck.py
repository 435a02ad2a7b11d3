"""When a session goes round in circles, and when it only looks so."""

from infra_agent.agent.stuck import Watch
from infra_agent.session.observation import Observation


def seen(status: str = "pass", headline: str = "h", kind: str | None = None, evidence: bool = False) -> Observation:
    return Observation(instrument="x", status=status, headline=headline, kind=kind, evidence={"r": "d"} if evidence else {})  # type: ignore[arg-type]


def test_the_same_call_with_the_same_outcome() -> None:
    watch = Watch()
    assert [watch.see("view", {"path": "a"}, seen(), "t") for _ in range(3)][:2] == [None, None]
    assert "the same call of view" in (watch.see("view", {"path": "a"}, seen(), "t") or "")


def test_fresh_numbers_do_not_make_it_another_outcome() -> None:
    watch = Watch()
    said = [watch.see("accuracy", {}, seen("fail", f"error {n}", "incorrect", evidence=True), "t") for n in range(3)]
    assert said[:2] == [None, None] and "accuracy" in (said[2] or "")


def test_measuring_what_was_changed_is_work() -> None:
    watch = Watch()
    for n in range(9):
        assert watch.see("edit", {"new": str(n)}, seen(), f"t{n}") is None
        assert watch.see("accuracy", {}, seen("fail", "still wrong", "incorrect", evidence=True), f"t{n}") is None


def test_the_same_error_whatever_is_asked() -> None:
    watch = Watch()
    said = [watch.see("edit", {"old": str(n)}, seen("fail", "no such file", "bad_arguments"), "t") for n in range(3)]
    assert said[:2] == [None, None] and said[2] == "the same error of edit 3 times: no such file"


def test_edits_that_go_back_and_forth() -> None:
    watch = Watch()
    said = [watch.see("edit", {"new": f"{n}"}, seen(), "ab"[n % 2]) for n in range(5)]
    assert said[:4] == [None] * 4 and "back and forth" in (said[4] or "")


def test_who_was_told_begins_again() -> None:
    watch = Watch()
    for _ in range(3):
        last = watch.see("view", {}, seen(), "t")
    watch.forget()
    assert last and watch.see("view", {}, seen(), "t") is None
