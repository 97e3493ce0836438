"""Checks 1 to 56: authentication, authorization, malformed input and exhaustion at the broker and REST."""

from tests.security.check import Check

CHECKS: tuple[Check, ...] = ()

PENDING = frozenset(range(1, 57))
"""Numbers of checks that have no row yet."""
