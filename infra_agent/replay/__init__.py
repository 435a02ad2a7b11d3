"""Replay: read a recorded session and compute again whatever can be computed."""
