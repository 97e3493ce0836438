"""Ordered, pipelined appends to a ledger: the same frames to every bookie of the ensemble, confirmed in entry order.

Entries are confirmed below a mark that an ack quorum of bookies has passed, in enough regions where placement is by
regions. A failed bookie is replaced from the first unconfirmed entry on by compare-and-set of the metadata, and the
unconfirmed entries are sent again to its replacement. While there is no replacement, the writer continues without the
bookie, as long as every write set has an ack quorum.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from engine.base.errors import MisuseError
from engine.base.loop import last_call
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.ledger import metadata_update
from engine.ledger.access import LedgerAccess
from engine.ledger.cluster.channel import BookieChannel
from engine.ledger.digest import master_key
from engine.ledger.errors import (
    LedgerClosedError,
    LedgerError,
    LedgerFencedError,
    NotEnoughBookiesError,
    UnauthorizedError,
    WriteError,
)
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.quorum import AckTracker, write_set
from engine.ledger.reading.reader import LedgerReader
from engine.ledger.striping import StripedAdds
from engine.ledger.writing.add_watch import AddWatch
from engine.ledger.writing.ensemble import Ensemble
from engine.ledger.writing.explicit_lac_writer import ExplicitLacWriter
from engine.ledger.writing.pending_adds import PendingAdds
from engine.wire.bookie_commands import EFENCED, EOK, EUA, code_name
from engine.wire.kernels import build_adds

log = logging.getLogger(__name__)


AckObserver = Callable[[int, str, int, int], None]
"""Called with the ledger id, a bookie's id, and the first entry and the count of entries that it has stored."""


class WriterListener(Protocol):
    """Callbacks of a writer, made from the event loop and never from within ``append``."""

    def confirmed(self, below: int) -> None:
        """Handle that every entry id < ``below`` is on its ack quorum. ``below`` rises; called once per wake-up."""
        ...

    def failed(self, error: LedgerError) -> None:
        """Handle the end of the writer, called once: no further entry will be confirmed, and the outcome of those
        above the last ``confirmed`` is unknown."""
        ...


class LedgerWriter:
    """The only writer of a ledger, created by ``LedgerClient.create``. Set ``listener`` before the first append."""

    __slots__ = (
        "_access",
        "_advance_due",
        "_call_last",
        "_changing",
        "_channels",
        "_closing",
        "_confirmed",
        "_drained",
        "_ensemble",
        "_error",
        "_key",
        "_lac_writer",
        "_next",
        "_on_end",
        "_pending",
        "_striped",
        "_tasks",
        "_tracker",
        "_watch",
        "closed",
        "ledger_id",
        "length",
        "listener",
        "metadata",
        "on_ack",
    )

    def __init__(
        self,
        access: LedgerAccess,
        metadata: LedgerMetadata,
        listener: WriterListener | None = None,
        on_end: Callable[[int], None] | None = None,
    ) -> None:
        self.ledger_id = access.ledger_id
        self.listener = listener
        self.length = 0
        self.closed = False
        self.metadata = metadata
        self.on_ack: AckObserver | None = None
        """Observer of the bookies' answers; None while no entry is being traced."""
        self._access = access
        self._on_end = on_end
        self._key = master_key(access.password)
        self._call_last = last_call(asyncio.get_running_loop())
        self._tasks = TaskScope(f"ledger {access.ledger_id} writer", self._task_failed)
        self._tracker = AckTracker(
            metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
        )
        self._striped = metadata.ensemble_size > metadata.write_quorum
        self._pending = PendingAdds()
        self._next = 0
        self._confirmed = 0
        self._advance_due = False
        self._changing = False
        self._error: LedgerError | None = None
        self._drained: asyncio.Future[None] | None = None
        self._closing: asyncio.Future[None] | None = None
        self._ensemble = Ensemble(access, metadata, self, self._start_change)
        self._channels = self._ensemble.channels
        if access.settings.region_aware:
            self._tracker.require_regions(self._ensemble.regions, access.settings.regions_min)
        self._watch = AddWatch(
            access.settings, self._ensemble, self._tracker, self._sent, self._position_failed
        )
        lac_interval_s = access.settings.explicit_lac_interval_s
        self._lac_writer = ExplicitLacWriter(access, self._idle_lac) if lac_interval_s else None

    @property
    def last_confirmed(self) -> int:
        """Last entry id that is confirmed; -1 when none is."""
        return self._confirmed - 1

    @property
    def last_pushed(self) -> int:
        return self._next - 1

    @property
    def pending_bytes(self) -> int:
        """Payload bytes appended and not confirmed. The caller bounds them."""
        return self._pending.bytes

    @property
    def error(self) -> LedgerError | None:
        """The error that ended the writer, else None."""
        return self._error

    def append(self, run: Slice) -> int:
        """Send a run and return the id of its first entry. Sets ``run.ledger_id`` and ``run.first``, never waits.

        Each entry carries the LAC of this moment (I8). Raises LedgerClosedError after ``close``, and the terminal error
        after a failure.
        """
        if self.closed or self._error is not None:
            raise self._error or LedgerClosedError(f"ledger {self.ledger_id} is closed")
        if not run.count:
            raise MisuseError("a run must have at least one entry")
        first, before = self._next, self.length
        run.ledger_id = self.ledger_id
        run.first = first
        self._next = first + run.count
        self._pending.push(run, first, before)
        if self._striped:
            self.length = self._send_striped(run, 0, first, before, None)
        else:
            parts, self.length = build_adds(
                run, 0, run.count, self.ledger_id, first, self._confirmed - 1, before, self._key, 0
            )
            for channel in self._channels:
                if channel is not None:
                    channel.send_parts(parts)
        if not self._watch.running:
            self._watch.start()
        return first

    async def close(self) -> None:
        """Refuse appends, wait for the pending ones, write CLOSED. Cancel-safe and repeatable.

        After a failure other than fencing the ledger is closed behind the last confirmed entry, which settles that the
        later entries are not part of the ledger. Raises LedgerFencedError when another client recovers the ledger,
        LedgerError when CLOSED could not be written.
        """
        self.closed = True
        if self._closing is None:
            self._closing = self._tasks.spawn("close", self._close())
        await asyncio.shield(self._closing)

    def reader(self) -> LedgerReader:
        """Return a reader of this ledger up to the last confirmed entry."""
        return LedgerReader(self._access, self.metadata, writer=self)

    def abandon(self, error: LedgerError) -> None:
        """Stop without closing the ledger, as after a crash; a recovery closes it later."""
        self.closed = True
        self._fail(error)

    # Answers

    def add_answered(self, channel: BookieChannel, rc: int, first: int, count: int) -> None:
        position = self._ensemble.position(channel)
        if position < 0 or self._error is not None:
            return
        if rc == EOK and first + count <= self._next:
            self._tracker.acked(position, first, count)
            if self.on_ack is not None:
                self.on_ack(self.ledger_id, self._ensemble.members[position], first, count)
            if not self._advance_due:
                self._advance_due = True
                self._call_last(self._advance)
        elif rc == EFENCED:
            self._fail(LedgerFencedError(f"ledger {self.ledger_id} is fenced"))
        elif rc == EUA:
            self._fail(UnauthorizedError(f"ledger {self.ledger_id}: wrong password"))
        else:  # also for an answer to entries that were never sent
            self._position_failed(position, f"answered {code_name(rc)} to entry {first}")

    def channel_down(self, channel: BookieChannel, reason: str) -> None:
        position = self._ensemble.position(channel)
        if position >= 0 and self._error is None:
            self._position_failed(position, reason)

    def _advance(self) -> None:
        self._advance_due = False
        if self._changing or self._error is not None:
            return  # a confirmation now would move the start of the new segment (I12)
        below = self._tracker.confirmed(self._next)  # in order, without a gap (I10)
        if below > self._confirmed:  # the confirmed mark never falls (I9)
            self._confirmed = below
            self._pending.confirmed(below)
            if self.listener is not None:
                self.listener.confirmed(below)
        self._check_drained()

    def _sent(self) -> tuple[int, bool]:
        """Return the entry below which all are sent, and whether any of them is not confirmed."""
        return self._next, self._confirmed < self._next

    def _idle_lac(self) -> tuple[int, LedgerMetadata]:
        """Return the LAC and the metadata; -1 as LAC while adds are pending, which carry it."""
        return self._confirmed - 1 if self._next == self._confirmed else -1, self.metadata

    # Sending

    def _send_striped(
        self, run: Slice, start: int, first: int, length: int, only: int | None
    ) -> int:
        """Send each entry to its write set, or only to position ``only`` of it. Return the length after the run."""
        parts, length = build_adds(
            run, start, run.count, self.ledger_id, first, self._confirmed - 1, length, self._key, 0
        )
        size, quorum = self.metadata.ensemble_size, self.metadata.write_quorum
        single = run.count - start == 1
        adds = None if single else StripedAdds(parts, run.spans[2 * start :], first, size, quorum)
        positions = write_set(first, size, quorum) if single else range(size)
        for position in positions:
            channel = self._channels[position]
            if channel is not None and only in (None, position):
                channel.send_parts(parts if adds is None else adds.of(position))
        return length

    def _resend(self, position: int, below: int) -> None:
        """Send all entries from ``below`` on to the bookie that is new at ``position``."""
        channel = self._channels[position]
        for run, start, first, length in self._pending.from_entry(below):
            if self._striped:
                self._send_striped(run, start, first, length, position)
            elif channel is not None:
                parts, _ = build_adds(
                    run,
                    start,
                    run.count,
                    self.ledger_id,
                    first,
                    self._confirmed - 1,
                    length,
                    self._key,
                    0,
                )
                channel.send_parts(parts)

    # Failures and ensemble changes

    def _position_failed(self, position: int, reason: str) -> None:
        self._ensemble.fail(position, reason)
        self._start_change()

    def _start_change(self) -> None:
        if self._changing or self._error is not None:
            return
        ensemble = self._ensemble
        if (
            self._access.settings.delay_ensemble_change
            and ensemble.enough()
            and not ensemble.refused()
        ):
            return  # the other bookies suffice for every ack quorum
        if self.closed and self._confirmed == self._next:
            return  # the writer is closing and no entry needs the replacement
        self._changing = True
        self._tasks.spawn("ensemble change", self._change_ensemble())

    async def _change_ensemble(self) -> None:
        """Replace failed bookies until none is left or no replacement is available. No entry is confirmed meanwhile."""
        access, ensemble = self._access, self._ensemble
        while ensemble.failed and self._error is None:
            members, positions = ensemble.changed()
            if not positions:
                break
            start = self._confirmed  # does not change while ``_changing`` is set (I12)
            try:
                self.metadata = await metadata_update.change_ensemble(
                    access.store,
                    self.ledger_id,
                    self.metadata,
                    start,
                    tuple(members),
                    access.settings.metadata_timeout_s,
                )
            except LedgerError as e:
                self._fail(e)
                return
            if self._error is not None:
                return
            for position in positions:
                self._tracker.replace(position, start)  # (I11)
                ensemble.replace(position, members[position])
                self._watch.replaced(position)
                self._resend(position, start)
        self._changing = False
        if ensemble.failed and not ensemble.enough():
            reasons = "; ".join(f"{ensemble.members[p]}: {r}" for p, r in ensemble.failed.items())
            self._fail(NotEnoughBookiesError(f"ledger {self.ledger_id}: {reasons}"))
            return
        if ensemble.failed:
            ensemble.retry_later()
        self._advance()

    def _fail(self, error: LedgerError) -> None:
        if self._error is not None:
            return
        if not self._changing:
            self._advance()  # answers that arrived before the failure still count
        self._error = error
        self._release()
        if not self.closed:
            log.info("ledger writer failed ledger=%d error=%s", self.ledger_id, error)
        self._check_drained()
        if self.listener is not None:
            self.listener.failed(error)

    def _task_failed(self, name: str, error: BaseException) -> None:
        if isinstance(error, LedgerError):
            return  # already raised to the caller that awaited the close
        log.error("ledger writer task failed name=%s", name, exc_info=error)
        self._fail(WriteError(f"{name}: {error!r}"))

    def _release(self) -> None:
        self._ensemble.release()
        self._watch.stop()
        if self._lac_writer is not None:
            self._lac_writer.stop()
        if self._on_end is not None:
            self._on_end(self.ledger_id)
            self._on_end = None

    def _settled(self) -> bool:
        """Return whether no further entry will be confirmed and no ensemble change is in progress."""
        return self._error is not None or (self._confirmed == self._next and not self._changing)

    def _check_drained(self) -> None:
        if self._drained is not None and not self._drained.done() and self._settled():
            self._drained.set_result(None)

    async def _close(self) -> None:
        if not self._settled():
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained
        if isinstance(self._error, LedgerFencedError | LedgerClosedError):
            raise self._error
        last = self._confirmed - 1  # (I1)
        length = self._pending.length_below(self._confirmed, self.length)
        self._release()
        self.metadata = await metadata_update.write_closed(
            self._access.store,
            self.ledger_id,
            self.metadata,
            last,
            length,
            self._access.settings.metadata_timeout_s,
        )
        self.length = length
