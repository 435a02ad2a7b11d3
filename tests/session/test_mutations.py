"""One byte of a recorded session is changed, a thousand times: it is found every time, and located."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra_agent import canonical
from infra_agent.errors import UsageError
from infra_agent.proposal.store import open_session
from infra_agent.replay.verify import verify
from infra_agent.session import events
from infra_agent.session.log import BrokenLogError, SessionLog, envelope, read
from tests.proposal.recorded import session_of
from tests.support import rows_task

MUTATIONS = 1_000


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a session that went all the way."""
    folder = tmp_path_factory.mktemp("mutations")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFRA_AGENT_HOME", str(folder / "home"))
        name, _ = session_of(rows_task(folder), folder / "home")
    return folder / "home" / "sessions" / name


def places(folder: Path) -> Iterator[tuple[Path, int]]:
    """A third each: the log, HEAD and one blob after the other."""
    draw, blobs = random.Random(1), sorted((folder / "blobs").iterdir())
    for number in range(MUTATIONS):
        path = [folder / "session.jsonl", draw.choice(blobs), folder / "HEAD" if number % 9 == 2 else draw.choice(blobs)][number % 3]
        yield path, draw.randrange(path.stat().st_size)


def said(folder: Path) -> str:
    """What reading and verifying say is wrong; empty when nothing is."""
    try:
        return "; ".join(verify(open_session(str(folder))).differences)
    except UsageError as error:
        return str(error)


def test_a_thousand_changed_bytes_are_found_and_located(recorded: Path) -> None:
    assert said(recorded) == ""
    draw, seen = random.Random(2), dict[str, int]()
    for path, at in places(recorded):
        whole = path.read_bytes()
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << draw.randrange(8))]) + whole[at + 1 :])
        found = said(recorded)
        path.write_bytes(whole)
        line = whole[:at].count(b"\n") + 1
        where = f"{path}: line {line}" if path.name == "session.jsonl" else str(path)
        longer = path.name == "HEAD" and "HEAD says" in found  # its number grew: a log that was cut would look the same
        assert found.startswith(where) or longer, (path.name, at, found)
        seen[path.name] = seen.get(path.name, 0) + 1
    assert sum(seen.values()) == MUTATIONS and min(seen["session.jsonl"], seen["HEAD"]) > 100 and len(seen) > 10
    assert said(recorded) == ""


@pytest.mark.parametrize("version", [2, 0, "1", True, None])
def test_a_line_of_another_version_is_refused_by_name(tmp_path: Path, version: object) -> None:
    folder = tmp_path / "session"
    with SessionLog(folder) as log:
        log.append(events.Note(text="one"))
    line = envelope(events.Note(text="two"), 1, log.entries[-1].hash)
    line = {key: value for key, value in line.items() if key != "hash"} | {"v": version}
    with open(folder / "session.jsonl", "ab") as file:
        file.write(canonical.encode({**line, "hash": canonical.digest_of(line)}) + b"\n")
    with pytest.raises(BrokenLogError, match=f"line 2: schema version {version}; this program reads version 1"):
        read(folder)
