"""Cages: the host's side of running code that is not trusted."""
