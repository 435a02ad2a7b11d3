"""Start a session, or go on with one: everything it depends on goes into the log before the model is asked anything."""

import platform as host
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from infra_agent import __version__, canonical
from infra_agent.agent import brief, tools
from infra_agent.agent.loop import MOST_PROPOSALS, Loop, Outcome, Setting
from infra_agent.agent.workbench import Workbench
from infra_agent.errors import UsageError
from infra_agent.experience.lesson import relevant
from infra_agent.experience.store import Experience
from infra_agent.gates import policy as policies
from infra_agent.judge import audit_record, seeds
from infra_agent.judge.collector import Collector
from infra_agent.models.base import Model
from infra_agent.models.price import Price
from infra_agent.proposal.approval import account
from infra_agent.proposal.store import writable
from infra_agent.session import events
from infra_agent.session.budget import Budget, Limits
from infra_agent.session.log import Blobs, Entry, SessionLog, mend
from infra_agent.task import repository
from infra_agent.task.load import Task
from infra_agent.task.repository import Repository
from infra_agent.task.tree import Tree

_PACKAGES = ("numpy", "torch", "triton", "pydantic", "openai", "safetensors", "pyseccomp")


@dataclass(frozen=True)
class Options:
    """How a run was asked for."""

    sparse: bool
    limits: Limits
    home: Path
    sandbox: str = "auto"
    """auto, or a backend by name."""
    price: Price | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    """Set it to park the session."""
    model: str = ""
    """The model as the command line names it, and its server, for the header."""
    base_url: str = ""


def versions() -> dict[str, str]:
    """Versions of this program and of the packages a result depends on; a missing one is said to be."""
    found = {"infra-agent": __version__, "python": host.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def machine() -> dict[str, str]:
    """Processor and kernel; enough to know whether two records come from the same kind of machine."""
    model = "unknown"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = f"{names[0]} x {len(names)}" if names else model
    return {"cpu": model, "system": f"{host.system()} {host.release()}", "machine": host.machine(), "gpu": "none"}


def _header(
    collector: Collector, options: Options, driver: str, base: str, tree: Tree, blobs: Blobs, secret: bytes, name: str
) -> events.SessionStarted:
    task = collector.task
    lessons = [] if options.sparse else relevant(Experience(options.home).all(), task.spec, tree.values())
    shown = [schema.as_dict() for schema in tools.schemas(task.spec.instruments)]
    return events.SessionStarted(
        session=name,
        task=task.spec.id,
        task_digest=task.digest,
        base=base,
        base_files=blobs.put(canonical.encode({path: canonical.digest(data) for path, data in tree.items()})),
        cases=blobs.put(canonical.encode({split: [case.name for case in collector.cases(split)] for split in ("public", "held_out")})),
        driver=driver,
        model=options.model,
        base_url=options.base_url,
        feedback="sparse" if options.sparse else "dense",
        level="L2",
        isolation=collector.isolation,
        not_held=collector.backend.not_held,
        platform=collector.platform,
        audited=audit_record.passed(task, options.home),
        spec=blobs.put(canonical.encode(task.spec.model_dump(mode="json"))),
        policy=blobs.put(policies.for_task(task.folder).encoded()),
        operator=account(),
        system_prompt=blobs.put(brief.system_prompt().encode()),
        brief=blobs.put(brief.brief(task.spec, tree, options.sparse, lessons).encode()),
        tools=blobs.put(canonical.encode(shown)),
        secret_commitment=seeds.commitment(secret),
        versions=versions(),
        machine=machine(),
        limits=options.limits.as_dict(),
    )


def run(task: Task, model: Model, driver: str, options: Options, on_entry: Callable[[events.Event], None]) -> tuple[str, Outcome]:
    """Run a session on ``task``; returns its id and how it ended.

    Raises UsageError for an unaudited task, SandboxError when no cage can be had; no session is left behind then.
    """
    audit_record.require(task, options.home)
    repo, base = repository.for_task(task, options.home)
    tree = repo.read_tree(base)
    secret = seeds.new_secret()
    with Collector(task, secret, options.sandbox) as collector:
        collector.warm()
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{task.spec.id}-{secrets.token_hex(2)}"
        with SessionLog(options.home / "sessions" / name, on_entry) as log:
            header = _header(collector, options, driver, base, tree, log.blobs, secret, name)
            log.append(header)
            return name, _loop(collector, repo, base, log, model, options, secret, Budget(options.limits)).run()


def _loop(
    collector: Collector, repo: Repository, base: str, log: SessionLog, model: Model, options: Options, secret: bytes, budget: Budget
) -> Loop:
    sparse = collector.task.spec.sparse_metric if options.sparse else None
    header = log.entries[0].event
    assert isinstance(header, events.SessionStarted)
    policy = policies.pinned(log.blobs.get(header.policy))
    bench = Workbench(collector, repo, base, log, sparse)
    return Loop(Setting(model, policy, sparse, secret, options.price, options.stop), bench, log, budget)


def resumable(entries: list[Entry], name: str) -> None:
    """Raises UsageError, saying what to do, for a session that cannot be gone on with."""
    past = [entry.event for entry in entries]
    if not isinstance(past[0], events.SessionStarted):
        raise UsageError(f"session {name} does not begin with session.started")
    writable(past[0])
    decided = [event.verdict.decision for event in past if isinstance(event, events.VerdictGiven)]
    aborted = any(isinstance(event, events.GateDecided) and event.decision == "abort" for event in past)
    if aborted or "pass" in decided or len(decided) >= MOST_PROPOSALS:
        why = "a rule aborted it" if aborted else f"its proposals were judged: {', '.join(decided)}"
        raise UsageError(f"session {name} is over ({why}); run the task again, or review its proposal")
    asked = {event.action for event in past if isinstance(event, events.ApprovalRequested)}
    waiting = asked - {event.action for event in past if isinstance(event, events.ApprovalGiven)}
    if waiting:
        raise UsageError(f"session {name}: {', '.join(sorted(waiting))} waits for a person: infra-agent approve or reject comes first")


def resume(
    task: Task, folder: Path, model: Model, driver: str, options: Options, on_entry: Callable[[events.Event], None], dropped: int = 0
) -> Outcome:
    """Go on with a session where it stopped. Nothing that was begun is done again unseen: the model is told that it was not carried out.

    ``options.limits`` are the session's in all; ``dropped``: bytes that mending it took before. Raises UsageError where it cannot be,
    or its task is another by now.
    """
    dropped += mend(folder)
    with SessionLog(folder, on_entry) as log:
        resumable(log.entries, folder.name)
        header = log.entries[0].event
        assert isinstance(header, events.SessionStarted)
        repo, base = repository.for_task(task, options.home)
        if (header.task_digest, header.base) != (task.digest, base):
            raise UsageError(f"session {folder.name}: task {task.spec.id} is not what it was when the session began; run it again")
        secret = seeds.new_secret()
        with Collector(task, secret, options.sandbox) as collector:
            if collector.isolation != header.isolation:
                raise UsageError(f"session {folder.name} ran at isolation {header.isolation}; here it is {collector.isolation}")
            collector.warm()
            log.append(
                events.SessionResumed(
                    dropped_bytes=dropped, last_seq=len(log.entries) - 1, secret_commitment=seeds.commitment(secret),
                    limits=options.limits.as_dict(), driver=driver,
                )
            )  # fmt: skip
            loop = _loop(collector, repo, base, log, model, options, secret, Budget.of(options.limits, log.entries))
            return loop.run()


def driver_of(model_name: str) -> str:
    """Who drove, as the header says it."""
    return {"playbook": "playbook", "manual": "unknown"}.get(model_name, f"model:{model_name}")
