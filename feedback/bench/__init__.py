"""Run the project's own benchmark once."""
