"""Instrument ``events``, and the runtime that a task's code runs on for it."""
