"""Watches of reads, called only for changes behind what the read returned.

Events arrive on another connection than answers: the event of a change may arrive after an answer that has the change.
A change is newer than an answer when its revision is.
"""

import contextvars
from collections.abc import Callable

from engine.metadata.store import Watch

Call = Callable[[Watch, str, contextvars.Context], object]
"""Calls a watch with its path in a context."""


class _Reading:
    """Reads of one path with one watch: the lowest revision that an answer had (None: no answer yet), the number of
    reads under way, and the revision of the last change that arrived meanwhile."""

    __slots__ = ("changed", "context", "since", "under_way")

    def __init__(self) -> None:
        self.context = contextvars.copy_context()
        self.since: int | None = None
        self.under_way = 0
        self.changed = 0


class ReadWatches:
    """Watches by path. ``call`` calls one, after which it is forgotten."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._paths: dict[str, dict[Watch, _Reading]] = {}

    def begin(self, path: str, watch: Watch) -> _Reading:
        """Register the watch of a read before it is sent; ``end`` follows."""
        reading = self._paths.setdefault(path, {}).setdefault(watch, _Reading())
        reading.under_way += 1
        return reading

    def end(self, path: str, watch: Watch, reading: _Reading, revision: int) -> None:
        """Note the revision of a read's answer, 0 without one."""
        reading.under_way -= 1
        if self._paths.get(path, {}).get(watch) is not reading:
            return  # called or ended meanwhile
        reading.since = revision if reading.since is None else min(reading.since, revision)
        if reading.changed > reading.since:
            self._fire(path, watch, reading)

    def changed(self, path: str, revision: int) -> None:
        """Call the watches of the reads that do not have the change of ``revision``."""
        for watch, reading in list(self._paths.get(path, {}).items()):
            if reading.since is not None and revision > reading.since:
                self._fire(path, watch, reading)
            elif reading.under_way:
                reading.changed = max(reading.changed, revision)

    def remove(self, path: str, watch: Watch) -> None:
        watches = self._paths.get(path)
        if watches is not None and watches.pop(watch, None) is not None and not watches:
            del self._paths[path]

    def clear(self) -> None:
        self._paths.clear()

    def _fire(self, path: str, watch: Watch, reading: _Reading) -> None:
        self.remove(path, watch)
        self._call(watch, path, reading.context)
