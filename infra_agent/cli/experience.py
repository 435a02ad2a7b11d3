"""``infra-agent experience``: what approved changes taught."""

from typing import Annotated

import typer

from infra_agent.cli.output import answer, document, table

app = typer.Typer(
    help="What approved changes taught: list, show, forget.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
Json = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]
Name = Annotated[str, typer.Argument(help="lesson id, or a unique beginning of it")]


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List lessons."""
    from infra_agent.experience.store import Experience
    from infra_agent.share import home

    lessons = Experience(home()).all()
    rows = [(lesson.id, lesson.task, ", ".join(lesson.families) or "-", lesson.title) for lesson in lessons]
    document([lesson.model_dump(mode="json") for lesson in lessons]) if as_json else answer(
        table(rows, ("lesson", "task", "families", "title"))
    )


@app.command()
def show(lesson: Name, as_json: Json = False) -> None:
    """Show a lesson whole."""
    from infra_agent.experience.store import Experience
    from infra_agent.share import home

    found = Experience(home()).find(lesson).model_dump(mode="json")
    if as_json:
        return document(found)
    for name, value in found.items():
        listed = value if isinstance(value, list) else [f"{k} {v}" for k, v in value.items()] if isinstance(value, dict) else [value]
        answer(f"{name:<12} {listed[0] if listed else '-'}")
        for more in listed[1:]:
            answer(f"{'':<12} {more}")
    return None


@app.command()
def forget(lesson: Name, reason: Annotated[str, typer.Option(help="why it should not be told any more")]) -> None:
    """Take a lesson away. The repository's history keeps it, and the reason."""
    from infra_agent.experience.store import Experience
    from infra_agent.share import home

    found = Experience(home()).forget(lesson, reason)
    answer(f"{found.id} forgotten: {found.title}")
