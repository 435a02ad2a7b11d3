"""What a patch touches and holds, read before anything of it runs. Pure, so that replay can ask again."""

from infra_agent.session.observation import FileWhere
from infra_agent.session.redaction import secrets_in
from infra_agent.session.verdict import Check
from infra_agent.task.patch import FileChange, changes
from infra_agent.task.spec import TaskSpec
from infra_agent.task.tree import matches, plain

_REGULAR = {"100644", "100755"}
_ALWAYS_PROTECTED = (
    ".git/**",
    ".git*",
    "**/.git*",
    "conftest.py",
    "**/conftest.py",
    "sitecustomize.py",
    "**/sitecustomize.py",
    "usercustomize.py",
    "**/*.pth",
)


def scope(patch: bytes, spec: TaskSpec, base_paths: frozenset[str]) -> Check:
    """Only files a patch may touch, of plain modes, within the size limits."""
    touched = changes(patch)
    wrong = [(change, reason) for change in touched if (reason := _out_of_scope(change, spec, base_paths))]
    lines = sum(change.added + change.removed for change in touched)
    figure = f"{len(touched)} files, {lines} lines"
    if wrong:
        change, reason = wrong[0]
        return Check(
            name="scope",
            status="fail",
            kind="out_of_scope",
            trust="judged",
            figure=figure,
            where=FileWhere(path=change.path),
            message=reason,
        )
    if not touched:
        return Check(name="scope", status="fail", kind="empty", trust="judged", figure=figure, message="the patch changes nothing")
    if len(touched) > spec.edit.max_files or lines > spec.edit.max_lines:
        message = f"larger than {spec.edit.max_files} files or {spec.edit.max_lines} lines"
        return Check(name="scope", status="fail", kind="out_of_scope", trust="judged", figure=figure, message=message)
    return Check(name="scope", status="pass", trust="judged", figure=figure, message="inside the edit scope")


def _out_of_scope(change: FileChange, spec: TaskSpec, base_paths: frozenset[str]) -> str | None:
    if not plain(change.path):
        return f"{change.path!r} is not a plain path"
    if change.binary:
        return f"{change.path} is binary: nobody can review it"
    if set(change.modes) - _REGULAR:
        return f"{change.path} is not a regular file (mode {', '.join(change.modes)})"
    if len(set(change.modes)) > 1:
        return f"{change.path} changes its mode ({' to '.join(change.modes)}): files in a cage are all plain, so nothing could judge it"
    if matches(change.path, _ALWAYS_PROTECTED):
        return f"{change.path} decides what else runs; no patch may touch it"
    if change.path in base_paths and matches(change.path, spec.edit.protected):
        return f"{change.path} is protected: it exists at base and helps decide the verdict"
    if not matches(change.path, spec.edit.allow):
        return f"{change.path} is outside the edit scope ({', '.join(spec.edit.allow)})"
    return None


def secrets(patch: bytes) -> Check:
    """No key or token in the added lines."""
    for change in changes(patch):
        found = secrets_in(b"\n".join(change.added_lines))
        if found:
            where = FileWhere(path=change.path)
            message = f"an added line looks like a secret ({found[0]}…)"
            return Check(name="secrets", status="fail", kind="secret", trust="judged", where=where, message=message)
    return Check(name="secrets", status="pass", trust="judged", message="no known form of a secret in the added lines")
