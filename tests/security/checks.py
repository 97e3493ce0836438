"""The list of attacks, each with the tests that make it and see it refused."""

from tests.security import broker_checks, gateway_checks
from tests.security.check import Check

CHECKS: tuple[Check, ...] = broker_checks.CHECKS + gateway_checks.CHECKS
PENDING = broker_checks.PENDING | gateway_checks.PENDING
