"""Plant faults by seed and ask each instrument for them: ``python -m tests.pairs``. Exit 1 when one is missed or the twin is accused."""

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path

from tests.pairs.pair import Generator, Outcome, try_pair

INSTRUMENTS = sorted(path.stem.removeprefix("of_") for path in Path(__file__).parent.glob("of_*.py"))


def generator(instrument: str) -> Generator:
    """``pair(seed)`` of the module ``of_<instrument>``."""
    return import_module(f"tests.pairs.of_{instrument}").pair  # type: ignore[no-any-return]


def run(instrument: str, first: int, count: int) -> list[Outcome]:
    """Its pairs, one line for each that went wrong and one for all."""
    began, outcomes = time.monotonic(), []
    for seed in range(first, first + count):
        pair = generator(instrument)(seed)
        outcome = try_pair(instrument, pair)
        outcomes.append(outcome)
        if not outcome.localised or outcome.false_alarms:
            print(
                f"  {instrument} seed {seed} ({pair.about}): expected {pair.where} of {', '.join(pair.kinds)}; {outcome.said}", flush=True
            )
    localised, alarms = sum(o.localised for o in outcomes), sum(o.false_alarms for o in outcomes)
    print(f"{instrument:<12} {localised}/{count} localised, {alarms} false alarms ({time.monotonic() - began:.0f} s)", flush=True)
    return outcomes


def main() -> int:
    """Run it; see the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="pairs for each instrument")
    parser.add_argument("--first", type=int, default=0, help="the first seed: one that no detector was tuned on")
    parser.add_argument("--only", action="append", choices=INSTRUMENTS, help="only this instrument; may be given more than once")
    given = parser.parse_args()
    outcomes = [outcome for name in given.only or INSTRUMENTS for outcome in run(name, given.first, given.seeds)]
    localised, alarms = sum(o.localised for o in outcomes), sum(o.false_alarms for o in outcomes)
    print(f"pairs: {localised}/{len(outcomes)} localised, {alarms} false alarms")
    return int(localised < len(outcomes) or alarms > 0)


if __name__ == "__main__":
    sys.exit(main())
