"""The attack suite: every attack by name here, the whole of it with its control and an ordinary user in ``make attacks``."""

import os
import subprocess
import sys

import pytest

from infra_agent.sandbox.attacks import suite
from infra_agent.sandbox.attacks.base import Attack, Outcome, Trial, script
from infra_agent.sandbox.attacks.ordinary import OrdinaryUser
from infra_agent.sandbox.attacks.suite import ATTACKS, Row
from infra_agent.sandbox.choose import BACKENDS
from tests.conftest import ROOT, Cli

NAIVE = {"key-file", "key-own-environment", "write-late", "tcp", "host-killed", "fifo", "bpf", "fork-bomb", "flood-stdout", "mount"}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: f"{attack.family}-{attack.name}")
def test_bubblewrap_holds(attack: Attack) -> None:
    row = next(iter(suite.run(BACKENDS["bubblewrap"], [attack])))
    if row.trial.state == "not_run":
        pytest.skip(f"NOT RUN: {row.trial.detail}")
    assert row.trial.state == "held", row.trial.detail


def test_the_suite_bites() -> None:
    """What naive bubblewrap lets out is seen; a handful here, all of it in ``make attacks``."""
    rows = list(suite.run_naive([attack for attack in ATTACKS if attack.name in NAIVE]))
    escaped = {row.attack.name for row in rows if row.trial.state == "escaped"}
    assert len(escaped) >= 6, rows
    assert "write-late" not in escaped, "the control has no standing requests"


def test_an_attack_that_says_nothing_counts_as_escaped() -> None:
    silent = script("silent", "files", "do nothing", "pass")
    crashing = script("crashing", "files", "crash", "1 / 0")
    rows = list(suite.run(BACKENDS["bubblewrap"], [silent, crashing]))
    assert [row.trial.state for row in rows] == ["escaped", "escaped"]
    assert all("did not do its work" in row.trial.detail for row in rows)


def test_a_secret_that_comes_out_is_an_escape_whatever_is_said() -> None:
    told = script("told", "files", "print the secret", "import json; print('HELD', json.load(open('scene.json'))['secret'])")

    class Leaky:
        """An arena that tells."""

        sandbox = None

        def __init__(self, scene: suite.Scene) -> None:
            self.scene = scene

        def run(self, code: str, timeout_s: float) -> Outcome:
            return Outcome("ok", f"HELD {self.scene.secret}".encode(), 0.0)

    with suite.Scene() as scene:
        assert told.attempt(Leaky(scene)) == Trial("escaped", "the secret was read")  # type: ignore[arg-type]


def test_names_are_unique_and_there_are_enough() -> None:
    names = [(attack.family, attack.name) for attack in ATTACKS]
    assert len(set(names)) == len(names) >= 40
    assert {attack.family for attack in ATTACKS} == {
        "files", "artefacts", "memory", "processes", "rights", "network", "descriptors", "leftovers", "contention", "output",
    }  # fmt: skip


def test_the_last_line_counts() -> None:
    rows = [Row("a", ATTACKS[0], Trial(state), 0.0) for state in ("held", "held", "escaped", "not_run")]  # type: ignore[arg-type]
    assert suite.line(rows) == "attacks: 2 held, 1 escaped, 1 not run"


def test_doctor_tries_the_sandbox(cli: Cli) -> None:
    done = cli("doctor", timeout=120)
    assert done.returncode == 0, done.stderr
    for family in ("files", "artefacts", "rights", "network", "descriptors", "leftovers"):
        line = next(line.split() for line in done.stdout.splitlines() if line.startswith("bubblewrap") and line.split()[1] == family)
        assert int(line[2]) > 5 and line[3] == "0"
    assert "isolation full" in done.stdout and "isolation partial" in done.stdout and "limits" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: only root can make the ordinary user; run as one, the suite is an ordinary user's")
def test_as_an_ordinary_user() -> None:
    with OrdinaryUser() as user:
        assert user.refusal is None, user.refusal
        argv = user.argv("-m", "infra_agent.sandbox.attacks", "--sandbox", "bubblewrap")
        done = subprocess.run(argv, env=user.environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert ", 0 escaped," in done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_landlock_holds_what_it_claims() -> None:
    refusal = BACKENDS["landlock"].refusal()
    if refusal:
        pytest.skip(f"NOT RUN: {refusal}")
    argv = [sys.executable, "-m", "infra_agent.sandbox.attacks", "--sandbox", "landlock"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
