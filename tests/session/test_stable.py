"""What is written is read as it was, today and for ever; what was not written is refused in one way, whatever bytes it is."""

import json
import os
import random
import shutil
import tempfile
import time
import types
import typing
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from infra_agent import canonical
from infra_agent.errors import UsageError
from infra_agent.frozen import one_line
from infra_agent.proposal.store import Session
from infra_agent.replay.verify import verify
from infra_agent.session import events
from infra_agent.session.context import Conversation
from infra_agent.session.index import Index
from infra_agent.session.log import BrokenLogError, Entry, SessionLog, envelope, read

GOLDEN = Path(__file__).with_name("golden")
HEADS = {"v1": "8968a49d04fa"}
"""Version -> how the hash of its golden session's last event begins: a session that was made again is another."""
FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS", "3"))
TAIL = "; restore the session from a copy, nothing here repairs it"

# Generated logs


def built(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        return built(inner[0])
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([built(one) for one in inner])
    if origin is tuple:
        return st.lists(built(inner[0]), max_size=3).map(tuple) if inner[1:] == (...,) else st.tuples(*map(built, inner))
    if origin is dict:
        return st.dictionaries(st.text(max_size=8), built(inner[1]), max_size=3)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return model(kind)
    return SIMPLE[kind]


def model(kind: type[BaseModel]) -> st.SearchStrategy[Any]:
    """Instances of a schema, every field of it given."""
    fields = {name: NAMED[name] if name in NAMED else built(field.annotation) for name, field in kind.model_fields.items()}
    return st.fixed_dictionaries(fields).map(kind.model_validate)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=30), int: st.integers(), float: st.floats(allow_nan=False, allow_infinity=False), bool: st.booleans(),
    type(None): st.none(), Any: JSON,
}  # fmt: skip
NAMED: dict[str, st.SearchStrategy[Any]] = {"action": st.sampled_from(["a-1", "a-2", "a-3"])}
KINDS = get_args(get_args(events.Event)[0])
LATER = st.lists(st.one_of([model(kind) for kind in KINDS if kind is not events.SessionStarted]), max_size=8)


def carried_out(later: list[events.Event]) -> list[events.Event]:
    """The same with a proposal before each observation that has none: no host logs an observation of nothing."""
    known, whole = set[str](), list[events.Event]()
    for event in later:
        if isinstance(event, events.ObservationMade) and event.action not in known:
            whole.append(events.ActionProposed(action=event.action, call="c", tool="view", arguments={}))
        known |= {event.action} if isinstance(event, events.ActionProposed | events.ObservationMade) else set()
        whole.append(event)
    return whole


@settings(max_examples=80, deadline=None)
@given(model(events.SessionStarted), LATER)
def test_a_generated_log_is_read_and_projected_as_it_was_written(header: events.SessionStarted, later: list[events.Event]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "session"
        with SessionLog(folder) as log:
            words = {name: log.blobs.put(name.encode()) for name in ("system_prompt", "brief", "tools")}
            for event in (header.model_copy(update=words), *carried_out(later)):
                log.append(event)
        found = read(folder)
        assert found == log.entries == read(folder)
        lines = (folder / "session.jsonl").read_bytes().splitlines(keepends=True)
        hashes = ["0" * 64, *(entry.hash for entry in found)]
        assert [canonical.encode(envelope(e.event, e.seq, hashes[e.seq], e.time)) + b"\n" for e in found] == lines
        with Index(folder) as index:
            assert [index.entry(seq) for seq in range(len(index))] == found
        at_once, in_steps = Conversation(log.blobs, None), Conversation(log.blobs, None)
        at_once.read(found)
        for seq in range(len(found)):
            in_steps.read(found, seq + 1)
        assert at_once.request() == in_steps.request() == at_once.request()


# Golden sessions


@pytest.mark.parametrize("folder", sorted(GOLDEN.glob("v*")), ids=lambda folder: folder.name)
def test_a_golden_session_reads_and_verifies_for_ever(folder: Path) -> None:
    report = verify(Session(folder, found := read(folder)))
    assert report.agrees, report.differences
    assert found[-1].hash.startswith(HEADS[folder.name]), "a golden session is made once"
    asked = {"event hashes", "blob digests", "model requests", "gate decisions", "observations", "verdicts", "checks"}
    assert asked <= {name for name, count in report.recomputed.items() if count}


def test_there_is_a_golden_session_of_every_version() -> None:
    assert sorted(folder.name for folder in GOLDEN.glob("v*")) == sorted(HEADS) == [f"v{n + 1}" for n in range(events.VERSION)]


# Logs that nobody wrote


def sealed(lines: list[dict[str, Any]]) -> list[bytes]:
    """Lines whose hashes and links are those of their contents, as one who changes a log with care would leave them."""
    done, previous = list[bytes](), lines[0]["prev"]
    for line in lines:
        rest = {**{name: value for name, value in line.items() if name != "hash"}, **({"prev": previous} if "prev" in line else {})}
        previous = canonical.digest_of(rest)
        done.append(canonical.encode({**rest, "hash": previous}))
    return done


ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1.0,
    2**70,
    1e300,
    "",
    "x",
    [],
    [["text", "x"]],
    {},
    {"hash": "x"},
    "note",
    "0" * 64,
    [[[[]]]],
    {"": {}},
]


def forged(draw: random.Random, lines: list[bytes]) -> list[bytes]:
    """One member somewhere is another, or gone, or new; everything after it is sealed again."""
    parsed = [json.loads(line) for line in lines]
    inside = draw.choice(parsed)
    while True:
        name = draw.choice([*(inside if isinstance(inside, dict) else range(len(inside))), "new"])
        below = inside[name] if name != "new" else None
        if not below or not isinstance(below, dict | list) or draw.random() < 0.4:
            break
        inside = below
    if name == "new":
        inside.update(new=draw.choice(ODD)) if isinstance(inside, dict) else inside.append(draw.choice(ODD))
    elif draw.random() < 0.3:
        del inside[name]
    else:
        inside[name] = draw.choice(ODD)
    return sealed(parsed) if "prev" in parsed[0] else lines


def misspelt(draw: random.Random, lines: list[bytes]) -> list[bytes]:
    """One line says the same in other bytes."""
    at = draw.randrange(len(lines))
    same = json.loads(lines[at])
    ways: list[Callable[[], str]] = [
        lambda: json.dumps(same), lambda: json.dumps(same, sort_keys=True, separators=(",", ":")).replace("/", "\\/"),
        lambda: json.dumps(dict(reversed(same.items())), separators=(",", ":"), ensure_ascii=False),
        lambda: lines[at].decode().replace('"v":1}', '"v":1.0}'), lambda: lines[at].decode().replace("{", '{"data":{},', 1),
        lambda: " " + lines[at].decode(), lambda: lines[at].decode() + "\r",
    ]  # fmt: skip
    return [*lines[:at], draw.choice(ways)().encode(), *lines[at + 1 :]]


def moved(draw: random.Random, lines: list[bytes]) -> list[bytes]:
    """A line is away, twice, or elsewhere."""
    at, to = draw.randrange(len(lines)), draw.randrange(len(lines))
    rest = lines[:at] + lines[at + 1 :]
    return draw.choice([rest, [*lines[:to], lines[at], *lines[to:]], [*rest[:to], lines[at], *rest[to:]], lines[:to]])


def spoilt(draw: random.Random, data: bytes) -> bytes:
    """Bytes of chance, or one changed span."""
    at = draw.randrange(len(data) or 1)
    match draw.randrange(4):
        case 0:
            return draw.randbytes(draw.randrange(300)) + draw.choice([b"", b"\n"])
        case 1:
            return data[:at] + bytes(byte ^ (1 << draw.randrange(8)) for byte in data[at : at + 1]) + data[at + 1 :]
        case 2:
            return data[:at] + draw.randbytes(draw.randrange(4)) + data[at + draw.randrange(4) :]
        case _:
            return data[:at] + draw.choice([b"\n", b"\0", b"\xff", b'"', b"[" * 2_000, b"9" * 5_000, b"\\ud800", b"NaN"]) + data[at:]


def mutated(draw: random.Random, data: bytes) -> bytes:
    """Another log: spoilt, or changed by what knows what a log is, or both."""
    if draw.random() < 0.3:
        return spoilt(draw, data)
    changed = draw.choice([misspelt, moved, forged, forged])(draw, data.split(b"\n")[:-1])
    joined = b"".join(line + b"\n" for line in changed)
    return joined if draw.random() < 0.8 else spoilt(draw, joined)


def head_of(data: bytes) -> bytes:
    """A HEAD that names the last line, where there is one that states a hash."""
    lines = data.split(b"\n")[:-1]
    stated = lines[-1].rpartition(b'"hash":"')[2][:64].decode(errors="replace") if lines else ""
    return canonical.encode({"seq": len(lines) - 1, "hash": stated}) + b"\n"


@pytest.fixture(scope="module")
def written() -> bytes:
    """A short log: the golden one without its longest lines, so that a change in it is seldom in the same place."""
    lines = (GOLDEN / "v1" / "session.jsonl").read_bytes().split(b"\n")[:-1]
    return b"".join(line + b"\n" for line in sealed([{**json.loads(line), "seq": n} for n, line in enumerate(lines[:9])]))


def put(folder: Path, log: bytes, head: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "session.jsonl").write_bytes(log)
    (folder / "HEAD").write_bytes(head)
    return folder


def plainly(path: Path, data: bytes) -> list[Entry] | str:
    """What a log says, or why it is refused, by the shortest way to ask: every line is encoded again, with its hash and without it."""
    found, previous = list[Entry](), "0" * 64
    *lines, torn = data.split(b"\n")
    if torn:
        return f"{path}: line {len(lines) + 1} is cut off: it does not end in a newline"
    for seq, text in enumerate(lines):
        where = f"{path}: line {seq + 1}"
        try:
            line = json.loads(text)
            rest = {name: value for name, value in line.items() if name != "hash"}
            whole = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
            stated, version = line["hash"], line["v"]
            if whole == text and (version != 1 or type(version) is not int):
                return f"{where}: schema version {str(version)[:20]}; this program reads version 1"
            follows = (line["prev"], line["seq"]) == (previous, seq)
            event_data, kind, told = dict(line["data"]), line["type"], datetime.fromisoformat(line["t"]) and line["t"]
            known = set(line) == {"v", "seq", "prev", "t", "type", "data", "hash"} and type(line["seq"]) is int
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
            return f"{where}: not "
        if whole != text or not known:
            return f"{where}: not "
        if canonical.digest_of(rest) != stated:
            return f"{where}: its content does not have the hash it states"
        if not follows:
            return f"{where}: does not follow the line before it"
        try:
            found.append(Entry(seq, told, previous := stated, events.EVENT.validate_python({**event_data, "type": kind})))
        except ValidationError as error:
            return f"{where}: {kind}: {one_line(error)}"
    return found


def outcome(reader: Callable[[Path], list[Entry]], folder: Path) -> list[Entry] | str:
    """What was read, or the refusal; any other error is a fault of the reader."""
    try:
        return reader(folder)
    except BrokenLogError as error:
        return str(error).removesuffix(TAIL)
    except UsageError as error:
        return str(error)


def one_by_one(folder: Path) -> list[Entry]:
    with Index(folder) as index:
        return [index.entry(seq) for seq in range(len(index))]


def test_the_reader_refuses_what_a_plain_one_does_for_the_same_reason(tmp_path: Path, written: bytes) -> None:
    draw, reasons = random.Random(3), set[str]()
    for _ in range(1_500):
        data = mutated(draw, written)
        folder = put(tmp_path / "session", data, head_of(data))
        expected, found = plainly(folder / "session.jsonl", data), outcome(read, folder)
        if isinstance(expected, str):
            assert isinstance(found, str) and found.startswith(expected) and (expected.endswith("not ") or found == expected), data
            reasons.add(expected.partition(": line ")[2].partition(" ")[2][:12])
        else:
            assert found == expected or (isinstance(found, str) and "HEAD" in found), data
    assert len(reasons) > 6, reasons


def test_whatever_a_careful_forger_leaves_is_verified_or_refused(tmp_path: Path) -> None:
    """Every hash is right, what the log says is not: that is a difference, never an error of the program."""
    draw, golden, agreed, refused = random.Random(6), GOLDEN / "v1", 0, 0
    lines = (golden / "session.jsonl").read_bytes().split(b"\n")[:-1]
    shutil.copytree(golden / "blobs", tmp_path / "session" / "blobs")
    for _ in range(250):
        changed = forged(draw, lines)
        data = b"".join(line + b"\n" for line in changed)
        folder = put(tmp_path / "session", data, head_of(data))
        try:
            agreed += changed != lines and verify(Session(folder, read(folder))).agrees
        except UsageError:
            refused += 1
    assert refused > 20 > agreed, "most of what is forged is found; a few names and exit codes are carried"


def heads(draw: random.Random, data: bytes) -> Iterator[bytes]:
    """A HEAD that fits, and others."""
    right = head_of(data)
    yield right
    at = draw.randrange(len(right))
    yield right[:at] + draw.randbytes(1) + right[at + 1 :]
    yield draw.choice(
        [b"", b"{}", b"[]", b"[" * 5_000, b'{"hash":"\\ud800","seq":0}\n', b'{"hash":"x","seq":Infinity}', b'{"hash":1,"seq":"7"}\n']
    )


def test_whatever_bytes_a_session_is_the_reader_says_so_and_nothing_else(tmp_path: Path, written: bytes) -> None:
    """For FUZZ_SECONDS. A log that is read whole and one that is read line by line are refused together."""
    draw, until, tried, read_well = random.Random(os.environ.get("FUZZ_SEED", "4")), time.monotonic() + FUZZ_SECONDS, 0, 0
    while time.monotonic() < until:
        data = mutated(draw, written)
        for head in heads(draw, data):
            folder = put(tmp_path / "session", data, head)
            whole, single = outcome(read, folder), outcome(one_by_one, folder)
            assert isinstance(whole, str) == isinstance(single, str) and (whole == single or isinstance(whole, str)), (
                data,
                head,
                whole,
                single,
            )
            tried, read_well = tried + 1, read_well + isinstance(whole, list)
    assert tried > 100 and read_well
    print(f"{tried} logs in {FUZZ_SECONDS:g} s, {read_well} of them whole")
