"""The unloaded parts whose figures are due to be read from the store. Pure."""

from collections.abc import Mapping
from itertools import islice

from gateway.services.index.figures import Part

RETRY_MS = 30_000
"""Time after which a part that could not be read is due again."""
REFRESH_MS = 900_000
"""Time after which a part that was read is due again: a change of it may not have been reported here."""


class Due:
    """Names of parts that no broker has loaded, in the order in which they are to be read."""

    def __init__(self) -> None:
        self._due: dict[str, None] = {}
        self._retry: dict[str, int] = {}
        """Times when they are due, ms, in ascending order."""
        self._read: dict[str, None] = {}
        """Parts that were read, the longest ago first."""

    def __contains__(self, name: object) -> bool:
        """Return whether the part is due at once: an answer that arrives now was requested before that."""
        return name in self._due

    def add(self, name: str) -> None:
        """Add a part that is due at once."""
        self.forget(name)
        self._due[name] = None

    def retry(self, name: str, at_ms: int) -> None:
        """Add a part that could not be read completely at ``at_ms``; it is due ``RETRY_MS`` later."""
        self._retry[name] = at_ms + RETRY_MS

    def mark_read(self, name: str) -> None:
        """Add a part that was read; it is due after ``REFRESH_MS``."""
        self._read[name] = None

    def forget(self, name: str) -> None:
        self._due.pop(name, None)
        self._retry.pop(name, None)
        self._read.pop(name, None)

    def pop(self, parts: Mapping[str, Part], now_ms: int, count: int) -> list[str]:
        """Remove and return at most ``count`` parts that are due now."""
        names = list(islice(self._due, count))
        for name, at in islice(self._retry.items(), count - len(names)):
            if at > now_ms:
                break
            names.append(name)
        for name in islice(self._read, count - len(names)):
            if parts[name].stored_at > now_ms - REFRESH_MS:
                break
            names.append(name)
        for name in names:
            self.forget(name)
        return names
