"""Connections of clients over all brokers of a cluster."""
