"""``policy check`` and ``policy explain``: what a policy says before it has to say it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra_agent.cli.output import answer, document
from infra_agent.errors import UsageError

if TYPE_CHECKING:
    from infra_agent.gates.policy import Action

app = typer.Typer(no_args_is_help=True, help="Rules on actions, detectors of risk, what approvals take.", rich_markup_mode=None)
TaskName = Annotated[str | None, typer.Option("--task", help="with this task's policy and edit scope")]
Json = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]


@app.command()
def check(
    file: Annotated[Path | None, typer.Argument(help="a layer to try on top of the shipped policy")] = None,
    task: TaskName = None,
    as_json: Json = False,
) -> None:
    """Load every layer and try every example. Exit 2 with file and line of what is wrong."""
    from infra_agent.gates import policy
    from infra_agent.task.load import find

    found = policy.for_task(find(task) if task else None)
    if file is not None:
        found = policy.add_layer(found, file, "given")
    examples = sum(len(r.match) + len(r.not_match) for r in found.rule) + sum(len(d.hit) + len(d.near_miss) for d in found.detector)
    counts = {"rules": len(found.rule), "detectors": len(found.detector), "examples": examples, "isolation": found.isolation}
    document(counts) if as_json else answer(
        ", ".join(f"{value} {key}" for key, value in list(counts.items())[:3]) + f" hold; {found.isolation}"
    )


@app.command()
def explain(
    action: Annotated[list[str], typer.Argument(help="TOOL and its arguments: edit path=src/a.py new='x = 1', shell command='make'")],
    task: TaskName = None,
    as_json: Json = False,
) -> None:
    """Say what the policy decides of an action, by which rule, and which others had a say."""
    from infra_agent.gates import policy
    from infra_agent.gates.action import describe
    from infra_agent.task.load import load
    from infra_agent.task.tree import read_folder

    loaded = load(task) if task else None
    rules = policy.for_task(loaded.folder if loaded else None)
    tool, arguments = action[0], _arguments(action[1:])
    if loaded:
        seen = describe(tool, arguments, loaded.spec, frozenset(read_folder(loaded.workspace)), rules.detector)
    else:
        seen = _alone(tool, arguments)
    decision, applying = rules.decide(seen), rules.applying(seen)
    if as_json:
        document({"action": seen.model_dump(mode="json"), "decision": decision.__dict__, "rules": [rule.id for rule in applying]})
        return
    answer(f"{decision.ruling}  {decision.rule}: {decision.reason}")
    answer(f"seen as  {json.dumps(seen.model_dump(exclude_defaults=True), default=list)}")
    for rule in applying:
        answer(f"{rule.decision:<6} {rule.id} ({rule.layer}): {rule.reason}")


def _arguments(words: list[str]) -> dict[str, str]:
    wrong = next((word for word in words if "=" not in word), None)
    if wrong is not None:
        raise UsageError(f"{wrong!r} is not KEY=VALUE; for instance: infra-agent policy explain edit path=src/a.py new='x = 1'")
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def _alone(tool: str, arguments: dict[str, str]) -> "Action":
    """Without a task there is no edit scope: an edit counts as in scope, and of a file that is not protected."""
    from infra_agent.gates import effects
    from infra_agent.gates.policy import Action

    return Action(
        tool=tool, path=arguments.get("path", ""), scope="path" in arguments, effects=effects.effects(arguments.get("command", ""))
    )
