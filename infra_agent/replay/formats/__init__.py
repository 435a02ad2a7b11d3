"""What a session is exported to, and what is imported: one module a format. Pure."""
