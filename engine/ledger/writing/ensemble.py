"""The bookies that a ledger is being written to, by position, and the connection to each: none where one failed."""

import asyncio
import logging
from collections.abc import Callable

from engine.ledger.access import LedgerAccess
from engine.ledger.cluster.channel import AddSink, BookieChannel
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.quorum import holds

log = logging.getLogger(__name__)


class Ensemble:
    """``channels`` is changed in place. ``failed``: why the bookie at a position counts no more, until it is replaced.

    ``on_chance`` is called when there may be somebody for a failed bookie's place.
    """

    __slots__ = (
        "_ack_quorum",
        "_choice",
        "_ledger_id",
        "_links",
        "_loop",
        "_on_chance",
        "_registrations",
        "_retry",
        "_sink",
        "_stop_listening",
        "_suspect_s",
        "_write_quorum",
        "channels",
        "failed",
        "members",
    )

    def __init__(
        self,
        access: LedgerAccess,
        metadata: LedgerMetadata,
        sink: AddSink,
        on_chance: Callable[[], None],
    ) -> None:
        self.members = list(metadata.segments[-1].bookies)
        self.channels: list[BookieChannel | None] = [None] * len(self.members)
        self.failed: dict[int, str] = {}
        self._ledger_id = access.ledger_id
        self._registrations = access.bookies.registrations
        self._links = access.bookies.links
        self._choice = access.bookies.choice
        self._suspect_s = access.settings.suspect_s
        self._write_quorum = metadata.write_quorum
        self._ack_quorum = metadata.ack_quorum
        self._sink = sink
        self._on_chance = on_chance
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        for position in range(len(self.members)):
            self._seat(position)
        self._stop_listening = self._registrations.on_change(self._chance)

    def position(self, channel: BookieChannel) -> int:
        """Where the channel sits in the present ensemble; -1: its answers count no more (I11)."""
        for position, sitting in enumerate(self.channels):
            if sitting is channel:
                return position
        return -1

    def enough(self) -> bool:
        """Whether every write set still has an ack quorum of connected bookies."""
        size, quorum = len(self.members), self._write_quorum
        for entry in range(size):
            seated = sum(
                channel is not None and holds(position, entry, size, quorum)
                for position, channel in enumerate(self.channels)
            )
            if seated < self._ack_quorum:
                return False
        return True

    def refused(self) -> bool:
        """Whether a failed bookie is read-only: it will not come back soon, so a change is not put off."""
        return any(self.members[p] in self._registrations.read_only for p in self.failed)

    def fail(self, position: int, reason: str) -> None:
        """The bookie at ``position`` counts no more."""
        bookie = self.members[position]
        log.info("bookie fails ledger=%d bookie=%s reason=%s", self._ledger_id, bookie, reason)
        self._choice.failed(bookie)
        self._unseat(position)
        self.failed[position] = reason

    def changed(self) -> tuple[list[str], list[int]]:
        """The ensemble with other bookies for the failed ones, as far as there are any, and where they sit."""
        chosen = self._choice.replacements(sorted(self.failed), self.members, self._write_quorum)
        members = list(self.members)
        for position, bookie in chosen.items():
            members[position] = bookie
        return members, list(chosen)

    def replace(self, position: int, bookie: str) -> None:
        """``bookie`` takes the place of the failed one at ``position``."""
        del self.failed[position]
        self.members[position] = bookie
        self._seat(position)

    def retry_later(self) -> None:
        """Who is suspect now may do later."""
        if self._retry is None:
            self._retry = self._loop.call_later(self._suspect_s, self._chance)

    def release(self) -> None:
        """Let go of everything."""
        self._stop_listening()
        self._stop_retry()
        for position in range(len(self.channels)):
            self._unseat(position)

    def _chance(self) -> None:
        self._stop_retry()
        if self.failed:
            self._on_chance()

    def _stop_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _seat(self, position: int) -> None:
        bookie = self.members[position]
        channel = self._links.channel(bookie)
        self.channels[position] = channel
        if channel.down is None:
            channel.add_writer(self._ledger_id, self._sink)
        else:
            self._loop.call_soon(self._sink.channel_down, channel, channel.down)
        self._choice.count(bookie, 1)

    def _unseat(self, position: int) -> None:
        channel = self.channels[position]
        if channel is not None:
            self.channels[position] = None
            channel.remove_writer(self._ledger_id, self._sink)
            self._choice.count(channel.bookie_id, -1)
