"""Experience: what merged changes taught, one line each, for later sessions to recall."""

import json
from pathlib import Path

_FILE = "experience.jsonl"
_OUTCOMES = ("confirmed", "refuted")


def remember(home: Path, task: str, title: str, confirmed: list[str], refuted: list[str]) -> None:
    """Append what a merged proposal showed. ``confirmed`` and ``refuted`` are claims of its hypotheses."""
    line = json.dumps({"task": task, "title": title, "confirmed": confirmed, "refuted": refuted}, ensure_ascii=False)
    with open(home / _FILE, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def remembered(home: Path) -> list[str]:
    """Every lesson as one line of text; empty when nothing was merged yet."""
    path = home / _FILE
    if not path.is_file():
        return []
    lessons = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            lessons.append({"task": "", "title": "", "confirmed": [], "refuted": [], **json.loads(line)})
        except (ValueError, TypeError):
            lessons.append({"task": path.name, "title": f"line {number} is torn", "confirmed": [], "refuted": []})
    return [
        f"{lesson['task']}: {lesson['title']}; {', '.join(f'{outcome}: {claim}' for outcome in _OUTCOMES for claim in lesson[outcome])}"
        for lesson in lessons
    ]
