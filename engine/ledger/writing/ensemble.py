"""The bookies that a ledger is being written to, by position, and the connections to them."""

import asyncio
import logging
from collections.abc import Callable

from engine.ledger.access import LedgerAccess
from engine.ledger.cluster.channel import AddSink, BookieChannel
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.quorum import write_set

log = logging.getLogger(__name__)


class Ensemble:
    """Members of the current ensemble and a channel to each; the channel is None where the bookie failed.

    ``channels`` and ``regions``, the regions of the members, are changed in place. ``failed`` holds, until the
    replacement, why the bookie at a position no longer counts. ``on_chance`` is called when a replacement for a failed
    bookie may have become available.
    """

    __slots__ = (
        "_ack_quorum",
        "_choice",
        "_ledger_id",
        "_links",
        "_loop",
        "_on_chance",
        "_regions_min",
        "_registrations",
        "_retry",
        "_sink",
        "_stop_watching",
        "_suspect_s",
        "_write_quorum",
        "channels",
        "failed",
        "members",
        "regions",
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
        self.regions = access.bookies.choice.regions(self.members)
        self._regions_min = access.settings.regions_min if access.settings.region_aware else 1
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
            self._attach(position)
        self._stop_watching = self._registrations.on_change(self._chance)

    def position(self, channel: BookieChannel) -> int:
        """Return the channel's position in the current ensemble; -1 when its answers no longer count (I11)."""
        for position, current in enumerate(self.channels):
            if current is channel:
                return position
        return -1

    def enough(self) -> bool:
        """Return whether every write set still has an ack quorum of bookies that have not failed, in enough regions
        (I41)."""
        for entry in range(len(self.members)):
            answering = [
                position
                for position in write_set(entry, len(self.members), self._write_quorum)
                if self.channels[position] is not None
            ]
            regions = {self.regions[position] for position in answering}
            if len(answering) < self._ack_quorum or len(regions) < self._regions_min:
                return False
        return True

    def refused(self) -> bool:
        """Return whether a failed bookie is read-only: it will not return soon, so a change is not delayed."""
        return any(self.members[p] in self._registrations.read_only for p in self.failed)

    def fail(self, position: int, reason: str) -> None:
        """Record that the bookie at ``position`` no longer counts."""
        bookie = self.members[position]
        log.info("bookie fails ledger=%d bookie=%s reason=%s", self._ledger_id, bookie, reason)
        self._choice.failed(bookie)
        self._detach(position)
        self.failed[position] = reason

    def changed(self) -> tuple[list[str], list[int]]:
        """Return the ensemble with replacements for failed bookies, as far as there are any, and their positions."""
        chosen = self._choice.replacements(sorted(self.failed), self.members, self._write_quorum)
        members = list(self.members)
        for position, bookie in chosen.items():
            members[position] = bookie
        return members, list(chosen)

    def replace(self, position: int, bookie: str) -> None:
        """Replace the failed bookie at ``position`` by ``bookie``."""
        del self.failed[position]
        self.members[position] = bookie
        (self.regions[position],) = self._choice.regions([bookie])
        self._attach(position)

    def retry_later(self) -> None:
        """Schedule another attempt for when the bookies that are suspect now may be chosen again."""
        if self._retry is None:
            self._retry = self._loop.call_later(self._suspect_s, self._chance)

    def release(self) -> None:
        """Stop the watch and the timer, and release all channels."""
        self._stop_watching()
        self._stop_retry()
        for position in range(len(self.channels)):
            self._detach(position)

    def _chance(self) -> None:
        self._stop_retry()
        if self.failed:
            self._on_chance()

    def _stop_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _attach(self, position: int) -> None:
        bookie = self.members[position]
        channel = self._links.channel(bookie)
        self.channels[position] = channel
        if channel.down is None:
            channel.add_writer(self._ledger_id, self._sink)
        else:
            # Not called from here: the writer may be in its constructor or in the middle of a change.
            self._loop.call_soon(self._sink.channel_down, channel, channel.down)
        self._choice.count(bookie, 1)

    def _detach(self, position: int) -> None:
        channel = self.channels[position]
        if channel is not None:
            self.channels[position] = None
            channel.remove_writer(self._ledger_id, self._sink)
            self._choice.count(channel.bookie_id, -1)
