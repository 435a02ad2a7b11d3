"""Lessons on disk: one JSON file each, on the branch of a bare repository, so that what was learnt has a history and can be taken back."""

import json
from collections.abc import Callable
from pathlib import Path

from infra_agent.errors import UsageError
from infra_agent.experience.lesson import Lesson
from infra_agent.frozen import one_line
from infra_agent.task.repository import BRANCH, Repository

_ATTEMPTS = 5


class Experience:
    """The lessons of a home folder."""

    def __init__(self, home: Path) -> None:
        self._repository = Repository(home / "repos" / "experience.git")

    def all(self) -> list[Lesson]:
        """Every lesson, by id. Raises UsageError for a file that is none: somebody wrote it by hand."""
        return [self._read(path, data) for path, data in sorted(self._files().items())]

    def find(self, name: str) -> Lesson:
        """A lesson by id or by a unique beginning of it."""
        found = [lesson for lesson in self.all() if lesson.id.startswith(name)]
        if len(found) != 1:
            known = ", ".join(lesson.id for lesson in self.all()[-5:]) or "none"
            raise UsageError(f"lesson '{name}' {'is ambiguous' if found else 'is unknown'}; the latest: {known}")
        return found[0]

    def keep(self, lesson: Lesson) -> None:
        """Add a lesson, or write it again."""
        data = json.dumps(lesson.model_dump(mode="json"), indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"
        self._change(lambda files: {**files, f"{lesson.id}.json": data}, f"Learn {lesson.id}: {lesson.title}")

    def forget(self, name: str, reason: str) -> Lesson:
        """Take a lesson away; the history keeps it, and why."""
        lesson = self.find(name)
        self._change(lambda files: {p: d for p, d in files.items() if p != f"{lesson.id}.json"}, f"Forget {lesson.id}\n\n{reason}\n")
        return lesson

    def _files(self) -> dict[str, bytes]:
        if not self._repository.folder.is_dir():
            return {}
        head = self._repository.branch(BRANCH)
        return self._repository.read_tree(head) if head else {}

    @staticmethod
    def _read(path: str, data: bytes) -> Lesson:
        try:
            return Lesson.model_validate_json(data)
        except ValueError as error:
            raise UsageError(f"experience.git: {path}: {one_line(error)}; forget it or mend it with git") from error

    def _change(self, change: Callable[[dict[str, bytes]], dict[str, bytes]], message: str) -> None:
        """A commit on top of what is there; who comes second tries again on the first one's."""
        if not self._repository.folder.is_dir():
            self._repository.folder.mkdir(parents=True)
            self._repository.git("init", "--bare", "--quiet")
        for attempt in range(_ATTEMPTS):
            head = self._repository.branch(BRANCH)
            files = self._repository.read_tree(head) if head else {}
            commit = self._repository.commit_tree(self._repository.write_tree(change(files)), [head] if head else [], message)
            try:
                self._repository.move_branch(BRANCH, commit, head)
            except UsageError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return
