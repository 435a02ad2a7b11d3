"""Judge the whole collection and print a table: ``python -m tests.zoo``. Exit 1 when one is judged wrongly.

Every candidate goes through the whole gate, with fresh cages, once for each of several session secrets.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from infra_agent.judge import seeds
from tests.zoo.collection import GROUPS, candidates
from tests.zoo.judging import judge_all, summary, table


def main() -> int:
    """Run it; see the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--secrets", type=int, default=3, help="how many session secrets")
    parser.add_argument("--group", action="append", choices=GROUPS, help="only this group; may be given more than once")
    parser.add_argument("--only", default="", help="only candidates whose name contains this")
    given = parser.parse_args()
    listed = [c for c in candidates(tuple(given.group or GROUPS)) if given.only in c.name]
    here = [c for c in listed if not c.about.needs]
    secrets = [seeds.new_secret() for _ in range(given.secrets)]
    print(f"secrets with commitments {', '.join(seeds.commitment(secret)[:16] for secret in secrets)}", flush=True)
    with tempfile.TemporaryDirectory() as home:
        outcomes = judge_all(here, secrets, Path(home))
    print("\n" + table(outcomes))
    for candidate in (c for c in listed if c.about.needs):
        print(f"not run here: {candidate.name} needs {candidate.about.needs}: {candidate.about.idea}")
    return summary(outcomes)


if __name__ == "__main__":
    sys.exit(main())
