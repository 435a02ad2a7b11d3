"""Step through a session's events on a terminal. A key makes another view of the one before; drawing and reading keys come last."""

import codecs
import json
import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from infra_agent.cli.output import visible
from infra_agent.cli.show import as_text, known
from infra_agent.errors import UsageError
from infra_agent.session.index import Index, Wanted, data_of, find
from infra_agent.session.log import Blobs, BrokenLogError, Entry

if TYPE_CHECKING:
    from rich.text import Text

_HELP = "n next  p previous  g number  f types  / text  b blob  arrows, space scroll  q quit"
_ASKED = {"g": "number: ", "f": "types that begin with: ", "/": "text: ", "b": "blob, by its number: "}
_MOST = 200_000
"""Characters of one text that are laid out for the screen."""
_FRAME = 3
"""Rows that are not of the event."""
_LOOK_S = 0.5
"""How often the terminal's size is looked at."""
_CHECKED = "only this event and its link to the one before were checked; infra-agent replay checks all"
_DIGEST = re.compile("[0-9a-f]{64}")
_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO.|.", re.DOTALL)
_NAMES = {
    "\x1b[C": "n", "\x1bOC": "n", "\x1b[D": "p", "\x1bOD": "p", "\x1b[A": "k", "\x1bOA": "k", "\x1b[B": "j", "\x1bOB": "j",
    "\x1b[5~": "page up", "\x1b[6~": " ",
}  # fmt: skip
"""Keys that send more than one character -> what they do."""


@dataclass(frozen=True)
class View:
    """What is on the screen."""

    at: int
    wanted: Wanted = field(default_factory=Wanted)
    top: int = 0
    """The first line of the event that is shown."""
    asking: str = ""
    """The key whose answer is being typed."""
    typed: str = ""
    blob: str = ""
    """Digest of the blob that is shown instead of the event."""
    said: str = ""
    over: bool = False


@dataclass(frozen=True)
class Stepper:
    """A session to step through; ``seqs`` are the events that may be shown."""

    name: str
    index: Index
    blobs: Blobs
    seqs: range

    def begin(self, wanted: Wanted) -> View:
        """The first view: of the first event that is asked for."""
        return self._filtered(View(self.seqs[0]), wanted)

    def press(self, view: View, key: str, page: int) -> View:
        """The view after a key; ``page`` is how many lines of an event the screen has room for."""
        if view.asking:
            return self._type(view, key)
        view = replace(view, said="")
        scrolled = {"j": 1, "k": -1, " ": page, "page up": -page}
        match _NAMES.get(key, key):
            case "q" | "\x04":
                return replace(view, over=True)
            case "n":
                return self._step(view, 1)
            case "p":
                return self._step(view, -1)
            case "\x1b":
                return replace(view, blob="", top=0)
            case "b":
                return self._open(view)
            case "g" | "f" | "/":
                return replace(view, asking=key, typed="")
            case name:
                return replace(view, top=max(view.top + scrolled.get(name, 0), 0))

    def _type(self, view: View, key: str) -> View:
        if key in ("\r", "\n"):
            return self._answer(replace(view, asking="", typed="", said=""), view.asking, view.typed)
        if key == "\x1b":
            return replace(view, asking="", typed="")
        if key in ("\x7f", "\x08"):
            return replace(view, typed=view.typed[:-1])
        return replace(view, typed=view.typed + key) if key.isprintable() else view

    def _answer(self, view: View, asked: str, typed: str) -> View:
        try:
            match asked:
                case "g":
                    return self._jump(view, typed)
                case "f":
                    return self._filtered(view, replace(view.wanted, types=known(typed.replace(",", " ").split())))
                case "/":
                    return self._filtered(view, replace(view.wanted, text=typed))
                case _:
                    return self._show_blob(view, typed)
        except UsageError as error:  # what was typed, or what lies on disk, is not as it should be: said, and the session stays open
            return replace(view, said=str(error))

    def _jump(self, view: View, typed: str) -> View:
        if (number := _number(typed)) not in self.seqs:
            raise UsageError(f"no event '{typed}'; there are {self.seqs[0]} to {self.seqs[-1]}")
        return replace(view, at=number, top=0, blob="")

    def _step(self, view: View, way: int) -> View:
        found = self._first(view.wanted, range(view.at + way, self.seqs[-1] + 1 if way > 0 else self.seqs[0] - 1, way))
        if found is None:
            return replace(view, said="there is no later one" if way > 0 else "there is no earlier one")
        return replace(view, at=found, top=0, blob="")

    def _filtered(self, view: View, wanted: Wanted) -> View:
        """The first event that is asked for, at this place or after it, else the last before it."""
        for seqs in (range(view.at, self.seqs[-1] + 1), range(view.at - 1, self.seqs[0] - 1, -1)):
            if (found := self._first(wanted, seqs)) is not None:
                return replace(view, at=found, wanted=wanted, top=0, blob="")
        return replace(view, said="no event is like that")

    def _first(self, wanted: Wanted, seqs: range) -> int | None:
        """The first of ``seqs`` that is asked for; a line that is broken is one too, so that it is seen."""
        if wanted == Wanted():
            return seqs[0] if seqs else None
        for seq in seqs:
            try:
                if any(find(self.index, wanted, (seq,))):
                    return seq
            except BrokenLogError:
                return seq
        return None

    def _open(self, view: View) -> View:
        if view.blob:
            return replace(view, blob="", top=0)
        listed = self._referred(view.at)
        if len(listed) == 1:
            return self._answer(view, "b", "1")
        return replace(view, asking="b", typed="") if listed else replace(view, said="this event refers to no blob")

    def _show_blob(self, view: View, typed: str) -> View:
        listed = self._referred(view.at)
        if not 0 < (number := _number(typed)) <= len(listed):
            raise UsageError(f"no blob '{typed}'; this event refers to {len(listed)}")
        digest = listed[number - 1][1]
        self.blobs.get(digest)
        return replace(view, blob=digest, top=0)

    def _referred(self, seq: int) -> list[tuple[str, str]]:
        try:
            return referred(self.index.entry(seq), self.blobs)
        except BrokenLogError:
            return []

    def lines(self, view: View) -> list[str]:
        """The event or the blob, in lines of any length, with nothing in them that moves a cursor."""
        try:
            if view.blob:
                shown = blob_lines(self.blobs.get(view.blob))
            else:
                entry = self.index.entry(view.at)
                shown = [
                    *event_lines(entry),
                    *(f"blob {n}  {name} {digest}" for n, (name, digest) in enumerate(referred(entry, self.blobs), 1)),
                ]
        except BrokenLogError as error:
            shown = [str(error)]
        return visible("\n".join(shown)).expandtabs(4).split("\n")

    def head(self, view: View) -> str:
        """Where this is."""
        types, text = ", ".join(view.wanted.types), view.wanted.text
        only = f"   only {types or 'events'}{f' with {text}' if text else ''}" if types or text else ""
        blob = f"   blob {view.blob[:12]}" if view.blob else ""
        return visible(f"{self.name}   event {view.at} of {self.seqs[0]}-{self.seqs[-1]}{only}{blob}")

    def foot(self, view: View) -> str:
        """What is being asked or was said, else what the keys do."""
        return visible(f"{_ASKED[view.asking]}{view.typed}" if view.asking else view.said or _HELP)


def _number(typed: str) -> int:
    """What was typed as a number; -1 where it is none."""
    return int(typed) if re.fullmatch("[0-9]{1,18}", typed) else -1


def referred(entry: Entry, blobs: Blobs) -> list[tuple[str, str]]:
    """Where in an event the digest of a blob stands, and the digest. Raises BrokenLogError."""
    return [(name, text) for name, text in _texts(data_of(entry), "") if _DIGEST.fullmatch(text) and (blobs.folder / text).is_file()]


def _texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    for key, item in value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ():
        yield from _texts(item, f"{name}.{key}" if name else str(key))


def event_lines(entry: Entry) -> list[str]:
    """An event as a person reads it: what is empty is left out, text of several lines stands below its name. Raises BrokenLogError."""
    data = {name: value for name, value in data_of(entry).items() if name != "type"}
    return [f"{entry.event.type}   {entry.time}", f"hash {entry.hash}", "", *_laid_out(data), ""]


def _laid_out(value: Any) -> Iterator[str]:
    for name, item in value.items() if isinstance(value, Mapping) else (("-", item) for item in value):
        inner = _below(item)
        if item in (None, "") or (not inner and isinstance(item, Mapping | list)):
            continue
        if name == "-":
            yield from (f"{'  ' if n else '- '}{line}" for n, line in enumerate(inner or [_beside(item)]))
        elif inner:
            yield from (f"{name}:", *(f"    {line}" for line in inner))
        else:
            yield f"{name}: {_beside(item)}"


def _below(item: Any) -> list[str]:
    """The lines of what does not stand beside its name."""
    if isinstance(item, Mapping | list):
        return list(_laid_out(item))
    return [f"| {line}" for line in _cut(item).split("\n")] if isinstance(item, str) and "\n" in item else []


def _beside(item: Any) -> str:
    return _cut(item) if isinstance(item, str) else json.dumps(item)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[:_MOST]}\n({len(text) - _MOST} characters more, which show prints where it is piped)"


def blob_lines(data: bytes) -> list[str]:
    """A blob as a person reads it: JSON with its members below each other."""
    text = as_text(data)
    return [f"{len(data)} bytes that are no text"] if text is None else _cut(_spread(text)).split("\n")


def _spread(text: str) -> str:
    """A JSON object or array over several lines; other text as it is. Halves of characters, which JSON can name, stay escaped."""
    try:
        value = json.loads(text)
        spread = json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict | list) else text
    except (ValueError, RecursionError):
        return text
    return spread.encode(errors="backslashreplace").decode()


def draw(stepper: Stepper, view: View, width: int, height: int) -> "tuple[Text, int]":
    """The screen, ``height`` rows of ``width`` cells, and the first line of the event that is on it: not past the last."""
    from rich.cells import chop_cells
    from rich.text import Text

    room = max(height - _FRAME, 1)
    rows = [piece for line in stepper.lines(view) for piece in (chop_cells(line, width) if line else [""])]
    top = max(min(view.top, len(rows) - room), 0)
    below = len(rows) - top - room
    text = Text(no_wrap=True, overflow="crop", end="")
    text.append(stepper.head(view) + "\n", style="bold")
    text.append("\n".join([*rows[top : top + room], *[""] * -below]) + "\n")
    text.append((f"({below} lines more)  " if below > 0 else "") + _CHECKED + "\n", style="dim")
    text.append(stepper.foot(view))
    return text, top


def step(stepper: Stepper, wanted: Wanted) -> None:
    """Show one event after the other until q, or until the input ends. The terminal is as it was afterwards, however this ends."""
    from rich.console import Console

    console = Console(highlight=False)
    view = stepper.begin(wanted)
    with _keyboard(sys.stdin.fileno()) as keys, console.screen() as screen:
        for key in keys:
            view = stepper.press(view, key, max(console.height - _FRAME, 1))
            if view.over:
                return
            text, top = draw(stepper, view, console.width, console.height)
            view = replace(view, top=top)
            screen.update(text)


@contextmanager
def _keyboard(terminal: int) -> Iterator[Iterator[str]]:
    """Keys as they are pressed, unseen. What stops the program by force stops it in order, and what suspends it does nothing."""
    before = termios.tcgetattr(terminal)
    ended = signal.signal(signal.SIGTERM, _leave)
    try:
        tty.setcbreak(terminal, termios.TCSANOW)
        set_now = termios.tcgetattr(terminal)
        set_now[6][termios.VSUSP] = b"\0"  # a shell would have its terminal back in this state
        termios.tcsetattr(terminal, termios.TCSANOW, set_now)
        yield _keys(terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
        signal.signal(signal.SIGTERM, ended)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _keys(terminal: int) -> Iterator[str]:
    """One key after the other; the empty one first, and whenever the terminal has another size."""
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")
    size = None
    while True:
        if not select.select([terminal], [], [], 0 if size is None else _LOOK_S)[0]:
            size, before = os.get_terminal_size(terminal), size
            if size != before:
                yield ""
        elif data := os.read(terminal, 4096):
            yield from _KEY.findall(decoder.decode(data))
        else:
            return
