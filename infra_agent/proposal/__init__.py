"""Proposals: from a verdict to a person's approval to a commit."""
