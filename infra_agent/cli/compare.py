"""``infra-agent compare``."""

from typing import Annotated

import typer

from infra_agent.cli.output import answer, document

Which = Annotated[str, typer.Argument(help="session id or folder")]


def compare(
    first: Which, second: Which, as_json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False
) -> None:
    """Two sessions side by side: cost, actions, hypotheses, patches, verdicts. Rows that differ are marked."""
    from infra_agent.proposal.store import open_session
    from infra_agent.replay.compare import compare as side_by_side
    from infra_agent.replay.compare import render

    rows = side_by_side(open_session(first), open_session(second))
    document([{**row.__dict__, "differs": row.differs} for row in rows]) if as_json else answer(render(rows))
