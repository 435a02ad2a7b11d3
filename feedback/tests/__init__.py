"""Run the project's own tests and say what became of each."""
