"""Detection of bookies that owe a writer answers for too long: AckProgress with the event loop's clock."""

import asyncio
from collections.abc import Callable

from engine.ledger.quorum import AckTracker
from engine.ledger.settings import LedgerSettings
from engine.ledger.writing.ensemble import Ensemble
from engine.ledger.writing.progress import AckProgress

CHECKS = 4
"""Checks within the add timeout."""


class AddWatch:
    """Periodic check of the acknowledgements while adds are pending.

    ``adds`` returns the entry below which all are sent, and whether any add is pending. ``late(position, reason)`` is
    called for a bookie that answers on its connection but is too slow for this ledger.
    """

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
            self.replaced(position)

    def start(self) -> None:
        """Start checking: the first add after a pause was sent."""
        self.running = True
        self._progress.started(self._loop.time())
        self._schedule()

    def replaced(self, position: int) -> None:
        """Give the bookie that is new at ``position`` the full time."""
        self._progress.replaced(position, self._tracker.below(position), self._loop.time())

    def stop(self) -> None:
        self.running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        self._timer = self._loop.call_later(self._timeout_s / CHECKS, self._check)

    def _check(self) -> None:
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
                channel.take_down("hangs: nothing received while adds are pending")
            else:
                self._late(position, "no answer in time")
        if not self.running:
            return  # a failed bookie above ended the writer, which stopped this watch
        if owing or self._adds()[1]:
            self._schedule()
        else:
            self.running = False
