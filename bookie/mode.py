"""Whether a bookie takes normal adds."""

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


class Mode:
    """Set by what its disks say; whoever acts on it is told of each change."""

    def __init__(self) -> None:
        self.read_only = False
        self._listeners: list[Callable[[bool], None]] = []

    def on_change(self, callback: Callable[[bool], None]) -> None:
        """Call ``callback(read_only)`` from now on. Must not raise."""
        self._listeners.append(callback)

    def set(self, read_only: bool, reason: str) -> None:
        if read_only == self.read_only:
            return
        self.read_only = read_only
        for callback in self._listeners:
            callback(read_only)
        log.warning("bookie is %s reason=%s", "read-only" if read_only else "writable", reason)
