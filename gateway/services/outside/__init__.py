"""Calls of servers that are no part of a cluster."""
