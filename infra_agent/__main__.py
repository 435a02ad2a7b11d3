"""``python -m infra_agent``: the same as ``infra-agent``."""

from infra_agent.cli.main import main

if __name__ == "__main__":
    main()
