"""Attestations follow from the session: whatever is changed in one is found and named; files from anywhere do no harm."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra_agent import canonical
from infra_agent.errors import UsageError
from infra_agent.proposal import attest
from infra_agent.proposal.merge import Target, merge
from infra_agent.proposal.store import Proposal, find_proposal
from tests.conftest import Cli
from tests.proposal.recorded import approved_in, copied

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    home, _, identity = approved_in(tmp_path_factory.mktemp("approved"))
    return home, identity


@pytest.fixture
def proposal(approved: tuple[Path, str], home: Path) -> Proposal:
    copied(approved[0], home)
    return find_proposal(approved[1])


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not isinstance(value, dict | list) or not value:
        yield path
    for key, child in inner:
        yield from leaves(child, (*path, key))


def changed(statements: list[dict[str, Any]], path: tuple[Any, ...]) -> list[dict[str, Any]]:
    copy = json.loads(json.dumps(statements))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = ["x"] if isinstance(at[path[-1]], list) else f"{at[path[-1]]}x"
    return copy  # type: ignore[no-any-return]


def test_its_form_and_that_it_agrees(proposal: Proposal) -> None:
    lines = attest.encode(proposal).splitlines()
    result, provenance = (json.loads(line) for line in lines)
    assert result["predicateType"] == attest.TEST_RESULT and provenance["predicateType"] == attest.PROVENANCE
    patch = proposal.session.blobs.get(proposal.made.patch)
    assert result["subject"] == [{"name": f"{proposal.id}.patch", "digest": {"sha256": canonical.digest(patch)}}]
    assert result["predicate"]["result"] == "WARNED" and "timing" in result["predicate"]["warnedTests"], "an excused check did not pass"
    assert "accuracy" in result["predicate"]["passedTests"] and result["predicate"]["failedTests"] == []
    given = attest.read(attest.encode(proposal))
    assert attest.against_session(given, proposal) == [] == attest.against_patch(given, patch)
    assert len(attest.against_patch(given, patch + b"\n")) == 2


def test_every_leaf_that_is_changed_is_found_and_named(proposal: Proposal) -> None:
    right = attest.statements(proposal)
    places = list(leaves(right))
    assert len(places) > 60
    for path in places:
        found = attest.against_session(changed(right, path), proposal)
        named = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path[1:]).lstrip(".")
        assert any(fault.startswith(f"line {path[0] + 1}: {named}") for fault in found), (named, found)


def test_statements_that_are_missing_or_too_many(proposal: Proposal) -> None:
    right = attest.statements(proposal)
    assert attest.against_session(right[:1], proposal) == ["line 2: is missing"]
    assert attest.against_session([*right, right[0]], proposal) == ["line 3: is one too many"]
    assert attest.against_session(right[::-1], proposal)


def test_a_merged_one_names_the_commit_and_an_earlier_one_still_holds(proposal: Proposal, home: Path) -> None:
    before = attest.read(attest.encode(proposal))
    merged = merge(proposal.id, Target(home))
    after = find_proposal(proposal.id)
    given = attest.read(attest.encode(after))
    assert given[0]["subject"][1] == {"name": "main", "digest": {"gitCommit": merged.commit}}
    assert attest.against_session(before, after) == [] == attest.against_session(given, after)


def test_by_command_line(proposal: Proposal, home: Path, tmp_path: Path, cli: Cli) -> None:
    file, patch = tmp_path / "a.jsonl", tmp_path / "a.patch"
    patch.write_bytes(proposal.session.blobs.get(proposal.made.patch))
    done = cli("attest", proposal.id, "--out", str(file))
    assert done.returncode == 0 and "unsigned" in done.stderr
    assert cli("attest", proposal.id, "--out", str(file)).returncode == 2, "it is not written over"
    assert cli("attest", proposal.id).stdout.encode() == file.read_bytes()
    agrees = cli("verify-attestation", str(file), "--patch", str(patch))
    assert agrees.returncode == 0 and "agrees with patch" in agrees.stdout and "and session" in agrees.stdout
    elsewhere = {"INFRA_AGENT_HOME": str(tmp_path / "elsewhere")}
    nothing = cli("verify-attestation", str(file), **elsewhere)
    assert nothing.returncode == 3 and "neither its session nor a patch" in nothing.stdout
    named = cli("verify-attestation", str(file), "--session", str(proposal.session.folder), "--json", **elsewhere)
    assert named.returncode == 0 and json.loads(named.stdout)["agrees"]
    file.write_bytes(file.read_bytes().replace(b'"WARNED"', b'"PASSED"'))
    lied = cli("verify-attestation", str(file))
    assert lied.returncode == 1 and 'DIFFERS line 1: predicate.result: says "PASSED", from the session follows "WARNED"' in lied.stdout


HOSTILE = {
    "empty": (b"", "1 to 16 lines"),
    "many": (b"{}\n" * 17, "1 to 16 lines"),
    "large": (b" " * (1 << 20) + b"{}", "is not read"),
    "no-json": (b"{", "not JSON"),
    "deep": (b"[" * 100_000, "not JSON"),
    "twice": (b'{"_type": 1, "_type": 2}', "a key is there twice"),
    "no-statement": (b"[]", "not an in-toto Statement"),
    "other-predicate": (json.dumps({"_type": attest.STATEMENT, "predicateType": "x"}).encode(), "is not one that is made here"),
    "not-text": (b"\xff\xfe", "not JSON"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_are_none_are_refused(name: str) -> None:
    data, message = HOSTILE[name]
    with pytest.raises(UsageError, match=message):
        attest.read(data)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_bytes_from_anywhere_raise_one_kind_of_error(data: bytes) -> None:
    with suppress(UsageError):
        assert attest.read(data)


@given(subject=JSON, predicate=JSON)
def test_statements_of_any_shape_are_compared(subject: Any, predicate: Any) -> None:
    lines = [{"_type": attest.STATEMENT, "predicateType": attest.PROVENANCE, "subject": subject, "predicate": predicate}]
    assert attest.named(lines) == ("", "") or isinstance(predicate, dict)
    assert attest.against_patch(lines, b"patch")
