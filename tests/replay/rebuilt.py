"""What an exported ATIF document says, read back: against its schema, and as the events of the log that it came from."""

import json
from pathlib import Path
from typing import Any

import jsonschema

from infra_agent.session.events import EVENT, Event

SCHEMA = json.loads(Path(__file__).with_name("atif.schema.json").read_text())


def check(document: dict[str, Any]) -> None:
    """The schema, and what a schema cannot say."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    steps = document["steps"]
    assert [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
    calls = [[call["tool_call_id"] for call in step.get("tool_calls", [])] for step in steps]
    every = [identity for own in calls for identity in own]
    assert len(every) == len(set(every))
    for step, own in zip(steps, calls, strict=True):
        assert {result["source_call_id"] for result in step.get("observation", {"results": []})["results"]} <= set(own)


def events_of(document: dict[str, Any]) -> list[tuple[int, str, Event]]:
    """Number, time and event of everything in the document, by number."""
    found = [_event(document["extra"]["header"])]
    for step in document["steps"]:
        extra = step.get("extra", {})
        found += [_event(item) for item in extra.get("events", [])]
        found += [_event(extra["requested"])] if "requested" in extra else []
        found += [_event(call["extra"]["proposed"]) for call in step.get("tool_calls", []) if "proposed" in call["extra"]]
        found += [_event(result["extra"]["made"]) for result in step.get("observation", {"results": []})["results"]]
        if step["source"] == "agent":
            found.append(_event(_reply(step)))
        elif "seq" in extra:
            told = {"seq": extra["seq"], "t": step["timestamp"], "type": "note", "text": step["message"], "to_model": True}
            found.append(
                _event({key: value for key, value in extra.items() if key not in ("events", "requested")} if "type" in extra else told)
            )
    return sorted(found, key=lambda item: item[0])


def _event(item: dict[str, Any]) -> tuple[int, str, Event]:
    return item["seq"], item["t"], EVENT.validate_python({key: value for key, value in item.items() if key not in ("seq", "t")})


def _reply(step: dict[str, Any]) -> dict[str, Any]:
    """Only from fields of the format, and its extra where it has none."""
    extra, said = step["extra"], step.get("metrics", {})
    usage = {
        "input_tokens": said.get("prompt_tokens"), "cached_tokens": said.get("cached_tokens"),
        "output_tokens": said.get("completion_tokens"), "cost_usd": said.get("cost_usd"),
    }  # fmt: skip
    calls = [call["extra"]["written"] for call in step.get("tool_calls", []) if "written" in call["extra"]]
    return {
        "seq": extra["seq"], "t": extra["t"], "type": "model.replied", "request": extra["request"], "text": step["message"],
        "tool_calls": calls, "usage": usage, "raw": extra.get("raw"), "waited_s": extra["waited_s"],
        "reasoning": step.get("reasoning_content", ""),
    }  # fmt: skip
