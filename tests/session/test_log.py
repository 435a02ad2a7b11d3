"""The log: chain, HEAD, blobs; every single-byte change is found and placed."""

import fcntl
import random
import threading
import time
from pathlib import Path

import pytest

from infra_agent.errors import UsageError
from infra_agent.session import events
from infra_agent.session.log import Blobs, BrokenLogError, SessionLog, read
from infra_agent.session.redaction import MASK, redact_text, secrets_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "session"
    with SessionLog(path) as log:
        for n in range(5):
            log.append(events.Note(text=f"note {n} — ünïcode"))
        log.blobs.put(b"some bytes")
    return path


def test_what_is_written_is_read(folder: Path) -> None:
    entries = read(folder)
    assert [entry.event.text for entry in entries if isinstance(entry.event, events.Note)] == [f"note {n} — ünïcode" for n in range(5)]
    assert [entry.seq for entry in entries] == list(range(5))


def test_a_log_is_continued_not_rewritten(folder: Path) -> None:
    before = (folder / "session.jsonl").read_bytes()
    with SessionLog(folder) as log:
        log.append(events.Note(text="later"))
    assert (folder / "session.jsonl").read_bytes().startswith(before)
    assert len(read(folder)) == 6


def test_two_writers_are_one_too_many(folder: Path) -> None:
    with SessionLog(folder), pytest.raises(UsageError, match="another process"):
        SessionLog(folder)


@pytest.mark.parametrize("name", ["session.jsonl", "HEAD"])
def test_every_flipped_byte_is_found(folder: Path, name: str) -> None:
    path = folder / name
    whole = path.read_bytes()
    positions = range(len(whole)) if len(whole) < 300 else random.Random(0).sample(range(len(whole)), 200)
    for position in positions:
        changed = bytearray(whole)
        changed[position] ^= 1 << (position % 8)
        path.write_bytes(bytes(changed))
        with pytest.raises(BrokenLogError, match=r"session\.jsonl|HEAD"):
            read(folder)
    path.write_bytes(whole)
    assert len(read(folder)) == 5


def test_a_cut_last_line_is_found(folder: Path) -> None:
    path = folder / "session.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(BrokenLogError, match="ends at line 4, HEAD says line 5"):
        read(folder)
    path.write_bytes(b"".join(lines)[:-7])
    with pytest.raises(BrokenLogError, match="line 5 is cut off"):
        read(folder)


def test_a_removed_line_in_the_middle_is_found(folder: Path) -> None:
    path = folder / "session.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(BrokenLogError, match="line 3: does not follow"):
        read(folder)


def test_a_changed_blob_is_found(folder: Path) -> None:
    blobs = Blobs(folder / "blobs")
    name = blobs.put(b"other bytes")
    (folder / "blobs" / name).write_bytes(b"other byteS")
    with pytest.raises(BrokenLogError, match=name):
        blobs.get(name)
    (folder / "blobs" / name).unlink()
    with pytest.raises(BrokenLogError, match="missing"):
        blobs.get(name)


def test_secrets_never_reach_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SERVICE_TOKEN", "plain-word-secret-42")
    key = "sk-" + "a1B2" * 8
    with SessionLog(tmp_path / "s") as log:
        log.append(events.Note(text=f"key {key} and plain-word-secret-42"))
    data = (tmp_path / "s" / "session.jsonl").read_text()
    assert key not in data and "plain-word-secret-42" not in data and data.count(MASK) == 2


def test_redaction_neither_misses_nor_overreaches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI-not-real")
    kept = "disk-cache-eviction-policy-notes-2 task-mask-attention-back-7"
    said = redact_text(f"db postgres://user:hunter2hunter2@host/x wJalrXUtnFEMI-not-real {kept}")
    assert said == f"db postgres://{MASK}@host/x {MASK} {kept}"


def test_a_reader_beside_a_writer_sees_a_whole_log(tmp_path: Path) -> None:
    folder, done = tmp_path / "s", threading.Event()

    def write() -> None:
        with SessionLog(folder) as log:
            for n in range(150):
                log.append(events.ModelRequested(model="m", digest="d", messages=n))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not (folder / "HEAD").is_file():
        time.sleep(0.001)
    looks = 0
    while not done.is_set():
        read(folder)
        looks += 1
    writer.join()
    assert looks > 3 and len(read(folder)) == 150


def test_a_line_that_a_living_writer_has_half_written_is_not_there_yet(folder: Path) -> None:
    with open(folder / "session.jsonl", "ab") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        writer.write(b'{"half')
        writer.flush()
        assert len(read(folder)) == 5
    with pytest.raises(BrokenLogError, match="line 6 is cut off"):
        read(folder)
    with pytest.raises(BrokenLogError, match="line 6 is cut off"):
        SessionLog(folder)


@pytest.mark.parametrize("line", [b"[1]", b"{}", b'{"hash":1}', b"[" * 100_000, b"\xff\xfe"])
def test_a_crafted_line_is_one_clear_error(folder: Path, line: bytes) -> None:
    with open(folder / "session.jsonl", "ab") as log:
        log.write(line + b"\n")
    with pytest.raises(BrokenLogError, match="line 6: not an event"):
        read(folder)


def test_a_blob_is_named_by_a_digest_only(folder: Path) -> None:
    for name in ("/dev/zero", "../session.jsonl", "x"):
        with pytest.raises(BrokenLogError, match="not the name of a blob"):
            Blobs(folder / "blobs").get(name)


def test_secrets_are_named_by_pattern_only() -> None:
    assert secrets_in(b"x = 'ghp_" + b"A" * 36 + b"'") and not secrets_in(b"x = 'nothing here'")


def test_not_a_session(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a session"):
        read(tmp_path)
