"""Results of a check: severity, cause and remedy (P4)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum

from engine.base.errors import MagnetarError
from magnetar.command.exits import CommandFailed, Exit

CHECK_S = 6.0
"""Time of one check. All run at once, so this bounds the command."""


class Severity(StrEnum):
    """Severity of a finding. UNKNOWN: the check could not be made; that is never well."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    UNKNOWN = "unknown"
    PROBLEM = "problem"


BAD = frozenset({Severity.UNKNOWN, Severity.PROBLEM})
"""Severities with which the command ends with status 1."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A finding. ``part``: the part of the cluster or of this machine, such as ``broker 10.0.0.1:8080``."""

    part: str
    severity: Severity
    text: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        return {
            "part": self.part,
            "severity": self.severity.value,
            "finding": self.text,
            "remedy": self.remedy,
        }


def ok(part: str, text: str) -> Diagnosis:
    return Diagnosis(part, Severity.OK, text)


def info(part: str, text: str, remedy: str = "") -> Diagnosis:
    return Diagnosis(part, Severity.INFO, text, remedy)


def warning(part: str, text: str, remedy: str) -> Diagnosis:
    return Diagnosis(part, Severity.WARNING, text, remedy)


def problem(part: str, text: str, remedy: str) -> Diagnosis:
    return Diagnosis(part, Severity.PROBLEM, text, remedy)


def unknown(part: str, text: str, remedy: str = "") -> Diagnosis:
    return Diagnosis(part, Severity.UNKNOWN, text, remedy)


Check = Callable[[], AsyncIterator[Diagnosis]]


async def all_findings(checks: dict[str, Check], timeout_s: float = CHECK_S) -> list[Diagnosis]:
    """Run all checks at once and return their findings, in the order of the checks.

    A check that takes longer than ``timeout_s``, or fails, adds a finding that names it.
    """
    lists = await asyncio.gather(
        *(_findings(part, check, timeout_s) for part, check in checks.items())
    )
    return [finding for findings in lists for finding in findings]


async def _findings(part: str, check: Check, timeout_s: float) -> list[Diagnosis]:
    findings: list[Diagnosis] = []
    try:
        async with asyncio.timeout(timeout_s):
            async for finding in check():
                findings.append(finding)  # noqa: PERF401  # those before a timeout count
    except TimeoutError:
        findings.append(unknown(part, f"the check did not end within {timeout_s:g} s"))
    except CommandFailed as error:
        remedy = "" if error.exit_code == Exit.UNREACHABLE else error.hint
        findings.append(unknown(part, f"not checked: {error.message}", remedy))
    except (MagnetarError, OSError) as error:
        findings.append(unknown(part, f"the check failed: {' '.join(str(error).split())}"))
    except Exception as error:  # a finding is missing then, which must not look like health
        findings.append(unknown(part, f"the check failed: {error!r}"))
    return findings
