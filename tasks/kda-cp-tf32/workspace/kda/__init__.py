"""Kimi Delta Attention over a sequence that is split across context-parallel ranks."""
