"""Checks 57 to 112: the gateway and its console, WebSockets, jobs and dependencies, and holes of Apache Pulsar's."""

from tests.security.check import Check

CHECKS: tuple[Check, ...] = ()

PENDING = frozenset(range(57, 113))
"""Numbers of checks that have no row yet."""
