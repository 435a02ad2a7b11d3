"""Candidates that the judge is tested on: dishonest ones, which it must refuse, and honest ones, which it must accept."""
