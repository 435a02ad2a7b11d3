"""The form of the in-toto statements that are made here, and how a file that may come from anywhere is read into them.

Field names are the specifications': https://github.com/in-toto/attestation/tree/main/spec and https://slsa.dev/spec/v1.0/provenance
"""

import json
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from infra_agent.errors import UsageError
from infra_agent.frozen import Frozen, foremost

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
PROVENANCE = "https://slsa.dev/provenance/v1"
MOST_BYTES = 1 << 20
_MOST_LINES = 16
_PATH_SHOWN = 200
Path = tuple[str | int, ...]
Digests = dict[Literal["sha256", "gitCommit"], Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40,64}$")]]
Timestamp = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]


class _Wire(Frozen):
    """Names as the specifications have them; nothing is taken for something else."""

    model_config = ConfigDict(alias_generator=to_camel, strict=True)


class Descriptor(_Wire):
    """in-toto's ResourceDescriptor, as far as it is made here."""

    name: str
    uri: str | None = None
    digest: Digests | None = None
    annotations: dict[str, str] | None = None

    @model_validator(mode="after")
    def _identified(self) -> "Descriptor":
        if not self.uri and not self.digest:
            raise ValueError("has neither uri nor digest")
        return self


class Subject(_Wire):
    """What a statement is about; matched by digest alone."""

    name: str
    digest: Digests = Field(min_length=1)


class TestResult(_Wire):
    """Predicate test-result v0.1."""

    result: Literal["PASSED", "WARNED", "FAILED"]
    configuration: tuple[Descriptor, ...]
    passed_tests: tuple[str, ...]
    warned_tests: tuple[str, ...]
    failed_tests: tuple[str, ...]


class External(_Wire):
    """What was asked for, by whom."""

    task: str
    base: str
    """Commit."""
    driver: str


class Internal(_Wire):
    """What the session and its judge decided."""

    proposal: str
    binding: str
    """What an approval binds to, as SHA-256."""
    policy: str
    """SHA-256 of the policy as the session pinned it."""
    feedback: str
    decision: str
    level: str
    isolation: str
    platform: str
    risk: str
    limits: dict[str, int | float]
    """Of the session, when the verdict was given; what is not limited is not there."""


class BuildDefinition(_Wire):
    """SLSA: the inputs."""

    build_type: str
    external_parameters: External
    internal_parameters: Internal
    resolved_dependencies: tuple[Descriptor, ...]


class Builder(_Wire):
    """SLSA: who is trusted to have recorded this."""

    id: str
    version: dict[str, str]


class Metadata(_Wire):
    """SLSA: which run it was, and when."""

    invocation_id: str
    started_on: Timestamp
    finished_on: Timestamp


class RunDetails(_Wire):
    """SLSA: this run."""

    builder: Builder
    metadata: Metadata
    byproducts: tuple[Descriptor, ...]


class Provenance(_Wire):
    """Predicate provenance v1."""

    build_definition: BuildDefinition
    run_details: RunDetails


class _Statement(_Wire):
    type: str = Field(alias="_type")
    subject: tuple[Subject, ...] = Field(min_length=1)
    predicate_type: str


class TestResultStatement(_Statement):
    """A test result on its subjects."""

    predicate: TestResult


class ProvenanceStatement(_Statement):
    """The provenance of its subjects."""

    predicate: Provenance


_KINDS: dict[str, type[_Statement]] = {TEST_RESULT: TestResultStatement, PROVENANCE: ProvenanceStatement}


def read(data: bytes) -> list[dict[str, Any]]:
    """Statements of a file from anywhere. Raises UsageError with line and JSON path of what cannot be one."""
    if len(data) > MOST_BYTES:
        raise UsageError(f"an attestation of over {MOST_BYTES} bytes is not read")
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    if not 0 < len(lines) <= _MOST_LINES:
        raise UsageError(f"an attestation has 1 to {_MOST_LINES} lines, a statement each; found {len(lines)}")
    return [_statement(number, line) for number, line in lines]


def _statement(number: int, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"line {number}: not JSON that can be read: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(found, dict) or found.get("_type") != STATEMENT:
        raise UsageError(f"line {number}: not an in-toto Statement v1")
    kind = found.get("predicateType")
    if not isinstance(kind, str) or kind not in _KINDS:
        shown = repr(kind[:80]) if isinstance(kind, str) else f"of JSON type {type(kind).__name__}"
        raise UsageError(f"line {number}: predicate type {shown} is not one that is made here")
    try:
        _KINDS[kind].model_validate_json(line)
    except ValidationError as error:
        fault = foremost(error)
        raise UsageError(f"line {number}: {shown_path(fault['loc']) or 'statement'}: {fault['msg']}") from error
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def shown_path(path: Path) -> str:
    """As in predicate.subject[0]."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")[:_PATH_SHOWN]
