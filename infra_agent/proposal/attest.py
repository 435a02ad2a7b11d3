"""What the gate found on a patch, as in-toto Statements v1: a test result (v0.1) and SLSA provenance (v1). Pure.

Unsigned: with the session at hand they show that patch, log and verdict belong together, not who wrote them. Specifications:
https://github.com/in-toto/attestation/tree/main/spec and https://slsa.dev/spec/v1.0/provenance
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from infra_agent import __version__, canonical
from infra_agent.errors import UsageError
from infra_agent.proposal.approval import binding
from infra_agent.proposal.store import Proposal

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
PROVENANCE = "https://slsa.dev/provenance/v1"
_US = "https://pypi.org/project/infra-agent-framework"
_BUILD_TYPE = f"{_US}/#proposal-v1"
_MOST_BYTES = 1 << 20
_MOST_LINES = 16


def statements(proposal: Proposal) -> list[dict[str, Any]]:
    """The two statements on a judged proposal. The subject is the patch; of a merged one the commit too.

    Raises UsageError for a proposal that was never judged, JudgedError when its verdict does not follow from its records.
    """
    bound = binding(proposal)
    subject = [{"name": f"{proposal.id}.patch", "digest": {"sha256": proposal.made.patch}}]
    if proposal.merged:
        subject.append({"name": proposal.merged.branch, "digest": {"gitCommit": proposal.merged.commit}})
    predicates = ((TEST_RESULT, _test_result(proposal)), (PROVENANCE, _provenance(proposal, bound)))
    return [{"_type": STATEMENT, "subject": subject, "predicateType": kind, "predicate": told} for kind, told in predicates]


def encode(proposal: Proposal) -> bytes:
    """The statements as JSON Lines."""
    return b"".join(canonical.encode(statement) + b"\n" for statement in statements(proposal))


def _test_result(proposal: Proposal) -> dict[str, Any]:
    """A check that did not run, or that somebody set aside, is warned of: it is never among those that passed."""
    assert proposal.verdict is not None
    verdict, header = proposal.verdict.verdict, proposal.session.header
    aside = proposal.overrides
    failed = [check.name for check in verdict.checks if check.status == "fail" and check.name not in aside]
    warned = [c.name for c in verdict.checks if c.status in ("inconclusive", "not_run") or (c.status == "fail" and c.name in aside)]
    return {
        "result": "FAILED" if failed or verdict.decision == "fail" else "WARNED" if warned else "PASSED",
        "configuration": [
            {"name": "task", "digest": {"sha256": header.task_digest}, "annotations": {"id": header.task}},
            {"name": "policy", "digest": {"sha256": header.policy}},
        ],
        "passedTests": [check.name for check in verdict.checks if check.status == "pass"],
        "warnedTests": warned,
        "failedTests": failed,
    }


def _provenance(proposal: Proposal, bound: str) -> dict[str, Any]:
    assert proposal.verdict is not None
    header, verdict = proposal.session.header, proposal.verdict.verdict
    judged = next(e for e in proposal.session.entries if e.event == proposal.verdict)
    evidence = sorted({(name, digest) for check in verdict.checks for name, digest in check.records.items()})
    return {
        "buildDefinition": {
            "buildType": _BUILD_TYPE,
            "externalParameters": {"task": header.task, "base": proposal.made.base, "driver": header.driver},
            "internalParameters": {
                "proposal": proposal.id,
                "binding": bound,
                "feedback": header.feedback,
                "decision": verdict.decision,
                "level": verdict.level,
                "isolation": verdict.isolation,
                "platform": verdict.platform,
                "risk": proposal.risk.tier,
            },
            "resolvedDependencies": [
                {"name": "base", "digest": {"gitCommit": proposal.made.base}},
                {"name": "task", "digest": {"sha256": header.task_digest}},
                *({"name": name, "annotations": {"version": version}} for name, version in sorted(header.versions.items())),
            ],
        },
        "runDetails": {
            "builder": {"id": _US, "version": {"infra-agent": header.versions.get("infra-agent", __version__)}},
            "metadata": {"invocationId": header.session, "startedOn": proposal.session.entries[0].time, "finishedOn": judged.time},
            "byproducts": [
                {"name": "verdict", "digest": {"sha256": judged.hash}},
                *({"name": name, "digest": {"sha256": digest}} for name, digest in evidence),
            ],
        },
    }


def read(data: bytes) -> list[dict[str, Any]]:
    """Statements of a file from anywhere. Raises UsageError with the line of what cannot be one."""
    if len(data) > _MOST_BYTES:
        raise UsageError(f"an attestation of over {_MOST_BYTES} bytes is not read")
    lines = [line for line in data.split(b"\n") if line.strip()]
    if not 0 < len(lines) <= _MOST_LINES:
        raise UsageError(f"an attestation has 1 to {_MOST_LINES} lines, a statement each; found {len(lines)}")
    return [_statement(number, line) for number, line in enumerate(lines, 1)]


def _statement(number: int, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"line {number}: not JSON that can be read: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(found, dict) or found.get("_type") != STATEMENT:
        raise UsageError(f"line {number}: not an in-toto Statement v1")
    if found.get("predicateType") not in (TEST_RESULT, PROVENANCE):
        raise UsageError(f"line {number}: predicate type {str(found.get('predicateType'))[:80]!r} is not one that is made here")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def named(given: list[dict[str, Any]]) -> tuple[str, str]:
    """Session and proposal that the statements say they are of; empty where they do not say."""
    for statement in given:
        if statement["predicateType"] == PROVENANCE:
            session = _at(statement, "predicate", "runDetails", "metadata", "invocationId")
            return str(session or ""), str(_at(statement, "predicate", "buildDefinition", "internalParameters", "proposal") or "")
    return "", ""


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def against_session(given: list[dict[str, Any]], proposal: Proposal) -> list[str]:
    """Where the statements differ from what follows from the session, by path. Those made before a merge need not name the commit."""
    commits = any("gitCommit" in (_at(s, "digest") or {}) for g in given for s in _listed(g.get("subject")))
    expected = statements(proposal if commits else replace(proposal, merged=None))
    found = []
    for number, (stated, follows) in enumerate(zip_longest(given, expected), 1):
        if stated is None or follows is None:
            found.append(f"line {number}: {'is missing' if stated is None else 'is one too many'}")
        else:
            found += [f"line {number}: {fault}" for fault in _differences(stated, follows, "")]
    return found


def against_patch(given: list[dict[str, Any]], patch: bytes) -> list[str]:
    """Every statement must be on these bytes."""
    digest = canonical.digest(patch)
    return [
        f"line {number}: its subject is not the patch, whose SHA-256 is {digest}"
        for number, statement in enumerate(given, 1)
        if digest not in [_at(subject, "digest", "sha256") for subject in _listed(statement.get("subject"))]
    ]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _differences(stated: Any, follows: Any, path: str) -> Iterator[str]:
    if isinstance(stated, dict) and isinstance(follows, dict):
        for key in sorted({*stated, *follows}):
            yield from _differences(stated.get(key, _ABSENT), follows.get(key, _ABSENT), f"{path}.{key}")
    elif isinstance(stated, list) and isinstance(follows, list):
        for number, (one, other) in enumerate(zip_longest(stated, follows, fillvalue=_ABSENT)):
            yield from _differences(one, other, f"{path}[{number}]")
    elif (type(stated), stated) != (type(follows), follows):
        yield f"{path.lstrip('.')}: says {_shown(stated)}, from the session follows {_shown(follows)}"


_ABSENT = object()


def _shown(value: Any) -> str:
    return "nothing" if value is _ABSENT else json.dumps(value, ensure_ascii=False)[:80]
