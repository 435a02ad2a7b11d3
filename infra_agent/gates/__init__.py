"""Gates: what an action may do, and what a proposal must show."""
