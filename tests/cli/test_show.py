"""``show``: piped as it ever was, in parts, and as a stepper on a real terminal. The session is the golden one."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infra_agent.cli.stepper import Stepper, View, blob_lines, draw
from infra_agent.session import events
from infra_agent.session.index import TYPES, Index, Wanted, find
from infra_agent.session.log import Blobs, SessionLog, read
from tests.conftest import ROOT, Cli

GOLDEN = ROOT / "tests" / "session" / "golden" / "v1"
LAST = 33
PATCH = read(GOLDEN)[19].event
HOSTILE = "\x1b[2J\x1b]0;title\x07\u202eesrever\r\x9b1A"


@pytest.fixture
def stepper() -> Iterator[Stepper]:
    with Index(GOLDEN) as index:
        yield Stepper("golden", index, Blobs(GOLDEN / "blobs"), range(len(index)))


def after(stepper: Stepper, keys: list[str], view: View | None = None) -> View:
    """The view after keys, of which one may be a word that is typed."""
    found = view or stepper.begin(Wanted())
    for key in keys:
        for one in key if key.isalnum() or key.endswith("\r") else [key]:
            found = stepper.press(found, one, 10)
    return found


# Piped


def test_all_of_it_is_every_line_and_the_conversation(cli: Cli) -> None:
    lines = cli("show", str(GOLDEN))
    assert [int(line.split()[0]) for line in lines.stdout.splitlines()] == list(range(LAST + 1)) and lines.stderr == ""
    assert "   0 session.started    session=golden, task=rows, task_digest=" in lines.stdout
    assert "[a-1] accuracy: fail — " in lines.stdout
    documents = json.loads(cli("show", str(GOLDEN), "--json").stdout)
    assert [d["seq"] for d in documents] == list(range(LAST + 1)) and {"seq", "t", "hash", "type", "session"} <= documents[0].keys()
    assert "→ edit" in cli("show", str(GOLDEN), "--messages").stdout


def test_a_part_of_it(cli: Cli) -> None:
    some = cli("show", str(GOLDEN), "--from", "3", "--to", "5")
    assert [line.split()[1] for line in some.stdout.splitlines()] == ["action.proposed", "gate.decided", "exec.started"]
    assert "only the events shown were checked" in some.stderr and "infra-agent replay" in some.stderr
    kinds = json.loads(cli("show", str(GOLDEN), "--json", "--type", "model.", "--type", "observation.made").stdout)
    assert {d["type"] for d in kinds} == {"model.requested", "model.replied", "observation.made"}
    both = cli("show", str(GOLDEN), "--type", "check.", "--search", "HELD_out")
    assert both.stdout.split() == ["26", "check.finished", *both.stdout.split()[2:]] and len(both.stdout.splitlines()) == 1
    nothing = cli("show", str(GOLDEN), "--search", "no such words", "--json")
    assert json.loads(nothing.stdout) == [] and nothing.returncode == 0


def test_a_blob_by_the_beginning_of_its_digest(cli: Cli) -> None:
    assert isinstance(PATCH, events.ProposalMade)
    assert cli("show", str(GOLDEN), "--blob", PATCH.patch[:6].upper()).stdout.startswith("diff --git a/rows/entry.py")
    said = json.loads(cli("show", str(GOLDEN), "--blob", PATCH.patch, "--json").stdout)
    assert said["digest"] == PATCH.patch and said["bytes"] == len(said["text"].encode())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--type", "modle."], "no type of event begins with 'modle.'; there are session.started, "),
        (["--from", "34"], "there is no event from 34 to 33; the session's are 0 to 33"),
        (["--from", "5", "--to", "4"], "there is no event from 5 to 4"),
        (["--blob", "zz"], "0 blobs of v1 begin with 'zz'"),
        (["--blob", ""], ""),
        (["--blob", "0"], "blobs of v1 begin with '0'; a digest, or enough of one, names it"),
        (["--messages", "--from", "3"], "--messages shows a whole conversation"),
    ],
)
def test_what_cannot_be_shown_is_one_line(cli: Cli, options: list[str], said: str) -> None:
    done = cli("show", str(GOLDEN), *options)
    assert (done.returncode, len(done.stderr.splitlines())) == ((2, 1) if said else (0, 0)) and said in done.stderr


def test_a_broken_line_is_refused_where_it_is_shown(cli: Cli, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    log = folder / "session.jsonl"
    lines = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join([*lines[:9], lines[9].replace(b"cumsum(product, 0)", b"cumsum(product, 9)"), *lines[10:]]))
    assert cli("show", str(folder), "--to", "8").returncode == 0, "what is not shown is not looked at"
    for options in (["--from", "9", "--to", "9"], ["--from", "10", "--to", "10"], [], ["--json"]):
        done = cli("show", str(folder), *options)
        assert done.returncode == 2 and "line 10: its content does not have the hash it states" in done.stderr
    (folder / "HEAD").write_bytes((folder / "HEAD").read_bytes().replace(b'"seq":33', b'"seq":34'))
    assert "ends at line 34, HEAD says line 35" in cli("show", str(folder), "--to", "2").stderr


def copied(tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in (GOLDEN / "session.jsonl", GOLDEN / "HEAD"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


# What the index finds


def test_a_search_misses_nothing_that_reading_everything_finds(tmp_path: Path) -> None:
    text = 'quote " back\\slash\nnewline STRASSE \x1b é'
    with SessionLog(tmp_path / "s") as log:
        log.append(events.Note(text=text))
        log.append(events.ActionProposed(action="a-1", call="c", tool="t", arguments={"type": "note", "n": 0.25, "no": None, "on": True}))
    with Index(tmp_path / "s") as index:
        whole = read(tmp_path / "s")
        for part in ('"', "\\", "\n", "straße", "\x1b", "É", "0.25", "null", "true", "arguments", "seq", "prev", "hash", text):
            for kinds in ((), ("note",), ("action.",)):
                wanted = Wanted(kinds, part)
                assert list(find(index, wanted, range(2))) == [entry for entry in whole if wanted.matches(entry)], wanted
        assert [e.seq for e in find(index, Wanted((), "STRASSE \x1b"), range(2))] == [0]
        assert not any(find(index, Wanted((), "prev"), range(2))), "names of the envelope are no content"


def test_every_type_is_known() -> None:
    assert {"session.started", "model.replied", "note", "merged"} <= set(TYPES) and len(TYPES) == len(set(TYPES)) > 20


# The stepper, without a terminal


def test_keys_step_jump_filter_and_search(stepper: Stepper) -> None:
    assert after(stepper, ["n", "n", "p"]).at == 1
    assert after(stepper, ["\x1b[C", "\x1b[C", "\x1b[D"]).at == 1
    assert after(stepper, ["p"]).said == "there is no earlier one"
    assert after(stepper, ["g", "12\r"]).at == 12 and after(stepper, ["g", "9" * 5_000 + "\r"]).at == 0
    assert after(stepper, ["g", "99\r"]).said == "no event '99'; there are 0 to 33"
    gates = after(stepper, ["f", "gate. merged\r"])
    assert (gates.at, gates.wanted.types) == (4, ("gate.", "merged"))
    assert after(stepper, ["n", "n"], gates).at == 18 and after(stepper, ["n", "n", "n"], gates).said == "there is no later one"
    assert "only gate., merged" in stepper.head(gates)
    found = after(stepper, ["/", "Closest\r"])
    assert "closest" in "\n".join(stepper.lines(found)) and found.at == after(stepper, ["n", "p"], found).at
    assert after(stepper, ["/", "\r"], found).wanted == Wanted()
    assert after(stepper, ["/", "no such words\r"]).said == "no event is like that"
    assert after(stepper, ["f", "modle.\r"]).said.startswith("no type of event begins with 'modle.'")
    assert after(stepper, ["g", "1x\x7f2\r"]).at == 12 and after(stepper, ["g", "12", "\x1b"]).at == 0
    assert after(stepper, ["q"]).over and not after(stepper, ["/", "q"]).over


def test_a_filter_that_only_earlier_events_meet_goes_back(stepper: Stepper) -> None:
    assert after(stepper, ["g", "33\r", "f", "exec.\r"]).at == max(e.seq for e in read(GOLDEN) if e.event.type.startswith("exec."))


def test_blobs_open_by_their_number(stepper: Stepper) -> None:
    asked = after(stepper, ["g", "19\r", "b"])
    assert asked.blob and stepper.lines(asked)[0] == "diff --git a/rows/entry.py b/rows/entry.py", "the only one opens at once"
    assert after(stepper, ["b"], asked).blob == after(stepper, ["\x1b"], asked).blob == after(stepper, ["n"], asked).blob == ""
    first = after(stepper, ["b"])
    assert stepper.foot(first).startswith("blob, by its number") and "blob 1  base_files " in "\n".join(stepper.lines(first))
    opened = after(stepper, ["1\r"], first)
    assert '  "rows/entry.py": "' in "\n".join(stepper.lines(opened)), "JSON is laid out"
    assert after(stepper, ["9\r"], first).said == "no blob '9'; this event refers to 7"
    assert after(stepper, ["n", "b"]).said == "this event refers to no blob"
    assert blob_lines(b'["\\ud800"]') == ["[", '  "\\ud800"', "]"], "half a character cannot be drawn"
    assert blob_lines(b"\xff\x00") == ["2 bytes that are no text"] and blob_lines(b"[" * 5000) == ["[" * 5000]
    assert len(blob_lines(b"[" * 2_000 + b"]" * 2_000)) == 1, "too deep to lay out"


def test_a_screen_is_no_larger_than_the_terminal_and_ends_with_the_event(stepper: Stepper) -> None:
    verdict = next(entry.seq for entry in read(GOLDEN) if isinstance(entry.event, events.VerdictGiven))
    for width, height in ((20, 8), (80, 24), (200, 60)):
        text, top = draw(stepper, View(verdict, top=10_000), width, height)
        assert len(text.plain.split("\n")) == height and top > 0 and "lines more" not in text.plain
        first, at_top = draw(stepper, View(verdict), width, height)
        assert at_top == 0 and "lines more" in first.plain and "replay checks all" in first.plain
        assert replace(after(stepper, [" ", "k", "j"], View(verdict)), said="") == View(verdict, top=10)


def test_a_broken_line_is_said_and_stepped_over(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    log = folder / "session.jsonl"
    log.write_bytes(log.read_bytes().replace(b"cumsum(product, 0)", b"cumsum(product, 9)", 1))
    with Index(folder) as index:
        stepper = Stepper("s", index, Blobs(folder / "blobs"), range(len(index)))
        broken = next(seq for seq in stepper.seqs if b"product, 9)" in index.line(seq))
        view = View(broken)
        assert f"line {broken + 1}: its content does not have the hash it states" in stepper.lines(view)[0]
        assert "hash it states" in stepper.lines(after(stepper, ["n"], view))[0], "the link to a broken line is no link"
        assert "hash it states" not in stepper.lines(after(stepper, ["n", "n"], view))[0]


def test_text_of_a_model_does_not_move_the_cursor(tmp_path: Path) -> None:
    with SessionLog(tmp_path / "s") as log:
        log.append(events.Note(text=HOSTILE + "\n" + HOSTILE))
        log.append(events.ActionProposed(action=HOSTILE, call=HOSTILE, tool=HOSTILE, arguments={HOSTILE: [HOSTILE]}))
        log.append(events.Note(text=log.blobs.put(HOSTILE.encode())))
    with Index(tmp_path / "s") as index:
        stepper = Stepper(HOSTILE, index, log.blobs, range(3))
        views = [View(0), View(1), View(2), after(stepper, ["b"], View(2)), View(0, Wanted((), HOSTILE), asking="/", typed=HOSTILE)]
        shown = "".join(draw(stepper, view, 80, 24)[0].plain for view in views)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown) and shown.count(r"\u001b[2J") >= 6


# The stepper on a terminal


class Terminal:
    """A terminal of 24 rows and 100 columns in which a session is shown."""

    def __init__(self, folder: Path, *options: str, term: str = "xterm") -> None:
        self.handle, self.inner = pty.openpty()
        fcntl.ioctl(self.inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.before, self.drawn, self.seen = termios.tcgetattr(self.inner), "", 0
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "infra_agent.cli.main", "show", str(folder), *options],
            stdin=self.inner, stdout=self.inner, stderr=self.inner, env={**environment, "TERM": term, "PYTHONPATH": str(ROOT)},
            start_new_session=True, preexec_fn=self._as_of_a_shell,
        )  # fmt: skip

    def _as_of_a_shell(self) -> None:
        """The terminal is the program's, and Ctrl-C reaches it even where those who run the tests ignore it, as background jobs do."""
        fcntl.ioctl(self.inner, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def until(self, words: str) -> str:
        """What was drawn up to ``words``, since the last time that something was waited for."""
        began, ends = self.seen, time.monotonic() + 20
        while (at := self.drawn.find(words, began)) < 0:
            assert time.monotonic() < ends, self.drawn[began:]
            self._take(0.1)
        self.seen = at + len(words)
        return self.drawn[began : self.seen]

    def press(self, keys: str) -> None:
        os.write(self.handle, keys.encode())

    def ended(self) -> int:
        """The exit status, once everything is drawn."""
        ends = time.monotonic() + 20
        while self.process.poll() is None or self._take(0):
            assert time.monotonic() < ends, self.drawn
            self._take(0.05)
        return self.process.returncode

    def _take(self, seconds: float) -> bool:
        ready = bool(select.select([self.handle], [], [], seconds)[0])
        self.drawn += os.read(self.handle, 65536).decode(errors="replace") if ready else ""
        return ready

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.handle)
        os.close(self.inner)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal(GOLDEN, "--type", "model.")
    yield opened
    opened.close()


def test_on_a_terminal_it_steps(terminal: Terminal) -> None:
    first = terminal.until("q quit")
    assert "event 1 of 0-33   only model." in first and "model.requested" in first and "replay checks all" in first
    terminal.press("n")
    assert "model.replied" in terminal.until("q quit")
    terminal.press("/rows/entry.py\r")
    assert "torch.cumsum" in terminal.until("with rows/entry.py") + terminal.until("q quit")
    fcntl.ioctl(terminal.inner, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 40, 0, 0))
    assert "lines more" in terminal.until("lines more"), "drawn again for another size, without a key"
    terminal.press("q")
    assert terminal.ended() == 0


@pytest.mark.parametrize(("how", "status"), [("q", 0), ("\x04", 0), ("\x03", 130), (signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_terminal_is_afterwards_as_it_was(terminal: Terminal, how: str | signal.Signals, status: int) -> None:
    terminal.until("q quit")
    modes = termios.tcgetattr(terminal.inner)
    assert not modes[3] & (termios.ECHO | termios.ICANON) and modes[6][termios.VSUSP] == b"\0" and "\x1b[?1049h" in terminal.drawn
    if isinstance(how, str):
        terminal.press(how)
    else:
        terminal.process.send_signal(how)
    assert terminal.ended() == status
    assert termios.tcgetattr(terminal.inner) == terminal.before
    assert terminal.drawn.rindex("\x1b[?1049l") > terminal.drawn.rindex("\x1b[?1049h") and "\x1b[?25h" in terminal.drawn


def test_a_terminal_that_cannot_be_drawn_on_gets_lines() -> None:
    dumb = Terminal(GOLDEN, term="dumb")
    assert dumb.ended() == 0 and "\x1b" not in dumb.drawn
    assert [int(line.split()[0]) for line in dumb.drawn.splitlines()] == list(range(LAST + 1))
    dumb.close()
