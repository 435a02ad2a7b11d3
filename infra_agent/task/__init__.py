"""Tasks: what the agent is asked to do, read from ``task.toml``."""
