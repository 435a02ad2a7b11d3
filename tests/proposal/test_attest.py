"""Attestations follow from the session: whatever is changed in one is found and named; files from anywhere do no harm."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra_agent import canonical
from infra_agent.errors import UsageError
from infra_agent.proposal import approval, attest, statement
from infra_agent.proposal.merge import Target, merge
from infra_agent.proposal.store import Proposal, find_proposal
from infra_agent.session import events
from infra_agent.session.log import SessionLog
from tests.conftest import Cli
from tests.proposal.recorded import approved_in, copied, session_of
from tests.proposal.test_approval import WRONG, made
from tests.support import call, rows_task

PROPOSE = call("propose", title="Sum rows", summary="s")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    home, _, identity = approved_in(tmp_path_factory.mktemp("approved"), "Ada")
    return home, identity


@pytest.fixture(scope="module")
def kept(approved: tuple[Path, str]) -> Proposal:
    """The proposal where it was made, for tests that change nothing on disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFRA_AGENT_HOME", str(approved[0]))
        return find_proposal(approved[1])


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


def changed(statements: list[dict[str, Any]], path: tuple[Any, ...], value: Any = None) -> list[dict[str, Any]]:
    copy = json.loads(json.dumps(statements))
    at = copy
    for key in path[:-1]:
        at = at[key]
    another = ["x"] if isinstance(at[path[-1]], list) else f"{at[path[-1]]}x"
    at[path[-1]] = another if value is None else value
    return copy  # type: ignore[no-any-return]


def path_of(path: tuple[Any, ...]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path[1:]).lstrip(".")


def written(statements: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in statements)


def test_its_form_and_that_it_agrees(proposal: Proposal) -> None:
    lines = attest.encode(proposal).splitlines()
    result, provenance = (json.loads(line) for line in lines)
    assert result["predicateType"] == statement.TEST_RESULT and provenance["predicateType"] == statement.PROVENANCE
    patch = proposal.session.blobs.get(proposal.made.patch)
    assert result["subject"] == [{"name": f"{proposal.id}.patch", "digest": {"sha256": canonical.digest(patch)}}]
    assert result["predicate"]["result"] == "WARNED" and "timing" in result["predicate"]["warnedTests"], "an excused check did not pass"
    assert "accuracy" in result["predicate"]["passedTests"] and result["predicate"]["failedTests"] == []
    given = statement.read(attest.encode(proposal))
    assert attest.against_session(given, proposal) == [] == attest.against_patch(given, patch)
    assert len(attest.against_patch(given, patch + b"\n")) == 2


def test_every_leaf_that_is_changed_is_found_and_named(proposal: Proposal) -> None:
    right = attest.statements(proposal)
    places = list(leaves(right))
    assert len(places) > 60
    for path in places:
        found = attest.against_session(changed(right, path), proposal)
        named = path_of(path)
        assert any(fault.startswith(f"line {path[0] + 1}: {named}") for fault in found), (named, found)


def test_a_wrong_type_anywhere_is_located_without_a_session(kept: Proposal) -> None:
    right = attest.statements(kept)
    for path in leaves(right):
        with pytest.raises(UsageError) as caught:
            statement.read(written(changed(right, path, {"x": 1})))
        assert str(caught.value).startswith(f"line {path[0] + 1}: ") and "\n" not in str(caught.value)
        if path[1] not in ("_type", "predicateType"):
            assert path_of(path) in str(caught.value), str(caught.value)


def test_it_has_what_the_specifications_demand(kept: Proposal) -> None:
    result, provenance = (one["predicate"] for one in attest.statements(kept))
    definition, run = provenance["buildDefinition"], provenance["runDetails"]
    for descriptor in [*result["configuration"], *definition["resolvedDependencies"], *run["byproducts"]]:
        assert {"uri", "digest", "content"} & set(descriptor), descriptor
    assert run["metadata"]["startedOn"].endswith("Z") and run["metadata"]["finishedOn"].endswith("Z")
    assert run["builder"]["id"].endswith(f"isolation-{kept.session.header.isolation}"), "modes of different security are different builders"
    assert not set(definition["externalParameters"]) & set(definition["internalParameters"])
    assert definition["internalParameters"]["policy"] == kept.session.header.policy
    assert definition["internalParameters"]["limits"] == {"steps": 2}
    assert {"name": "log", "digest": {"sha256": kept.session.entries[-1].hash}} in run["byproducts"]
    review = next(entry for entry in kept.session.entries if isinstance(entry.event, events.ReviewDecided))
    said = {"name": "approval", "digest": {"sha256": review.hash}, "annotations": {"reviewer": "Ada", "overrides": ""}}
    assert said in run["byproducts"]


def test_what_was_set_aside_is_warned_of_until_the_approval_is_void(tmp_path: Path, home: Path) -> None:
    identity = made(tmp_path, home, WRONG, PROPOSE)
    standing = approval.obstacles(find_proposal(identity))
    aside, failed = list(standing), [name for name, why in standing.items() if why == "fail"]
    assert failed and attest.statements(find_proposal(identity))[0]["predicate"]["failedTests"] == failed
    approval.decide(identity, "approve", "Ada", "known", overrides=aside)
    proposal = find_proposal(identity)
    result = attest.statements(proposal)[0]["predicate"]
    assert set(aside) <= set(result["warnedTests"]) and not set(aside) & {*result["passedTests"], *result["failedTests"]}
    before = statement.read(attest.encode(proposal))
    with SessionLog(proposal.session.folder) as log:
        verdict = next(entry.event for entry in log.entries if isinstance(entry.event, events.VerdictGiven))
        log.append(verdict.model_copy(update={"verdict": verdict.verdict.model_copy(update={"level": "L1"})}))
    void = find_proposal(identity)
    assert attest.statements(void)[0]["predicate"]["failedTests"] == failed
    assert attest.against_session(before, void) == [f"{identity} was given another verdict since"]


def test_a_check_that_the_task_has_not_is_warned_of_when_it_is_set_aside(tmp_path: Path, home: Path) -> None:
    layer = tmp_path / "config" / "infra-agent" / "policy.toml"
    layer.parent.mkdir(parents=True)
    layer.write_text('[approval.low]\nchecks = ["tests"]\n')
    _, identity = session_of(rows_task(tmp_path), home)
    approval.decide(identity, "approve", "Ada", "known", overrides=["tests"])
    assert "tests" in attest.statements(find_proposal(identity))[0]["predicate"]["warnedTests"]


def test_an_attestation_ends_with_the_approval_that_it_states(proposal: Proposal) -> None:
    before = statement.read(attest.encode(proposal))
    approval.decide(proposal.id, "reject", "Grace", "the summary is wrong")
    after = find_proposal(proposal.id)
    assert attest.against_session(before, after) == [f"the approval by Ada does not stand any more: {proposal.id} is rejected"]
    again = statement.read(attest.encode(after))
    assert attest.against_session(again, after) == [] and "Ada" not in json.dumps(again)


def test_statements_that_are_missing_or_too_many(proposal: Proposal) -> None:
    right = attest.statements(proposal)
    assert attest.against_session(right[:1], proposal) == ["line 2: is missing"]
    assert attest.against_session([*right, right[0]], proposal) == ["line 3: is one too many"]
    assert attest.against_session(right[::-1], proposal)


def test_a_merged_one_names_the_commit_and_an_earlier_one_still_holds(proposal: Proposal, home: Path) -> None:
    before = statement.read(attest.encode(proposal))
    merged = merge(proposal.id, Target(home))
    after = find_proposal(proposal.id)
    given = statement.read(attest.encode(after))
    assert given[0]["subject"][1] == {"name": "main", "digest": {"gitCommit": merged.commit}}
    assert attest.against_session(before, after) == [] == attest.against_session(given, after)


def test_by_command_line(proposal: Proposal, home: Path, tmp_path: Path, cli: Cli) -> None:
    file, patch = tmp_path / "a.jsonl", tmp_path / "a.patch"
    patch.write_bytes(proposal.session.blobs.get(proposal.made.patch))
    done = cli("attest", proposal.id, "--out", str(file))
    assert done.returncode == 0 and "unsigned" in done.stderr
    assert cli("attest", proposal.id, "--out", str(file)).returncode == 0, "it is there already"
    (tmp_path / "other").write_bytes(b"mine")
    other = cli("attest", proposal.id, "--out", str(tmp_path / "other"))
    assert other.returncode == 2 and "is something else" in other.stderr and (tmp_path / "other").read_bytes() == b"mine"
    assert not list(tmp_path.glob(".*")), "nothing is left behind"
    assert cli("attest", proposal.id).stdout.encode() == file.read_bytes()
    agrees = cli("verify-attestation", str(file), "--patch", str(patch))
    assert agrees.returncode == 0 and "agrees with patch" in agrees.stdout and "and session" in agrees.stdout
    elsewhere = {"INFRA_AGENT_HOME": str(tmp_path / "elsewhere")}
    nothing = cli("verify-attestation", str(file), **elsewhere)
    assert nothing.returncode == 3 and "its session is not here" in nothing.stdout
    digest = cli("verify-attestation", str(file), "--patch", str(patch), **elsewhere)
    assert digest.returncode == 3 and f"it is on patch {patch}" in digest.stdout and "unsigned" in digest.stderr
    endless = cli("verify-attestation", "/dev/zero")
    assert endless.returncode == 2 and "which is not read" in endless.stderr
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
    "after-blank-lines": (b"\n\n{", "line 3: not JSON"),
    "surrogate": (json.dumps({"_type": statement.STATEMENT, "predicateType": statement.PROVENANCE, "subject": "\ud800"}).encode(), "JSON"),
    "no-name": (json.dumps({"_type": statement.STATEMENT, "predicateType": ["x"]}).encode(), "of JSON type list"),
    "other-predicate": (json.dumps({"_type": statement.STATEMENT, "predicateType": "x"}).encode(), "is not one that is made here"),
    "not-text": (b"\xff\xfe", "not JSON"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_are_none_are_refused(name: str) -> None:
    data, message = HOSTILE[name]
    with pytest.raises(UsageError, match=message):
        statement.read(data)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_bytes_from_anywhere_raise_one_kind_of_error(data: bytes) -> None:
    with suppress(UsageError):
        assert statement.read(data)


@given(data=st.data(), value=JSON)
@settings(deadline=None, max_examples=60)
def test_no_file_of_another_shape_agrees(kept: Proposal, data: st.DataObject, value: Any) -> None:
    right = attest.statements(kept)
    path = data.draw(st.sampled_from(list(leaves(right))))
    cut = data.draw(st.sampled_from([1, 2, 3])) if len(path) > 3 else len(path)
    at: Any = right
    for key in path[: cut + 1]:
        at = at[key]
    if at == value or value is None:
        return
    with suppress(UsageError):  # what can be read is compared, and differs
        assert attest.against_session(statement.read(written(changed(right, path[: cut + 1], value))), kept)


@given(st.integers(1, 5000))
@settings(deadline=None)
def test_half_a_file_does_not_agree(kept: Proposal, length: int) -> None:
    whole = attest.encode(kept)
    with suppress(UsageError):
        assert attest.against_session(statement.read(whole[: min(length, len(whole) - 2)]), kept)


@pytest.mark.parametrize("depth", [100, 300, 900, 950, 980])
def test_nesting_of_any_depth_is_refused_in_one_line(kept: Proposal, depth: int) -> None:
    for inner in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        data = attest.encode(kept).replace(b'"WARNED"', inner.encode())
        with pytest.raises(UsageError, match=r"^line 1: "):
            statement.read(data)
