"""``python -m infra_agent.sandbox.attacks``: the whole suite here, as an ordinary user too where root runs it, and the control.

Exit 0 when all held and the control bit, 1 otherwise. Lines about single attacks go to stdout; the last line sums up the sandbox.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable

from infra_agent.sandbox.attacks import suite
from infra_agent.sandbox.attacks.ordinary import OrdinaryUser
from infra_agent.sandbox.attacks.suite import Row
from infra_agent.sandbox.choose import BACKENDS

_MUST_ESCAPE = 6
"""Attacks that the control must not hold, so that the suite is known to bite."""


def show(rows: Iterable[Row], who: str) -> list[Row]:
    """Print each row as it comes; what was not run stands out."""
    shown = []
    for row in rows:
        state = {"held": "held", "escaped": "ESCAPED", "not_run": "NOT RUN"}[row.trial.state]
        what = f"{who:<22} {row.attack.family:<12} {row.attack.name:<30}"
        print(f"{what} {state:<8} {row.seconds:6.2f} s  {row.trial.detail[:120]}", flush=True)
        shown.append(row)
    return shown


def _as_ordinary_user() -> int:
    """Run the suite as a user made for it; returns its exit status. Prints why where that cannot be done."""
    with OrdinaryUser() as user:
        if user.refusal:
            print(f"ordinary user: NOT RUN: {user.refusal}", flush=True)
            return 1
        argv = user.argv("-m", "infra_agent.sandbox.attacks", "--sandbox", "bubblewrap")
        return subprocess.run(argv, env=user.environment, check=False, cwd="/").returncode


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="attacks", description="Try to break out of the sandbox, for real.")
    parser.add_argument("--sandbox", choices=[*BACKENDS, "naive"], help="this one alone, as this user")
    parser.add_argument("--only", default="", help="attacks whose name or family contains this")
    chosen = parser.parse_args()
    attacks = [attack for attack in suite.ATTACKS if chosen.only in attack.name or chosen.only in attack.family]
    if chosen.sandbox == "naive":
        print(suite.line(show(suite.run_naive(attacks), "naive control")))
        return 0
    who = "root" if os.geteuid() == 0 else "user"
    name = chosen.sandbox or "bubblewrap"
    rows = show(suite.run(BACKENDS[name], attacks), f"{name}, {who}")
    if chosen.sandbox:
        print(suite.line(rows))
        return int(any(row.trial.state == "escaped" for row in rows))
    refusal = BACKENDS["landlock"].refusal()
    lesser = show(suite.run(BACKENDS["landlock"], attacks), f"landlock, {who}") if refusal is None else []
    if refusal:
        print(f"landlock: NOT RUN: {refusal}")
    naive = show(suite.run_naive(attacks), "naive control")
    as_user = _as_ordinary_user() if who == "root" else 0
    if who == "user":
        print("as root: NOT RUN: this user is not root")
    escaped = suite.counts(naive)["escaped"]
    print(f"landlock: {suite.line(lesser)}")
    print(f"control: {escaped} of {len(naive)} escaped from naive bubblewrap; at least {_MUST_ESCAPE} must")
    print(suite.line(rows))
    return int(as_user != 0 or escaped < _MUST_ESCAPE or any(row.trial.state == "escaped" for row in [*rows, *lesser]))


if __name__ == "__main__":
    sys.exit(main())
