"""Carry out one allowed action: the workspace as plain data, tools that read and edit it, instruments that measure it."""

from collections.abc import Callable
from typing import Any

from infra_agent.errors import UsageError
from infra_agent.experience.store import Experience
from infra_agent.judge.collector import Collector
from infra_agent.judge.measure import Records, measure
from infra_agent.sandbox.text import excerpt
from infra_agent.session import events
from infra_agent.session.log import BrokenLogError, SessionLog
from infra_agent.session.observation import Observation, Status
from infra_agent.session.redaction import redact_text
from infra_agent.task.repository import Repository
from infra_agent.task.tree import digest

_MOST_HITS = 60


class Workbench:
    """The state a session works on. It is a function of the log: edits are replayed, nothing else changes it."""

    def __init__(self, collector: Collector, repository: Repository, base: str, log: SessionLog, sparse_metric: str | None) -> None:
        self.collector = collector
        self.repository = repository
        self.base = base
        self.base_tree = repository.read_tree(base)
        self.tree = dict(self.base_tree)
        self._log = log
        self._sparse_metric = sparse_metric
        self._digest = ""
        self._edit_again()
        self._tools: dict[str, Callable[[dict[str, Any]], Observation]] = {
            "view": self._view, "search": self._search, "edit": self._edit, "shell": self._shell,
            "hypothesis": self._hypothesis, "recall": self._recall,
        }  # fmt: skip

    def _edit_again(self) -> None:
        """Make the edits that the log says were made. Raises BrokenLogError when they do not give the files that it says they gave."""
        proposed = {e.event.action: e.event for e in self._log.entries if isinstance(e.event, events.ActionProposed)}
        for entry in self._log.entries:
            if isinstance(entry.event, events.ObservationMade):
                made = entry.event
                if made.observation.instrument == "edit" and made.observation.status == "pass":
                    self._edit(proposed[made.action].arguments)
                if made.tree != self.tree_digest:
                    raise BrokenLogError(f"{self._log.folder}: line {entry.seq + 1}: its files are not those that the edits before it make")

    @property
    def tree_digest(self) -> str:
        """Digest of the files as they are now."""
        self._digest = self._digest or digest(self.tree)
        return self._digest

    def patch(self) -> bytes:
        """What was changed so far, as a patch against base."""
        return self.repository.diff(self.base, self.repository.write_tree(self.tree))

    def run(self, tool: str, arguments: dict[str, Any]) -> tuple[Observation, Records]:
        """Carry out an action. What goes wrong in it is an observation, not an exception."""
        try:
            if tool in self._tools:
                return self._tools[tool](arguments), {}
            return measure(self.collector, tool, self.tree, self.base_tree, arguments, self._reproduce(tool, arguments))
        except UsageError as error:
            return say(tool, "fail", str(error), kind="bad_arguments"), {}

    def _reproduce(self, tool: str, arguments: dict[str, Any]) -> tuple[str, ...]:
        """The command line that measures the same files again; the patch so far is kept as a blob for it."""
        settings = [f"--set={key}={value}" for key, value in arguments.items() if value != ""]
        patch = self.patch()
        if patch:
            settings.append(f"--patch={self._log.folder.name}/{self._log.blobs.put(patch)}")
        return ("infra-agent", "measure", self.collector.task.spec.id, tool, *settings)

    def _text(self, path: str) -> str:
        if path not in self.tree:
            raise UsageError(f"{path}: no such file; there are: {', '.join(sorted(self.tree))}")
        try:
            return self.tree[path].decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: not UTF-8 text") from error

    def _view(self, arguments: dict[str, Any]) -> Observation:
        path = arguments["path"]
        if not path:
            return say("view", "pass", f"{len(self.tree)} files", body="\n".join(sorted(self.tree)))
        lines = self._text(path).splitlines()
        first = arguments["start"]
        shown = lines[first - 1 : first - 1 + arguments["lines"]]
        body = "\n".join(f"{first + n:5} {line}" for n, line in enumerate(shown))
        return say("view", "pass", f"{path}, lines {first}-{first + len(shown) - 1} of {len(lines)}", body=body)

    def _search(self, arguments: dict[str, Any]) -> Observation:
        result = self.collector.search(self.tree, arguments["pattern"], arguments["glob"])
        lines = result.text.decode(errors="replace").splitlines()
        if not result.ok:
            raise UsageError(lines[0][:300] if result.code == 2 and lines else f"the search {result.ended}: a simpler pattern is needed")
        return say("search", "pass", f"{len(lines)} hits", body="\n".join(lines[:_MOST_HITS]))

    def _edit(self, arguments: dict[str, Any]) -> Observation:
        path, old, new = arguments["path"], arguments["old"], arguments["new"]
        if redact_text(new) != new:
            raise UsageError(f"{path}: the new text holds what looks like a secret; it would be in every copy of the patch")
        if not old:
            if path in self.tree:
                raise UsageError(f"{path} exists; give `old`, the text to replace")
            self._put(path, new)
            return say("edit", "pass", f"created {path}, {len(new.splitlines())} lines")
        text = self._text(path)
        count = text.count(old)
        if count != 1:
            raise UsageError(f"{path}: `old` occurs {count} times; it must occur exactly once: give more of the lines around it")
        self._put(path, text.replace(old, new))
        line = text[: text.index(old)].count("\n") + 1
        return say("edit", "pass", f"{path}:{line} edited")

    def _put(self, path: str, text: str) -> None:
        self.tree[path], self._digest = text.encode(), ""

    def _shell(self, arguments: dict[str, Any]) -> Observation:
        result = self.collector.shell(self.tree, arguments["command"], arguments["timeout_s"])
        status: Status = "pass" if result.ok else "fail"
        kind = None if result.ok else result.ended
        shown = say("shell", status, result.why, kind=kind, body=excerpt(result.text) or "no output", cost_s=round(result.wall_s, 3))
        whole = redact_text(result.text.decode(errors="replace")).encode()
        return shown.model_copy(update={"evidence": {"output": self._log.blobs.put(whole)}})

    def _hypothesis(self, arguments: dict[str, Any]) -> Observation:
        past = [entry.event for entry in self._log.entries]
        stated = [e for e in past if isinstance(e, events.HypothesisStated)]
        settled = {e.hypothesis for e in past if isinstance(e, events.HypothesisSettled)}
        if arguments["do"] == "state":
            return self._state(arguments, len(stated) + 1, [h.hypothesis for h in stated if h.hypothesis not in settled])
        if arguments["id"] not in {h.hypothesis for h in stated} - settled:
            raise UsageError(f"no open hypothesis '{arguments['id']}'")
        if not arguments["outcome"] or arguments["observation"] not in {e.action for e in past if isinstance(e, events.ObservationMade)}:
            raise UsageError("settling needs outcome (confirmed | refuted) and observation, the [a-N] that shows it")
        chosen = {key: arguments[key] for key in ("outcome", "observation", "note")}
        self._log.append(events.HypothesisSettled(hypothesis=arguments["id"], **chosen))
        return say("hypothesis", "pass", f"{arguments['id']} {arguments['outcome']} by {arguments['observation']}", body=self._ledger())

    def _state(self, arguments: dict[str, Any], number: int, still_open: list[str]) -> Observation:
        if still_open:
            raise UsageError(f"settle {still_open[0]} first: one hypothesis at a time")
        given = {key: arguments[key] for key in ("claim", "prediction", "check")}
        if not all(given.values()):
            raise UsageError("stating needs claim, prediction and check")
        name = f"h-{number}"
        self._log.append(events.HypothesisStated(hypothesis=name, **given))
        return say("hypothesis", "pass", f"{name} stated", body=self._ledger())

    def _ledger(self) -> str:
        """Every hypothesis of the session and what became of it."""
        past = [entry.event for entry in self._log.entries]
        settled = {e.hypothesis: f"{e.outcome} by {e.observation}" for e in past if isinstance(e, events.HypothesisSettled)}
        stated = (e for e in past if isinstance(e, events.HypothesisStated))
        return "\n".join(f"{e.hypothesis} {settled.get(e.hypothesis, 'open')}: {e.claim}" for e in stated)

    def _recall(self, arguments: dict[str, Any]) -> Observation:
        words = arguments["query"].lower().split()
        past = [e.event for e in self._log.entries if isinstance(e.event, events.ObservationMade)]
        asked = next((o for o in past if [o.action] == words), None)
        if asked is not None:
            return say("recall", "pass", f"[{asked.action}] whole", body=asked.observation.for_model(self._sparse_metric))
        learnt = Experience(self._log.folder.parents[1]).all()
        lines = [f"[{o.action}] {o.observation.instrument}: {o.observation.headline}" for o in past]
        lines += [f"unverified: {line}" for lesson in learnt for line in lesson.lines()]
        hits = [line for line in lines if any(word in line.lower() for word in words)]
        return say("recall", "pass", f"{len(hits)} hits", body="\n".join(hits[-_MOST_HITS:]))


def say(tool: str, status: Status, headline: str, *, kind: str | None = None, body: str | None = None, cost_s: float = 0.0) -> Observation:
    """An observation of a tool that is not an instrument."""
    return Observation(instrument=tool, status=status, kind=kind, headline=headline, body=body, cost_s=cost_s)
