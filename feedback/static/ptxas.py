"""What ptxas complained of, tied to the source line that the faulty PTX was made from."""

import re
from pathlib import Path

from feedback.static import places
from feedback.static.places import Place

_COMPLAINT = re.compile(r"(?P<path>/\S+\.ptx), line (?P<line>\d+); error\s*: (?P<said>.*)")
_FILE = re.compile(r'^\s*\.file\s+(\d+) "([^"]*)"', re.MULTILINE)
_LINE_NOTE = re.compile(r"^\s*\.loc\s+(\d+) (\d+) \d+(?:,.*inlined_at (\d+) (\d+))?")


def _source_of(ptx: str, line: int) -> Place:
    """The user's line of line ``line`` of a PTX text: the last .loc before it."""
    files = dict(_FILE.findall(ptx))
    for text in reversed(ptx.splitlines()[:line]):
        if note := _LINE_NOTE.match(text):
            pairs = [(note[1], note[2]), (note[3], note[4])]
            return places.of_user([Place(files.get(file, ""), int(at)) for file, at in pairs if file])
    return Place("", 0)


def explain(log: str) -> tuple[Place, str]:
    """Source line of the first complaint, and all complaints, of a ptxas log; line 0 and the log itself when it names none.

    The PTX is read from where Triton leaves it when ptxas fails.
    """
    complaints = list(_COMPLAINT.finditer(log))
    if not complaints:
        return Place("", 0), log
    said = "; ".join(dict.fromkeys(complaint["said"] for complaint in complaints))
    path = Path(complaints[0]["path"])
    if not path.is_file():
        return Place("", 0), said
    return _source_of(path.read_text(), int(complaints[0]["line"])), said
