"""Instrument ``hang``: who waits for whom in a program that does not end."""
