"""What approved changes taught: a file a lesson, in a git repository of its own; later sessions are told, as unverified."""
