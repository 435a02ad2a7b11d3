"""A lesson is a projection of a session up to an approved proposal. Pure."""

import json
import re
from collections.abc import Iterable

from infra_agent.frozen import Frozen
from infra_agent.judge.tensors import CompareRecord
from infra_agent.proposal.review import tried
from infra_agent.proposal.store import Proposal
from infra_agent.session import events
from infra_agent.task.patch import changes
from infra_agent.task.spec import TaskSpec

_MOST_SIGNALS = 8
_HUNK = re.compile(rb"^@@ [^@]*@@[^\n]*?\b(?:def|class|fn|void|struct)\s+(\w+)|^[ +-]\s*(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)
_WORD = re.compile(r"\w{4,}")


class Lesson(Frozen):
    """What was wrong, how it showed, what mended it, and what did not."""

    id: str
    """``e-`` and the digits of the proposal's id."""
    session: str
    task: str
    title: str
    summary: str
    families: tuple[str, ...]
    """Kinds of what failed before the change."""
    signals: tuple[str, ...]
    """The findings that showed it, worst first: instrument, place, kind."""
    instruments: tuple[str, ...]
    symbols: tuple[str, ...]
    """Files, functions and classes that the patch touches."""
    cases: tuple[str, ...]
    dtypes: tuple[str, ...]
    """Of what dots multiplied, where kernels were emulated."""
    platform: str
    target: str
    """What kernels were compiled for; empty where none were."""
    patch: str
    """Digest of the patch."""
    base: str
    confirmed: tuple[str, ...]
    refuted: tuple[str, ...]
    spent: dict[str, float | int | None]
    reviewer: str
    reason: str
    rollback: str

    def lines(self) -> list[str]:
        """For a model or a person, short."""
        told = [f"{self.id} ({self.task}): {self.title}. {' '.join(self.summary.split())[:300]}"]
        told += [f"  showed as: {signal}" for signal in self.signals[:3]]
        told += [f"  refuted: {claim}" for claim in self.refuted]
        return told


def lesson_of(proposal: Proposal, reviewer: str, reason: str) -> Lesson:
    """What the session shows up to the proposal."""
    session, header = proposal.session, proposal.session.header
    spec = TaskSpec.model_validate_json(session.blobs.get(header.spec))
    before = [e.event for e in session.entries[: proposal.entry.seq] if isinstance(e.event, events.ObservationMade)]
    measured = [made.observation for made in before if made.records]
    failing = [o for o in measured if o.status == "fail"]
    signals = [(f.magnitude, f"{o.instrument}: {f.where}: {f.kind}") for o in failing for f in o.findings]
    ended = next((e.event for e in session.entries if isinstance(e.event, events.SessionEnded)), None)
    hypotheses = tried(proposal)
    patch = session.blobs.get(proposal.made.patch)
    return Lesson(
        id=f"e-{proposal.id.removeprefix('p-')}",
        session=header.session,
        task=header.task,
        title=proposal.made.title,
        summary=proposal.made.summary,
        families=_distinct(o.kind or "" for o in failing),
        signals=_distinct(text for _, text in sorted(signals, key=lambda pair: -pair[0]))[:_MOST_SIGNALS],
        instruments=_distinct(o.instrument for o in measured),
        symbols=symbols_of(patch),
        cases=tuple(json.loads(session.blobs.get(header.cases))["public"]),
        dtypes=_dtypes(proposal),
        platform=header.platform,
        target=spec.static.target if spec.static else "",
        patch=proposal.made.patch,
        base=proposal.made.base,
        confirmed=tuple(t.claim for t in hypotheses if t.outcome == "confirmed"),
        refuted=tuple(t.claim for t in hypotheses if t.outcome == "refuted"),
        spent=ended.spent if ended else {},
        reviewer=reviewer,
        reason=reason,
        rollback=f"git revert the commit with the trailer 'Infra-Agent-Proposal: {proposal.id}'",
    )


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))


def _dtypes(proposal: Proposal) -> tuple[str, ...]:
    """What dots multiplied in the gate's public cases."""
    checks = proposal.verdict.verdict.checks if proposal.verdict else ()
    digests = [digest for check in checks if check.name == "accuracy" for digest in check.records.values()]
    records = (CompareRecord.model_validate_json(proposal.session.blobs.get(digest)) for digest in digests)
    return tuple(sorted({dot.operand for record in records for dot in record.dots}))


def symbols_of(patch: bytes) -> tuple[str, ...]:
    """Files that a patch touches, and the functions and classes whose lines it shows."""
    named = (match[1] or match[2] for match in _HUNK.finditer(patch))
    return _distinct([*(change.path for change in changes(patch)), *(name.decode() for name in named)])


def relevant(lessons: Iterable[Lesson], spec: TaskSpec, texts: Iterable[bytes], most: int = 3) -> list[Lesson]:
    """The lessons nearest to a task: of the same one, about names that its files use too, seen by instruments that it has."""
    used = {word for text in texts for word in _WORD.findall(text.decode(errors="replace"))}
    allowed = set(spec.instruments)
    scored = []
    for lesson in lessons:
        names = {name for symbol in lesson.symbols for name in _WORD.findall(symbol)}
        seen = bool(set(lesson.instruments) & allowed)
        scored.append((3 * (lesson.task == spec.id) + len(names & used) + seen, lesson))
    near = sorted((pair for pair in scored if pair[0] >= 2), key=lambda pair: (-pair[0], pair[1].id))
    return [lesson for _, lesson in near[:most]]
