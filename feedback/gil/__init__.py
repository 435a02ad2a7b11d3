"""Instrument ``gil``: who keeps the other threads of a program waiting for the interpreter."""
