"""Finds the bookies that owe a writer answers for too long: ``progress`` over the clock of the loop."""

import asyncio
from collections.abc import Callable

from engine.ledger.quorum import AckTracker
from engine.ledger.settings import LedgerSettings
from engine.ledger.writing.ensemble import Ensemble
from engine.ledger.writing.progress import AckProgress

CHECKS = 4
"""Looks within the time that a bookie has."""


class AddWatch:
    """Looks while adds are under way. ``adds`` tells the entry below which all are sent, and whether any is under way;
    ``late`` is told of a bookie that is not too slow for its connection but for this ledger."""

    __slots__ = (
        "_adds",
        "_ensemble",
        "_late",
        "_loop",
        "_progress",
        "_timeout_s",
        "_timer",
        "_tracker",
        "running",
    )

    def __init__(
        self,
        settings: LedgerSettings,
        ensemble: Ensemble,
        tracker: AckTracker,
        adds: Callable[[], tuple[int, bool]],
        late: Callable[[int, str], None],
    ) -> None:
        self.running = False
        self._timeout_s = settings.add_entry_timeout_s
        self._ensemble = ensemble
        self._tracker = tracker
        self._adds = adds
        self._late = late
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._progress = AckProgress(
            len(ensemble.members), settings.add_entry_timeout_s, settings.add_entry_age_max_s
        )
        for position in range(len(ensemble.members)):
            self.seated(position)

    def start(self) -> None:
        """The first add after a pause is sent."""
        self.running = True
        self._progress.started(self._loop.time())
        self._look_later()

    def seated(self, position: int) -> None:
        """Another bookie sits at ``position``."""
        self._progress.seated(position, self._tracker.below(position), self._loop.time())

    def stop(self) -> None:
        self.running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(self._timeout_s / CHECKS, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        below = [
            None if channel is None else self._tracker.below(position)
            for position, channel in enumerate(self._ensemble.channels)
        ]
        late, owing = self._progress.check(below, self._adds()[0], now)
        for position in late:
            channel = self._ensemble.channels[position]
            if channel is None:
                continue
            if channel.silent_since(now - self._timeout_s):
                channel.take_down("hangs: nothing heard while adds wait")
            else:
                self._late(position, "no answer in time")
        if not self.running:
            return  # stopped by what was found
        if owing or self._adds()[1]:
            self._look_later()
        else:
            self.running = False
