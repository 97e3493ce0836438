"""Streaming reads: the reader that Spark drives, its view of the topics, and subscriptions that follow it."""
