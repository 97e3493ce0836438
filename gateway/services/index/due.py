"""Which parts at rest are to be read from the store, and when again. Pure."""

from collections.abc import Mapping
from itertools import islice

from gateway.services.index.figures import Part

RETRY_MS = 30_000
"""What could not be read is tried again after this time."""
REFRESH_MS = 900_000
"""And what was read: somebody may have changed it whom nobody here heard of."""


class Due:
    """Names of parts that no broker has loaded, in the order in which they are to be read."""

    def __init__(self) -> None:
        self._due: dict[str, None] = {}
        self._retry: dict[str, int] = {}
        self._rested: dict[str, None] = {}
        """Parts that were read, the longest ago first."""

    def __contains__(self, name: object) -> bool:
        """Whether it is to be read at once: what is read of it now was asked for before."""
        return name in self._due

    def ask(self, name: str) -> None:
        """To be read at once."""
        self.forget(name)
        self._due[name] = None

    def retry(self, name: str, at_ms: int) -> None:
        """It could not be read whole: again later."""
        self._retry[name] = at_ms + RETRY_MS

    def rested(self, name: str) -> None:
        """It was read: again after ``REFRESH_MS``."""
        self._rested[name] = None

    def forget(self, name: str) -> None:
        self._due.pop(name, None)
        self._retry.pop(name, None)
        self._rested.pop(name, None)

    def take(self, parts: Mapping[str, Part], now_ms: int, count: int) -> list[str]:
        """At most ``count`` that are to be read now, which are forgotten here."""
        names = list(islice(self._due, count))
        for name, at in islice(self._retry.items(), count - len(names)):
            if at > now_ms:
                break
            names.append(name)
        for name in islice(self._rested, count - len(names)):
            if parts[name].taken > now_ms - REFRESH_MS:
                break
            names.append(name)
        for name in names:
            self.forget(name)
        return names
