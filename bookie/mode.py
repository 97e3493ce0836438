"""The mode of a bookie: writable or read-only."""

import logging
from collections.abc import Callable

from engine.base.clock import Clock

log = logging.getLogger(__name__)


class Mode:
    """Writable or read-only, as the disks require and as an operator asks. Listeners are notified of each change.

    ``since_ms``: wall clock of the last change. ``reason``: why it is read-only, at the last check of the disks or as
    asked; empty while it is writable.
    """

    def __init__(self, clock: Clock) -> None:
        self.read_only = False
        self.reason = ""
        self._required = ""
        self._asked = ""
        self.since_ms = clock.wall_ms()
        self._clock = clock
        self._listeners: list[Callable[[bool], None]] = []

    def on_change(self, callback: Callable[[bool], None]) -> None:
        """Call ``callback(read_only)`` after each change from now on. It must not raise."""
        self._listeners.append(callback)

    def set(self, read_only: bool, reason: str) -> None:
        """Set what the disks require."""
        self._required = reason if read_only else ""
        self._decide(reason)

    def ask(self, reason: str) -> None:
        """Set why an operator wants the bookie read-only; empty: writable as far as the disks allow."""
        self._asked = reason
        self._decide(reason or "asked")

    def _decide(self, reason: str) -> None:
        self.reason = self._required or self._asked
        read_only = bool(self.reason)
        if read_only == self.read_only:
            return
        self.read_only = read_only
        self.since_ms = self._clock.wall_ms()
        for callback in self._listeners:
            callback(read_only)
        log.warning("bookie is %s reason=%s", "read-only" if read_only else "writable", reason)
