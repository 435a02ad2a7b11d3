"""What an approval binds to is changed after it, at random: every merge is refused, and says what is not as it was."""

import json
import random
import shutil
from pathlib import Path

import pytest

from infra_agent.errors import InfraAgentError
from infra_agent.proposal.merge import Target, merge
from infra_agent.proposal.store import find_proposal, open_session
from tests.proposal.recorded import approved_in, copied

MUTATIONS = 100


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A home, its session and the approved proposal."""
    return approved_in(tmp_path_factory.mktemp("approved"))


def bound(home: Path, name: str, proposal: str) -> dict[str, list[Path]]:
    """What the approval binds to, as files, by what it is."""
    session, found = open_session(name), find_proposal(proposal)
    assert found.verdict
    evidence = {digest for check in found.verdict.verdict.checks for digest in check.records.values()} - {found.made.patch}
    blobs = session.blobs.folder
    return {
        "patch": [blobs / found.made.patch],
        "evidence": sorted(blobs / digest for digest in evidence),
        "policy": [blobs / session.header.policy],
        "base": [blobs / session.header.base_files],
        "log": [session.folder / "session.jsonl"],
        "head": [session.folder / "HEAD"],
    }


@pytest.mark.parametrize("number", range(MUTATIONS))
def test_one_changed_byte_of_anything_bound_is_refused_and_named(approved: tuple[Path, str, str], home: Path, number: int) -> None:
    source, name, proposal = approved
    shutil.rmtree(home)
    copied(source, home)
    draw = random.Random(number)
    files = bound(home, name, proposal)
    kind = sorted(files)[number % len(files)]
    victim = draw.choice(files[kind])
    data = bytearray(victim.read_bytes())
    at = draw.randrange(len(data))
    data[at] ^= 1 << draw.randrange(8)
    victim.write_bytes(data)
    with pytest.raises(InfraAgentError) as caught:
        merge(proposal, Target(home))
    assert str(victim) in str(caught.value) and "\n" not in str(caught.value), (kind, str(caught.value))
    victim.write_bytes(source.joinpath(victim.relative_to(home)).read_bytes())
    assert merge(proposal, Target(home)).branch == "main", "with the byte put back it merges"


@pytest.mark.parametrize("what", ["lines", "removed-last-line", "swapped-lines", "missing-blob"])
def test_more_than_a_byte(approved: tuple[Path, str, str], home: Path, what: str) -> None:
    source, name, proposal = approved
    copied(source, home)
    log = home / "sessions" / name / "session.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    if what == "lines":
        line = json.loads(lines[3])
        log.write_bytes(b"".join([*lines[:3], json.dumps(line).encode() + b"\n", *lines[4:]]))
    elif what == "removed-last-line":
        log.write_bytes(b"".join(lines[:-1]))
    elif what == "swapped-lines":
        log.write_bytes(b"".join([*lines[:3], lines[4], lines[3], *lines[5:]]))
    else:
        bound(home, name, proposal)["patch"][0].unlink()
    with pytest.raises(InfraAgentError, match=r"line|blob"):
        merge(proposal, Target(home))
