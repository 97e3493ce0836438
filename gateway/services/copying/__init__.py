"""Copies of stored messages to other topics: selection, plan, preview and the copying itself, which can be resumed."""
