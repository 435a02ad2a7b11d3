"""Sessions: an append-only log of events, and the pure functions that read it."""
