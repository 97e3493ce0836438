"""Webhooks: requests as messages, and messages as requests."""
