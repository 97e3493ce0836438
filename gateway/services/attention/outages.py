"""Clients that left together: one event, not a problem for each subscription that has lost its consumer. Pure.

How many clients there are is compared with the minute before. While fewer than ``BACK_SHARE`` of them are back, what
began with the event is its consequence; after ``KEPT_MS`` it is a state of its own.
"""

from collections import deque
from typing import NamedTuple

WINDOW_MS = 60_000
SAMPLE_MS = 1_000
LEFT_MIN = 5
"""Fewer clients that leave are no event."""
LEFT_SHARE = 0.5
"""So many of all have to leave at once ..."""
LEFT_SHARE_OF_FAULT = 0.1
"""... or so many when a part was away at that time."""
BACK_SHARE = 0.9
KEPT_MS = 600_000
FAULT_MS = 30_000
"""A part that was away so shortly before is why."""


class Outage(NamedTuple):
    """``at``: when clients began to leave, ms. ``before``: clients until then, ``lowest``: when most had left."""

    at: int
    before: int
    lowest: int
    now: int
    why: str
    """Goes on after "left"; empty when nothing is known."""

    @property
    def left(self) -> int:
        return self.before - self.lowest

    @property
    def back(self) -> int:
        return self.now - self.lowest


class Outages:
    """``look`` once a second, or more often. ``current``: the event that is not over yet."""

    def __init__(self) -> None:
        self.current: Outage | None = None
        self._samples: deque[tuple[int, int, int]] = deque()
        """Time, producers, consumers."""
        self._fault = ("", 0)
        self._quiet_since: int | None = None

    def look(self, now_ms: int, producers: int, consumers: int, fault: str) -> None:
        """``fault``: the part that is away now, as ``Outage.why``; empty: none is."""
        if self._quiet_since is None:
            self._quiet_since = (
                now_ms  # whoever was there before this process is not known to have left
            )
        if fault:
            self._fault = (fault, now_ms)
            self._quiet_since = now_ms
        clients = producers + consumers
        self._keep(now_ms, producers, consumers)
        event = self.current
        if event is None:
            self._begin(now_ms, clients)
        elif clients >= event.before * BACK_SHARE or now_ms - event.at > KEPT_MS:
            self.current = None
            self._samples.clear()
            self._keep(now_ms, producers, consumers)
        else:
            why = event.why or self._why(event.at)
            lowest = min(event.lowest, clients)
            self.current = event._replace(lowest=lowest, now=clients, why=why)
        if self.current is not None:
            self._quiet_since = now_ms

    def is_recent(self, now_ms: int) -> bool:
        """Whether clients left together, a part was away, or this process began, within ``KEPT_MS``."""
        return self._quiet_since is None or now_ms - self._quiet_since < KEPT_MS

    def producers_before(self) -> int:
        """The most producers within the last minute."""
        return max((producers for _, producers, _ in self._samples), default=0)

    def _keep(self, now_ms: int, producers: int, consumers: int) -> None:
        samples = self._samples
        if samples and now_ms - samples[-1][0] < SAMPLE_MS:
            return  # looked at more often than once a second: the last one stays, or none would grow old
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
        why, seen = self._fault
        return why if why and abs(at - seen) <= FAULT_MS else ""
