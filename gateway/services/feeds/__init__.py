"""Feeds of rows: what brokers report repeatedly, each time the rows that changed since the last answer."""
