"""Which class of cache is stored how: the table in ``precision.toml``, checked."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CLASSES = ("kv", "index", "conv", "ssm")
_TABLE = Path(__file__).with_name("precision.toml")


@dataclass(frozen=True)
class Policy:
    """Storage of one class."""

    dtype: str
    rounding: str
    group: int


@cache
def policies() -> dict[str, Policy]:
    """Class -> policy. Raises ValueError for a value that the table does not allow."""
    table = tomllib.loads(_TABLE.read_text())
    return {name: Policy(**{knob: _value(f"{name}.{knob}", entry) for knob, entry in table[name].items()}) for name in CLASSES}


def _value(name: str, entry: dict) -> object:
    if entry["value"] not in entry["allowed"]:
        raise ValueError(f"{name} = {entry['value']!r}; allowed: {entry['allowed']}")
    return entry["value"]
