"""Say where an entry's time goes: critical path, gaps, threads that do not overlap, hot lines; the whole timeline is kept beside."""
