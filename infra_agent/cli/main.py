"""Entry point: commands, errors as one line, documented exit codes."""

import io
import os
import sys
from typing import Annotated

import typer

from infra_agent import __version__
from infra_agent.cli import approve, attest, bundle, compare, doctor, experience, formats, inspect, judge, policy, push, replay, run, show
from infra_agent.cli.output import answer, progress
from infra_agent.errors import InfraAgentError

app = typer.Typer(
    name="infra-agent",
    help="A language model improves GPU kernels and serving code; a judge checks it; a person approves it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="print the version and stop")] = False) -> None:
    """Run the program; without a command only the version can be asked for."""
    if show:
        answer(__version__)
        raise typer.Exit


for command in (
    run.run, run.resume, run.fork,
    show.show, replay.replay, compare.compare, inspect.sessions, inspect.proposals, inspect.tasks, inspect.instruments, doctor.doctor,
    formats.export, bundle.bundle, approve.review, approve.approve, approve.reject, approve.merge, push.push,
    attest.attest, attest.verify_attestation, judge.measure, judge.gate, judge.audit,
):  # fmt: skip
    app.command()(command)


app.command("import")(formats.import_)
app.add_typer(experience.app, name="experience")
app.add_typer(policy.app, name="policy")


def main() -> None:
    """Run the command line; every error of ours is one line on stderr and its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that knows no dash still gets the rest of the line
    try:
        app()
    except InfraAgentError as error:
        progress(f"infra-agent: {error}")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left; nothing is wrong here
        sys.exit(0)
    except OSError as error:
        progress(f"infra-agent: {error.filename or 'system'}: {error.strerror or error}")
        sys.exit(2)
    except Exception as error:
        if os.environ.get("INFRA_AGENT_DEBUG"):
            raise
        progress(f"infra-agent: internal error: {type(error).__name__}: {error}; set INFRA_AGENT_DEBUG=1 for the traceback and report it")
        sys.exit(1)


if __name__ == "__main__":
    main()
