"""The rule for findings: any error but the module's named ones, excessive memory, or a parse that takes too long."""

import resource
import time

from tests.fuzz.mutate import Mutator
from tests.fuzz.target import Target

GROWTH_KIB_MAX = 256 << 10
"""Resident memory that parsing one input of a few KB may add."""
SECONDS_MAX = 2.0
"""CPU seconds that it may take."""


class FoundError(AssertionError):
    """An input that breaks the rule; the cause is the error that was raised."""


def execute(target: Target, data: bytes) -> bool:
    """Parse ``data`` as it is, and again with its checksums corrected. Return True when it was accepted.

    Raises FoundError naming target and input.
    """
    taken = _once(target, data)
    if target.sealed is not None:
        taken |= _once(target, target.sealed(data))
    return taken


def _once(target: Target, data: bytes) -> bool:
    before = resource.getrusage(resource.RUSAGE_SELF)
    taken = True
    try:
        target.run(data)
    except target.errors:
        taken = False
    except Exception as error:
        kind = type(error).__name__
        raise FoundError(f"{target.name}: {kind}: {error} on {data.hex()}") from error
    after = resource.getrusage(resource.RUSAGE_SELF)
    grown = after.ru_maxrss - before.ru_maxrss
    if grown > GROWTH_KIB_MAX:
        raise FoundError(f"{target.name}: {grown} KiB more in memory on {data.hex()}")
    spent = after.ru_utime - before.ru_utime
    if spent > SECONDS_MAX:
        raise FoundError(f"{target.name}: {spent:.1f} s of CPU time on {data.hex()}")
    return taken


def executions(target: Target, seconds: float) -> "tuple[int, int, list[str]]":
    """Mutate by a seed for ``seconds``; return how many inputs were tried, how many were accepted, and the findings."""
    mutator = Mutator(target.seeds, target.words)
    until = time.monotonic() + seconds
    tried = good = 0
    findings: dict[str, str] = {}
    while time.monotonic() < until:
        data = mutator.next()
        tried += 1
        try:
            good += execute(target, data)
        except FoundError as error:
            cause = error.__cause__
            place = _place(cause) if cause is not None else "limit"
            findings.setdefault(f"{type(cause).__name__} at {place}", str(error))
    return tried, good, [f"{where}: {what}" for where, what in findings.items()]


def _place(error: BaseException) -> str:
    """Return the file and line that raised ``error``; each counts as one finding."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "?"
    return f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
