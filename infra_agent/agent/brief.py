"""What a model is told: the system prompt, and the task as its goal, its scope and its limits as numbers."""

from collections.abc import Sequence
from importlib.resources import files

from infra_agent.experience.lesson import Lesson
from infra_agent.task.spec import TaskSpec
from infra_agent.task.tree import Tree


def system_prompt() -> str:
    """The one system prompt, from its file."""
    return files("infra_agent.agent").joinpath("prompts/system.md").read_text()


def brief(spec: TaskSpec, tree: Tree, sparse: bool, lessons: Sequence[Lesson] = ()) -> str:
    """The first user message. ``lessons``: what may help, marked as unverified."""
    limits = [f"stages that must be produced: {', '.join(spec.entry.stages)}"]
    limits += [f"error of {g.stage} may grow at most {g.max:g} times from case {g.start} to case {g.to}" for g in spec.growth]
    if spec.static:
        s = spec.static
        kept = "; no matrix product may leave the tensor cores" if s.tensor_cores == "kept" else ""
        limits.append(f"compiled for {s.target}: at most {s.max_registers} registers, {s.max_spills} spills beyond base{kept}")
    sizes = {path: len(data.splitlines()) for path, data in sorted(tree.items())}
    listed = "\n".join(f"  {path} ({lines} lines)" for path, lines in sizes.items())
    dense = "" if not sparse else f"\nThis run shows one metric only: {spec.sparse_metric}.\n"
    return (
        f"# {spec.title}\n\n{spec.goal.strip()}\n\nEntry: {spec.entry.module}.{spec.entry.callable}\n"
        f"You may edit: {', '.join(spec.edit.allow)}. Protected where they exist: {', '.join(spec.edit.protected) or 'nothing'}.\n"
        f"Limits:\n"
        + "\n".join(f"- {limit}" for limit in limits)
        + f"\n- at most {spec.edit.max_files} files and {spec.edit.max_lines} lines changed\n"
        f"{dense}\nFiles:\n{listed}\n{_learnt(lessons)}"
    )


def _learnt(lessons: Sequence[Lesson]) -> str:
    if not lessons:
        return ""
    told = "\n".join(line for lesson in lessons for line in lesson.lines())
    return f"\nFrom earlier, approved changes. Unverified here: the code may be another, so measure before you rely on it.\n{told}\n"
