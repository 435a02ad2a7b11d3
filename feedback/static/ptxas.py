"""What ptxas complained of, tied to the source line that the faulty PTX was made from."""

import itertools
import re
from pathlib import Path

from feedback.static import places
from feedback.static.places import Place

_COMPLAINT = re.compile(r"(?P<path>/\S+\.ptx), line (?P<line>\d+); error\s*: (?P<said>.*)")


def _source_of(ptx: str, line: int) -> Place:
    """The user's line of line ``line`` of a PTX text, counted from 1; line 0 when it is not known."""
    return next((place for place, _ in itertools.islice(places.of_ptx(ptx), line - 1, line)), Place("", 0))


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
