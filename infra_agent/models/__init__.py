"""Models: whatever answers a conversation with text and tool calls."""
