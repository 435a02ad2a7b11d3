"""A package and its tests, and one edit of the package that a test shows. Which function, how, and where its test stands are drawn."""

import random
import re

from tests.pairs.pair import Pair

_FUNCTIONS = {
    "total": ("sum(values)", "[1, 2, 3]", "6"),
    "largest": ("max(values)", "[4, 9, 2]", "9"),
    "ordered": ("sorted(values)", "[3, 1, 2]", "[1, 2, 3]"),
    "doubled": ("[2 * v for v in values]", "[1, 5]", "[2, 10]"),
    "mean": ("sum(values) / len(values)", "[1, 3]", "2"),
    "unique": ("len(set(values))", "[1, 1, 2]", "2"),
    "ends": ("(values[0], values[-1])", "[7, 8, 9]", "(7, 9)"),
}
_FAMILIES = ("wrong", "raises", "flaky", "slow", "exits", "aborts", "skips", "gone")


def pair(seed: int) -> Pair:
    """One function of several is spoilt."""
    rng = random.Random(seed)
    names = rng.sample(sorted(_FUNCTIONS), rng.randrange(3, 7))
    spoilt, family = rng.choice(names), _FAMILIES[seed % len(_FAMILIES)]
    checks, line = _checks(rng, names, spoilt)
    first = next(n for n, text in enumerate(checks.splitlines(), 1) if text.startswith("def "))
    healthy = "".join(_function(name, "") for name in names)
    faulty = "".join(_function(name, _spoiling(rng, family, name)) if name == spoilt else _function(name, "") for name in names)
    if family == "gone":
        faulty, line = re.sub(rf"def {spoilt}\(", f"def {spoilt}_all(", healthy), first
    kinds = {"flaky": ("flaky",), "slow": ("slow_test",), "exits": ("tampered",), "aborts": ("crashed",), "skips": ("skipped_test",)}
    trees = [
        {"work/__init__.py": b"", "work/lists.py": text.encode(), "checks/test_lists.py": checks.encode()} for text in (faulty, healthy)
    ]
    expected = kinds.get(family, ("broken_test",))
    runs = 6 if family == "flaky" else 1
    return Pair("tests", trees[0], trees[1], expected, rf"^checks/test_lists\.py:{line}: ", {"runs": runs}, f"{family} {spoilt}")


def _function(name: str, spoiling: str) -> str:
    return f"def {name}(values):\n{spoiling}    return {_FUNCTIONS[name][0]}\n\n\n"


def _checks(rng: random.Random, names: list[str], spoilt: str) -> tuple[str, int]:
    """The test file, and the line of the test of ``spoilt``."""
    text = "import pytest\n\nfrom work.lists import " + ", ".join(names) + "\n" + "\n# setting\n" * rng.randrange(4)
    line = 0
    for name in rng.sample(names, len(names)):
        text += "\n\n"
        if name == spoilt:
            line = text.count("\n") + 1
        _, given, expected = _FUNCTIONS[name]
        text += f"def test_{name}():\n    assert {name}({given}) == {expected}\n"
    return text + "\n\n@pytest.mark.parametrize('n', [1, 2])\ndef test_numbers(n):\n    assert n\n", line


def _spoiling(rng: random.Random, family: str, name: str) -> str:
    return {
        "wrong": f"    values = [*values[:-1], values[-1] + {rng.randrange(100, 200)}] * 2\n",
        "raises": f"    if len(values) > 1:\n        raise {rng.choice(('KeyError', 'IndexError'))}({rng.randrange(99)})\n",
        "flaky": "    import os\n    if os.urandom(1)[0] % 2:\n        return None\n",
        "slow": f"    import time\n    time.sleep({rng.uniform(0.8, 1.5):.2f})\n",
        "exits": "    import os\n    os._exit(0)\n",
        "aborts": f"    import os\n    {rng.choice(('os.abort()', 'os.kill(os.getpid(), 11)', 'os._exit(7)'))}\n",
        "skips": "    import unittest\n    raise unittest.SkipTest('later')\n",
        "gone": "",
    }[family]
