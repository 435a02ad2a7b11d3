"""Read what a patch added and say which lines do more than compute."""
