"""The log and the numbers of commands that clients had no right to.

A client that repeats a refused command does not fill the log: its connection has one line per type of command and
minute.
"""

import logging
from collections import Counter, OrderedDict

from engine.base.clock import Clock

log = logging.getLogger(__name__)

LINE_S = 60.0
"""Seconds between two lines about one connection and type of command."""
REMEMBERED_MAX = 1_000
"""Number of connections and types of commands whose last lines are remembered; the oldest are forgotten first."""


class _LastLine:
    """Time of the last line, and number of refusals since then."""

    __slots__ = ("at_s", "since")

    def __init__(self, at_s: float) -> None:
        self.at_s = at_s
        self.since = 0


class RefusedCommands:
    """Refusals of all connections of a process. ``counts`` are their numbers by type of command."""

    def __init__(self, clock: Clock) -> None:
        self.counts: Counter[str] = Counter()
        self._clock = clock
        self._lines: OrderedDict[tuple[str, str], _LastLine] = OrderedDict()

    def note(self, client: str, command: str, role: str | None, reason: str) -> None:
        """Count the refusal of a command of ``client`` (``host:port``), and log it unless a line is too recent."""
        self.counts[command] += 1
        now_s = self._clock.monotonic_s()
        last = self._lines.get((client, command))
        if last is not None and now_s - last.at_s < LINE_S:
            last.since += 1
            return
        more = (
            f" ({last.since} more since the last line)" if last is not None and last.since else ""
        )
        log.info(
            "not authorized client=%s command=%s role=%s: %s%s", client, command, role, reason, more
        )
        self._lines[client, command] = _LastLine(now_s)
        self._lines.move_to_end((client, command))
        if len(self._lines) > REMEMBERED_MAX:
            self._lines.popitem(last=False)
