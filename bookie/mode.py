"""Whether a bookie takes normal adds."""

import logging
from collections.abc import Callable

from engine.base.clock import Clock

log = logging.getLogger(__name__)


class Mode:
    """Set by what its disks say; whoever acts on it is told of each change. ``since_ms``: since when it is so, by the
    wall clock; ``reason``: why it is read-only, as of the last look at the disks; empty while it is not."""

    def __init__(self, clock: Clock) -> None:
        self.read_only = False
        self.reason = ""
        self.since_ms = clock.wall_ms()
        self._clock = clock
        self._listeners: list[Callable[[bool], None]] = []

    def on_change(self, callback: Callable[[bool], None]) -> None:
        """Call ``callback(read_only)`` from now on. Must not raise."""
        self._listeners.append(callback)

    def set(self, read_only: bool, reason: str) -> None:
        self.reason = reason if read_only else ""
        if read_only == self.read_only:
            return
        self.read_only = read_only
        self.since_ms = self._clock.wall_ms()
        for callback in self._listeners:
            callback(read_only)
        log.warning("bookie is %s reason=%s", "read-only" if read_only else "writable", reason)
