"""What the gate found on a patch, as in-toto Statements v1: a test result (v0.1) and SLSA provenance (v1). Pure.

Unsigned: with the session at hand they show that patch, log and verdict belong together, not who wrote them. Specifications:
https://github.com/in-toto/attestation/tree/main/spec and https://slsa.dev/spec/v1.0/provenance
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

from infra_agent import __version__, canonical
from infra_agent.errors import UsageError
from infra_agent.proposal.approval import binding
from infra_agent.proposal.statement import PROVENANCE, STATEMENT, TEST_RESULT, Path, shown_path
from infra_agent.proposal.store import Proposal, Session, proposals_of
from infra_agent.session import events
from infra_agent.session.budget import limits_of
from infra_agent.session.log import Entry

_US = "https://pypi.org/project/infra-agent-framework"
_BUILD_TYPE = f"{_US}/#proposal-v1"


def statements(proposal: Proposal) -> list[dict[str, Any]]:
    """The two statements on a judged proposal. The subject is the patch; also the commit, where it is base with that patch and no more.

    Raises UsageError for a proposal that was never judged, JudgedError when its verdict does not follow from its records.
    """
    bound = binding(proposal)
    subject = [{"name": f"{proposal.id}.patch", "digest": {"sha256": proposal.made.patch}}]
    if proposal.merged and not proposal.merged.checked:
        subject.append({"name": proposal.merged.branch, "digest": {"gitCommit": proposal.merged.commit}})
    approvals = _standing(proposal, bound)
    predicates = ((TEST_RESULT, _test_result(proposal, approvals)), (PROVENANCE, _provenance(proposal, bound, approvals)))
    return [{"_type": STATEMENT, "subject": subject, "predicateType": kind, "predicate": told} for kind, told in predicates]


def encode(proposal: Proposal) -> bytes:
    """The statements as JSON Lines."""
    return b"".join(canonical.encode(statement) + b"\n" for statement in statements(proposal))


def _standing(proposal: Proposal, bound: str) -> dict[str, events.ReviewDecided]:
    """Hash of the event -> approval, of those that hold: one that was given on something else sets nothing aside."""
    listed = [(entry.hash, entry.event) for entry in proposal.session.entries if isinstance(entry.event, events.ReviewDecided)]
    return {hash_: event for hash_, event in listed if event.binding == bound and any(event is one for one in proposal.approvals)}


def _test_result(proposal: Proposal, approvals: dict[str, events.ReviewDecided]) -> dict[str, Any]:
    """A check that did not run, was excused, or that somebody set aside, is warned of: it is never among those that passed."""
    assert proposal.verdict is not None
    verdict, header = proposal.verdict.verdict, proposal.session.header
    aside = dict.fromkeys(name for review in approvals.values() for name in review.overrides)
    passed = [check.name for check in verdict.checks if check.status == "pass" and not check.excused and check.name not in aside]
    failed = [check.name for check in verdict.checks if check.status == "fail" and check.name not in aside]
    # a tier may ask for a check that the task has not: it was set aside all the same
    warned = [name for name in dict.fromkeys([*(check.name for check in verdict.checks), *aside]) if name not in {*passed, *failed}]
    return {
        "result": "FAILED" if failed or verdict.decision == "fail" else "WARNED" if warned else "PASSED",
        "configuration": [
            {"name": "task", "digest": {"sha256": header.task_digest}, "annotations": {"id": header.task}},
            {"name": "policy", "digest": {"sha256": header.policy}},
        ],
        "passedTests": passed,
        "warnedTests": warned,
        "failedTests": failed,
    }


def _provenance(proposal: Proposal, bound: str, approvals: dict[str, events.ReviewDecided]) -> dict[str, Any]:
    entries, header = proposal.session.entries, proposal.session.header
    judged = next(entry for entry in entries if entry.event is proposal.verdict)
    version = header.versions.get("infra-agent", __version__)
    return {
        "buildDefinition": {
            "buildType": _BUILD_TYPE,
            "externalParameters": {"task": header.task, "base": proposal.made.base, "driver": header.driver},
            "internalParameters": _internal(proposal, bound, entries[: judged.seq + 1]),
            "resolvedDependencies": [
                {"name": "base", "digest": {"gitCommit": proposal.made.base}},
                {"name": "task", "digest": {"sha256": header.task_digest}},
                *({"name": name, "uri": uri} for name, uri in _packages(header.versions)),
            ],
        },
        "runDetails": {
            # SLSA: modes of different security are different builders
            "builder": {"id": f"{_US}/#isolation-{header.isolation}", "version": {"infra-agent": version}},
            "metadata": {"invocationId": header.session, "startedOn": _utc(entries[0]), "finishedOn": _utc(judged)},
            "byproducts": _byproducts(proposal, judged, approvals),
        },
    }


def _internal(proposal: Proposal, bound: str, until: list[Entry]) -> dict[str, Any]:
    assert proposal.verdict is not None
    header, verdict = proposal.session.header, proposal.verdict.verdict
    return {
        "proposal": proposal.id, "binding": bound, "policy": header.policy, "feedback": header.feedback, "decision": verdict.decision,
        "level": verdict.level, "isolation": verdict.isolation, "platform": verdict.platform, "risk": proposal.risk.tier,
        "limits": {name: most for name, most in limits_of(until).as_dict().items() if most is not None},
    }  # fmt: skip


def _byproducts(proposal: Proposal, judged: Entry, approvals: dict[str, events.ReviewDecided]) -> list[dict[str, Any]]:
    """The head of the log, which says as of when all this is; the verdict's and the approvals' events; every record of a check."""
    assert proposal.verdict is not None
    evidence = sorted({(name, digest) for check in proposal.verdict.verdict.checks for name, digest in check.records.items()})
    given = [(hash_, {"reviewer": a.reviewer, "overrides": ", ".join(a.overrides)}) for hash_, a in approvals.items()]
    return [
        {"name": "log", "digest": {"sha256": proposal.session.entries[-1].hash}},
        {"name": "verdict", "digest": {"sha256": judged.hash}},
        *_merge(proposal),
        *({"name": "approval", "digest": {"sha256": hash_}, "annotations": said} for hash_, said in given),
        *({"name": name, "digest": {"sha256": digest}} for name, digest in evidence),
    ]


def _merge(proposal: Proposal) -> list[dict[str, Any]]:
    """A commit on a branch that had moved, and what the gate said of its files: those of the statements' checks are others."""
    merged = proposal.merged
    if merged is None or not merged.checked:
        return []
    return [
        {"name": merged.branch, "digest": {"gitCommit": merged.commit}},
        {"name": "merge.checked", "digest": {"sha256": merged.checked}},
    ]


def _packages(versions: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Name and package URL of what was installed."""
    for name, version in sorted(versions.items()):
        if version != "not installed":
            package = {"python": "generic/python", "infra-agent": "pypi/infra-agent-framework"}.get(name, f"pypi/{name}")
            yield name, f"pkg:{package}@{quote(version, safe='')}"


def _utc(entry: Entry) -> str:
    """in-toto's Timestamp: RFC 3339 that ends in Z."""
    try:
        return f"{datetime.fromisoformat(entry.time).astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
    except ValueError as error:
        raise UsageError(f"line {entry.seq + 1} of the session's log: {entry.time[:40]!r} is not a time") from error


def named(given: list[dict[str, Any]]) -> tuple[str, str]:
    """Session and proposal that statements which were read say they are of; the session is empty where they do not say."""
    for statement in given:
        if statement["predicateType"] == PROVENANCE:
            predicate = statement["predicate"]
            session = predicate["runDetails"]["metadata"]["invocationId"]
            return str(session), str(predicate["buildDefinition"]["internalParameters"]["proposal"])
    return "", str(given[0]["subject"][0]["name"]).removesuffix(".patch") if given else ""


def against_session(given: list[dict[str, Any]], proposal: Proposal) -> list[str]:
    """Where statements differ from what follows from the session, by path, and what of them holds no more.

    They are compared with the log up to the head that they state: a merge after that leaves them as they are; a verdict, or the end of
    an approval, does not.
    """
    then = _as_of(proposal, _head(given)) or proposal
    found = []
    for number, (stated, follows) in enumerate(zip_longest(given, statements(then)), 1):
        if stated is None or follows is None:
            found.append(f"line {number}: {'is missing' if stated is None else 'is one too many'}")
        else:
            found += [f"line {number}: {fault}" for fault in _differences(stated, follows, ())]
    return found + _since(then, proposal)


def _head(given: list[dict[str, Any]]) -> str:
    for statement in given:
        if statement["predicateType"] == PROVENANCE:
            listed = statement["predicate"]["runDetails"]["byproducts"]
            return next((str((made.get("digest") or {}).get("sha256")) for made in listed if made["name"] == "log"), "")
    return ""


def _as_of(proposal: Proposal, head: str) -> Proposal | None:
    """The proposal as it was when ``head`` was the log's last event. None where it never was, or was before there was a verdict."""
    entries = proposal.session.entries
    last = next((entry.seq for entry in entries if entry.hash == head), -1)
    past = proposals_of(Session(proposal.session.folder, entries[: last + 1])) if last >= 0 else []
    return next((one for one in past if one.id == proposal.id and one.verdict), None)


def _since(then: Proposal, now: Proposal) -> list[str]:
    """What was decided after ``then`` and takes from it."""
    found = [] if then.verdict is now.verdict else [f"{now.id} was given another verdict since"]
    ended = [review for review in then.approvals if not any(review is one for one in now.approvals)]
    return found + [f"the approval by {review.reviewer} does not stand any more: {now.id} is {now.state}" for review in ended]


def against_patch(given: list[dict[str, Any]], patch: bytes) -> list[str]:
    """Every statement must be on these bytes. Nothing else that it says is looked at."""
    digest = canonical.digest(patch)
    return [
        f"line {number}: its subject is not the patch, whose SHA-256 is {digest}"
        for number, statement in enumerate(given, 1)
        if digest not in [subject["digest"].get("sha256") for subject in statement["subject"]]
    ]


def _differences(stated: Any, follows: Any, path: Path) -> Iterator[str]:
    if isinstance(stated, dict) and isinstance(follows, dict):
        for key in sorted({*stated, *follows}):
            yield from _differences(stated.get(key, _ABSENT), follows.get(key, _ABSENT), (*path, key))
    elif isinstance(stated, list) and isinstance(follows, list):
        for number, (one, other) in enumerate(zip_longest(stated, follows, fillvalue=_ABSENT)):
            yield from _differences(one, other, (*path, number))
    elif (type(stated), stated) != (type(follows), follows):
        yield f"{shown_path(path)}: says {_shown(stated)}, from the session follows {_shown(follows)}"


_ABSENT = object()


def _shown(value: Any) -> str:
    return "nothing" if value is _ABSENT else json.dumps(value, ensure_ascii=False)[:80]
