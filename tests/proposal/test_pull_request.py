"""The text of a pull request: what maintainers ask for is in it, and nothing a model wrote means anything there."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from infra_agent.proposal import approval, pull_request
from infra_agent.proposal.store import Proposal, find_proposal
from infra_agent.session import events
from infra_agent.session.log import Entry
from tests.proposal.recorded import copied, session_of
from tests.support import rows_task

HOSTILE = "# Mine @everyone fixes #3 GH-4 <img src=x> `` | https://example.org\n## more"
TEMPLATE = "\n## Checklist\r\n\n- [ ] I searched for duplicates\n\n"


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("text")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFRA_AGENT_HOME", str(folder / "home"))
        _, identity = session_of(rows_task(folder), folder / "home")
        approval.decide(identity, "approve", "Ada Reviewer", "the axis was wrong", minutes=4)
    return folder / "home", identity


@pytest.fixture
def proposal(approved: tuple[Path, str], home: Path) -> Proposal:
    copied(approved[0], home)
    return find_proposal(approved[1])


def with_hypotheses(found: Proposal, text: str, count: int = 1) -> Proposal:
    """The proposal after hypotheses that say ``text``."""
    before = found.session.entries[: found.entry.seq]
    more: list[events.Event] = []
    for n in range(count):
        more.append(events.HypothesisStated(hypothesis=f"h-{n}", claim=text, prediction=text, check=text))
        more.append(events.HypothesisSettled(hypothesis=f"h-{n}", outcome="refuted", observation="a-1", note=text))
    entries = [*before, *(Entry(len(before) + n, found.entry.time, "0" * 64, event) for n, event in enumerate(more))]
    after = [*entries, *found.session.entries[found.entry.seq :]]
    return replace(found, session=replace(found.session, entries=after), entry=replace(found.entry, seq=len(entries)))


def outside_code(text: str) -> str:
    """What a forge reads for mentions, issues, headings and HTML: everything that is not in a block or a span of code."""
    blocks = re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", blocks)


def test_what_maintainers_ask_for(proposal: Proposal) -> None:
    text = pull_request.body(with_hypotheses(proposal, "the axis"), "none in the tracker", TEMPLATE)
    for wanted in (
        "Ada Reviewer, 4 minutes of review: the axis was wrong", "Search for duplicates: none in the tracker", "AI assistance",
        "driver model:scripted", "error of running in small", "| accuracy | pass | in-process |", "Tier: low",
        "* refuted: `the axis` (predicted: `the axis`); `the axis`", f"infra-agent review {proposal.id} --patch-only > change.patch",
        "infra-agent gate rows --patch change.patch", f"sha256:{proposal.made.patch}", f"sha256:{proposal.approvals[-1].binding}",
        f"Judged at base {proposal.made.base}",
    ):  # fmt: skip
        assert wanted in text, wanted
    assert text.endswith(f"---\n\n{TEMPLATE}"), "theirs follows to the byte, unticked"
    assert "not done by this program" in pull_request.body(proposal)


def test_what_a_model_wrote_means_nothing(proposal: Proposal) -> None:
    made = proposal.made.model_copy(update={"summary": HOSTILE})
    text = pull_request.body(with_hypotheses(replace(proposal, made=made), HOSTILE))
    plain = outside_code(text)
    for sign in ("Mine", "everyone", "#3", "&#35;3", "GH-4", "img", "example.org", "more\n"):
        assert sign not in plain, sign
    assert text.count("everyone") == 4, "the summary, and claim, prediction and note"


def test_overrides_are_said_first(proposal: Proposal) -> None:
    aside = proposal.reviews[0].model_copy(update={"overrides": ("timing",)})
    text = pull_request.body(replace(proposal, reviews=(aside,)))
    assert text.index("**Checks set aside by name: timing.**") < text.index("## Who answers for it")


def test_a_long_text_fits_and_says_what_it_leaves_out(proposal: Proposal) -> None:
    made = proposal.made.model_copy(update={"summary": "word " * 40_000})
    text = pull_request.body(with_hypotheses(replace(proposal, made=made), "`#@|" * 400, 400))
    assert len(text) < 60_000 and "more characters are in the session" in text and re.search(r"And \d+ more, in the session", text)


def test_every_mark_is_shown_or_counted(proposal: Proposal) -> None:
    head = "diff --git a/rows/a.py b/rows/a.py\n--- a/rows/a.py\n+++ b/rows/a.py\n@@ -1,1 +1,401 @@\n x = 1\n"
    digest = proposal.session.blobs.put((head + "+lock = threading.Lock()\n" * 400).encode())
    locked = replace(proposal, made=proposal.made.model_copy(update={"patch": digest}))
    marks = len(locked.risk.marks)
    risk = pull_request.body(locked).partition("## Risk")[2].partition("## Tried")[0]
    left = re.search(r"And (\d+) more, in the session", risk)
    assert marks >= 400 and left and risk.count("\n* ") + int(left[1]) == marks


@pytest.mark.parametrize(
    ("text", "shown"),
    [("", "-"), ("a  b\nc", "`a b c`"), ("a`b", "`` a`b ``"), ("```", "```` ``` ````"), ("a\u202eb", "`a\\u202eb`")],
)
def test_quoted(text: str, shown: str) -> None:
    assert pull_request.quoted(text) == shown
