"""Disconnections of many clients at once, reported as one event instead of a problem of each subscription. Pure.

The number of connected clients is compared with that of the last minute. Until ``BACK_SHARE`` of the clients have
reconnected, problems that began with the event count as its consequences; after ``KEPT_MS`` they are reported on their
own.
"""

from collections import deque
from typing import NamedTuple

WINDOW_MS = 60_000
SAMPLE_MS = 1_000
LEFT_MIN = 5
"""The smallest number of clients that makes an event."""
LEFT_SHARE = 0.5
"""The smallest share of all clients that makes an event when no part was down ..."""
LEFT_SHARE_OF_FAULT = 0.1
"""... and when one was down at that time."""
BACK_SHARE = 0.9
KEPT_MS = 600_000
FAULT_MS = 30_000
"""A part that was down within this time of the event counts as its reason."""
CLOCKS_MS = 5_000
"""Time before an event within which a problem's begin, by its broker's clock, is counted as part of it."""


class Outage(NamedTuple):
    """Disconnection of many clients.

    ``at``: when it began, ms since the epoch. ``before``, ``lowest``, ``now``: connected clients before it, at its
    worst, and now.
    """

    at: int
    before: int
    lowest: int
    now: int
    why: str
    """The reason, which continues a sentence that ends with "disconnected"; empty: unknown."""

    @property
    def left(self) -> int:
        return self.before - self.lowest

    @property
    def back(self) -> int:
        return self.now - self.lowest


class Outages:
    """Detection of such events; ``update`` is called at least once a second. ``current``: the event that lasts."""

    def __init__(self) -> None:
        self.current: Outage | None = None
        self._samples: deque[tuple[int, int, int]] = deque()
        """Time in ms, producers, consumers."""
        self._fault = ("", 0)
        self._quiet_since: int | None = None

    def update(self, now_ms: int, producers: int, consumers: int, fault: str) -> None:
        """Take a sample; ``fault``: the part that is down now, as ``Outage.why`` has it; empty: none."""
        if self._quiet_since is None:
            # Clients that disconnected before this process started left no sample: no calm is assumed.
            self._quiet_since = now_ms
        if fault:
            self._fault = (fault, now_ms)
            self._quiet_since = now_ms
        clients = producers + consumers
        self._add_sample(now_ms, producers, consumers)
        event = self.current
        if event is None:
            self._begin(now_ms, clients)
        elif clients >= event.before * BACK_SHARE or now_ms - event.at > KEPT_MS:
            self.current = None
            self._samples.clear()
            self._add_sample(now_ms, producers, consumers)
        else:
            why = event.why or self._why(event.at)
            lowest = min(event.lowest, clients)
            self.current = event._replace(lowest=lowest, now=clients, why=why)
        if self.current is not None:
            self._quiet_since = now_ms

    def is_recent(self, now_ms: int) -> bool:
        """Return whether an event or a fault lasted, or this process started, within ``KEPT_MS``."""
        return self._quiet_since is None or now_ms - self._quiet_since < KEPT_MS

    def producers_before(self) -> int:
        """Return the largest number of producers within the last minute."""
        return max((producers for _, producers, _ in self._samples), default=0)

    def _add_sample(self, now_ms: int, producers: int, consumers: int) -> None:
        samples = self._samples
        if samples and now_ms - samples[-1][0] < SAMPLE_MS:
            return  # replacing the newest sample at every call would leave none that is a minute old
        samples.append((now_ms, producers, consumers))
        while now_ms - samples[0][0] > WINDOW_MS:
            samples.popleft()

    def _begin(self, now_ms: int, clients: int) -> None:
        counts = [(at, producers + consumers) for at, producers, consumers in self._samples]
        before = max(count for _, count in counts)
        share = LEFT_SHARE_OF_FAULT if self._why(now_ms) else LEFT_SHARE
        if before - clients < max(LEFT_MIN, before * share):
            return
        top = max(at for at, count in counts if count == before)
        at = min((at for at, _ in counts if at > top), default=now_ms)
        self.current = Outage(at, before, clients, clients, self._why(at))

    def _why(self, at: int) -> str:
        why, seen_ms = self._fault
        return why if why and abs(at - seen_ms) <= FAULT_MS else ""
