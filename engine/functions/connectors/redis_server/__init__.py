"""Redis: messages as keys, lists and streams, and entries of streams as messages."""
