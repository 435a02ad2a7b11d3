"""Make the golden session of the schema's version, once: ``python -m tests.session.golden.make`` (it runs the real gate in real cages).

A real session is written again with nothing of the machine in it: neutral facts and times, a policy of the rules that it needs, the
schemas of the tools that it calls. Patch, records, verdict and secret are kept. A version that was released is never made again.
"""

import json
import os
import re
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from infra_agent import canonical
from infra_agent.agent import session
from infra_agent.gates.policy import pinned
from infra_agent.models.base import Reply
from infra_agent.models.scripted import Scripted
from infra_agent.proposal.store import open_session, proposal_id
from infra_agent.session import events
from infra_agent.session.budget import Limits
from infra_agent.session.context import Conversation
from infra_agent.session.events import VERSION, ToolCall
from infra_agent.session.log import SessionLog
from tests.proposal.recorded import EDIT, PROPOSE
from tests.support import call, mark_audited, rows_task

HERE = Path(__file__).resolve().parent
NAME = "golden"
VERSIONS = dict.fromkeys(("infra-agent", "python", "numpy", "torch", "triton", "pydantic"), "1.0")
MACHINE = {"cpu": "a processor", "system": "a system", "machine": "an architecture", "gpu": "none"}
SCRIPT = [call("accuracy", cases="small"), EDIT, PROPOSE]
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def real(folder: Path) -> Path:
    """The folder of a real session: it measures, edits and proposes."""
    os.environ["INFRA_AGENT_HOME"] = str(home := folder / "home")
    task = rows_task(folder)
    mark_audited(task, home)
    said = [Reply("", (ToolCall(id=f"c{n}", name=name, arguments=text),)) for n, (name, text) in enumerate(SCRIPT)]
    name, outcome = session.run(task, Scripted(said), "model:scripted", session.Options(False, Limits(steps=3), home), lambda event: None)
    if outcome.exit_code:
        sys.exit(f"the session did not pass: {outcome}")
    return home / "sessions" / name


def neutral(log: SessionLog, header: events.SessionStarted, policy: bytes, tools: bytes) -> events.SessionStarted:
    """The header without the machine, with the smaller policy and tools."""
    names = {name for name, _ in SCRIPT}
    whole = pinned(policy)
    used = [rule for rule in whole.rule if rule.id in ("measure", "edit-in-scope", "propose")]
    small = whole.model_copy(update={"rule": tuple(used), "detector": ()})
    schemas = [schema for schema in json.loads(tools) if schema["name"] in names]
    changed = {
        "session": NAME, "operator": "somebody", "versions": VERSIONS, "machine": MACHINE,
        "policy": log.blobs.put(small.encoded()), "tools": log.blobs.put(canonical.encode(schemas)),
    }  # fmt: skip
    return header.model_copy(update=changed)


def written_again(source: Path, target: Path) -> None:
    """The same session by the same writer, event by event."""
    found = open_session(str(source))
    renamed = {found.header.session: NAME, str(source.parents[2] / "rows"): "rows"}
    with SessionLog(target) as log:
        header = neutral(log, found.header, found.blobs.get(found.header.policy), found.blobs.get(found.header.tools))
        for blob in sorted(found.blobs.folder.iterdir()):
            if blob.name not in (found.header.policy, found.header.tools):
                log.blobs.put(blob.read_bytes())
        conversation = Conversation(log.blobs, None)
        for entry in found.entries:
            event = header if entry.seq == 0 else renewed(entry.event, renamed)
            if isinstance(event, events.ModelRequested):
                conversation.read(log.entries)
                renamed[event.digest] = conversation.request()[1]
                event = renewed(event, renamed)
            written = log.append(event, (BEGAN + timedelta(seconds=entry.seq)).isoformat())
            if isinstance(event, events.ProposalMade):
                renamed[proposal_id(entry)] = proposal_id(written)


def renewed(event: events.Event, renamed: dict[str, str]) -> events.Event:
    """The event with names and digests that are others now."""
    text = event.model_dump_json()
    for old, new in renamed.items():
        text = re.sub(re.escape(old), new, text)
    return events.EVENT.validate_json(text)


if __name__ == "__main__":
    goal = HERE / f"v{VERSION}"
    if goal.exists():
        sys.exit(f"{goal} is there: a golden session is made once")
    with tempfile.TemporaryDirectory() as scratch:
        written_again(real(Path(scratch)), goal)
