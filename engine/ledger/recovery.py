"""Recovery of a ledger whose writer is gone: fence, find the last entry, make it durable again, close.

1. Set the metadata to IN_RECOVERY by compare-and-set: the old writer can no longer change the ensemble (I13).
2. Fence the last ensemble until every possible ack quorum contains a fenced bookie: no add can be confirmed any more
   (I7).
3. Read forward from the highest LAC known, fencing with every read (I20) and with the ledger's key (I25).
   An entry that any bookie holds is written back to its ack quorum (I3). An entry is absent only when so many fenced
   bookies answer that it is missing that it cannot have been confirmed (I1, I15). Errors, timeouts, damaged copies and
   bookies that do not know the ledger prove nothing.
4. Close by compare-and-set (I14). A close by another client is kept (I5).

Entries are written back as they were stored, so their LAC field never rises above what the writer knew (I8). Until
step 4 nothing is decided: an attempt that fails or is stopped leaves the ledger to the next attempt (I17).
"""

import asyncio
import logging

from engine.ledger import metadata_update
from engine.ledger.access import LedgerAccess
from engine.ledger.cluster.channel import BookieChannel
from engine.ledger.digest import Digest, DigestType, header_of, master_key
from engine.ledger.errors import LedgerRecoveryError, UnauthorizedError
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.ledger.quorum import covered, write_set
from engine.ledger.reading.read_op import MISSING, RangeRead
from engine.wire.bookie_commands import (
    DO_FENCING,
    EFENCED,
    ENOENTRY,
    EOK,
    EUA,
    HIGH_PRIORITY,
    LAST_ENTRY,
    RECOVERY_ADD,
    add_request,
)

log = logging.getLogger(__name__)

FENCE_URGENT = DO_FENCING | HIGH_PRIORITY
RESEND_MAX = 3


async def recover(access: LedgerAccess, known: LedgerMetadata | None = None) -> LedgerMetadata:
    """Fence and close a ledger and return its closed metadata, at once when it is closed already. ``known`` is its
    metadata as just read.

    Raises NoSuchLedgerError, UnauthorizedError, LedgerRecoveryError (nothing is lost; a later attempt may succeed). A
    cancellation at any point leaves the ledger IN_RECOVERY for another recovery to finish.
    """
    ledger_id, store, settings = access.ledger_id, access.store, access.settings
    metadata = await metadata_update.start_recovery(
        store, ledger_id, known, settings.metadata_timeout_s
    )
    if metadata.state is LedgerState.CLOSED:
        return metadata
    recovery = _Recovery(access, metadata)
    try:
        async with asyncio.timeout(settings.recovery_timeout_s):
            last, length = await recovery.run()
    except TimeoutError:
        raise LedgerRecoveryError(
            f"ledger {ledger_id}: no verdict within {settings.recovery_timeout_s} s"
        ) from None
    closed = await metadata_update.finish_recovery(
        store, ledger_id, metadata, recovery.metadata, last, length, settings.metadata_timeout_s
    )
    log.info(
        "ledger recovered ledger=%d last_entry=%d rewritten=%d",
        ledger_id,
        closed.last_entry,
        recovery.rewritten,
    )
    return closed


class _Recovery:
    """State of one attempt: ``metadata`` with the segments it adds, ``rewritten`` counts the entries written back."""

    def __init__(self, access: LedgerAccess, metadata: LedgerMetadata) -> None:
        self.metadata = metadata
        self.rewritten = 0
        self._ledger_id = access.ledger_id
        self._access = access
        self._links = access.bookies.links
        self._settings = access.settings
        self._key = master_key(access.password)
        self._digest = Digest(metadata.digest or DigestType.CRC32, access.password)
        self._last_segment = metadata.segments[-1]
        self._members = list(self._last_segment.bookies)
        self._size = metadata.ensemble_size
        self._quorum = metadata.write_quorum
        self._acks = metadata.ack_quorum

    async def run(self) -> tuple[int, int]:
        """Fence, read and write back; return the last entry and the length of the ledger."""
        lac, length = await self._fence()
        entry = lac + 1
        window = 1
        while True:
            entries = await self._read_window(entry, window)
            if entries:
                await self._write_back(entry, entries)
                length = header_of(entries[-1]).length
                entry += len(entries)
            if len(entries) < window:
                break
            window = min(window * 2, self._settings.recovery_window)
        last = entry - 1
        if last == lac and lac >= 0:
            length = await self._length_of(lac)
        elif last < 0:
            length = 0
        return last, length

    async def _fence(self) -> tuple[int, int]:
        """Fence until every possible ack quorum contains a fenced bookie; return the highest LAC in the answers and
        length 0. The LAC is at least the last entry of the previous segment."""
        ops = []
        for bookie in self._last_segment.bookies:
            op = RangeRead(self._ledger_id, LAST_ENTRY, LAST_ENTRY + 1, self._digest)
            op.request(self._links.channel(bookie), (LAST_ENTRY,), DO_FENCING, self._key)
            ops.append(op)
        try:
            while True:
                self._refuse_unauthorized(ops)
                answered = [op.codes[0] == EOK or op.codes[0] in MISSING for op in ops]
                if covered(answered, self._quorum, self._acks):
                    break
                await self._wait_some(ops, "too few bookies of the last ensemble can be fenced")
        finally:
            for op in ops:
                op.close()
        lacs = [header_of(op.stored()).lac for op in ops if op.codes[0] == EOK]
        # A segment begins behind the last confirmed entry, so all entries before it are confirmed (I16).
        return max([self._last_segment.first - 1, -1, *lacs]), 0

    def _refuse_unauthorized(self, ops: list[RangeRead]) -> None:
        if any(op.codes[0] == EUA for op in ops):
            raise UnauthorizedError(f"ledger {self._ledger_id}: wrong password")

    async def _wait_some(self, ops: list[RangeRead], complaint: str) -> None:
        """Wait for another answer. Raises LedgerRecoveryError with ``complaint`` when none arrives within a read
        timeout."""
        timeout = self._settings.read_entry_timeout_s
        waiting = [op.done for op in ops if not op.done.done()]
        if waiting:
            done, _ = await asyncio.wait(
                waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if done:
                return
        # A connection that hangs would hold up later attempts as well; after its end they use a new one.
        for op in ops:
            for channel in op.silent_channels(asyncio.get_running_loop().time() - timeout):
                channel.take_down("hangs: nothing received since recovery sent a request")
        raise LedgerRecoveryError(f"ledger {self._ledger_id}: {complaint}")

    async def _read_window(self, first: int, count: int) -> list[bytes]:
        """Return the stored entries from ``first`` on, at most ``count``; fewer means the next one is proven absent."""
        reads = [self._read_all(entry) for entry in range(first, first + count)]
        entries: list[bytes] = []
        try:
            for entry, ops in enumerate(reads, first):
                stored = await self._verdict(entry, ops)
                if stored is None:
                    break
                entries.append(stored)
        finally:
            for ops in reads:
                for op in ops:
                    op.close()
        return entries

    def _read_all(self, entry: int) -> list[RangeRead]:
        """Send fencing reads of one entry to its whole write set, as it was when recovery began."""
        ops = []
        for position in write_set(entry, self._size, self._quorum):
            op = RangeRead(self._ledger_id, entry, entry + 1, self._digest)
            channel = self._links.channel(self._last_segment.bookies[position])
            op.request(channel, (entry,), FENCE_URGENT, self._key)
            ops.append(op)
        return ops

    async def _verdict(self, entry: int, ops: list[RangeRead]) -> bytes | None:
        """Return the stored entry, or None when it cannot have been confirmed. Raises LedgerRecoveryError when neither
        is certain."""
        absent = self._quorum - self._acks + 1
        while True:
            self._refuse_unauthorized(ops)
            for op in ops:
                if op.codes[0] == EOK:
                    return op.stored()
            # ENOLEDGER does not count: a fenced bookie knows the ledger, so one that does not has lost or deleted it.
            if sum(op.codes[0] == ENOENTRY for op in ops) >= absent:
                return None
            await self._wait_some(ops, f"too few bookies answer whether entry {entry} exists")

    async def _length_of(self, entry: int) -> int:
        """Return the ledger's length up to ``entry``, read from the entry itself in its segment.

        0 when no bookie returns the entry: it is confirmed, so the ledger may be closed without its length.
        """
        bookies = self.metadata.bookies(entry)
        ops = []
        for position in write_set(entry, self._size, self._quorum):
            op = RangeRead(self._ledger_id, entry, entry + 1, self._digest)
            op.request(self._links.reading(bookies[position]), (entry,))
            ops.append(op)
        try:
            while True:
                for op in ops:
                    if op.codes[0] == EOK:
                        return header_of(op.stored()).length
                await self._wait_some(ops, f"no bookie returns the last entry {entry}")
        except LedgerRecoveryError as e:
            log.warning("length of a recovered ledger is not known reason=%s", e)
            return 0
        finally:
            for op in ops:
                op.close()

    async def _write_back(self, first: int, entries: list[bytes]) -> None:
        """Make each entry durable on an ack quorum of its write set, replacing bookies that fail."""
        op = _WriteBack(self, first, entries)
        try:
            op.send()
            while not op.complete():
                op.wake.clear()
                if op.failed:
                    self._replace(op, first)
                await op.wait(self._settings.add_entry_timeout_s)
            self.rewritten += len(entries)
        finally:
            op.close()

    def _replace(self, op: "_WriteBack", first: int) -> None:
        """Replace the failed bookies as far as others are available. The change is stored when the ledger is closed.

        Raises LedgerRecoveryError when there is no replacement and an ack quorum is out of reach.
        """
        choice = self._access.bookies.choice
        for position in op.newly_failed():
            choice.failed(self._members[position])
        chosen = choice.replacements(sorted(op.failed), self._members, self._quorum)
        if not chosen:
            if not op.can_complete():
                raise LedgerRecoveryError(
                    f"ledger {self._ledger_id}: too few bookies to write entry {first} back to"
                )
            return
        for position, bookie in chosen.items():
            self._members[position] = bookie
            del op.failed[position]
            op.restart(position)
        self.metadata = self.metadata.with_ensemble(first, tuple(self._members))

    def member(self, position: int) -> BookieChannel:
        return self._links.channel(self._members[position])

    def frame(self, stored: bytes) -> bytes:
        flags = RECOVERY_ADD | HIGH_PRIORITY
        entry_id = header_of(stored).entry_id
        return add_request(self._ledger_id, entry_id, self._key, stored, flags)

    @property
    def ledger_id(self) -> int:
        return self._ledger_id

    def shape(self) -> tuple[int, int, int]:
        return self._size, self._quorum, self._acks


class _WriteBack:
    """Recovery adds of one window of entries. Implements AddSink."""

    def __init__(self, recovery: _Recovery, first: int, entries: list[bytes]) -> None:
        self.wake = asyncio.Event()
        self.failed: dict[int, None] = {}
        self._loop = asyncio.get_running_loop()
        self._recovery = recovery
        self._first = first
        self._entries = entries
        self._size, self._quorum, self._acks = recovery.shape()
        self._channels: list[BookieChannel | None] = [None] * self._size
        self._last_received = [0.0] * self._size
        self._reported: dict[int, None] = {}
        self._acked: list[dict[int, None]] = [{} for _ in entries]
        self._resent = 0

    def send(self) -> None:
        for position in range(self._size):
            self.restart(position)

    def restart(self, position: int) -> None:
        """Send the entries that ``position`` holds to the bookie that is there now."""
        self._reported.pop(position, None)
        for acked in self._acked:
            acked.pop(position, None)
        channel = self._recovery.member(position)
        self._channels[position] = channel
        self._last_received[position] = self._loop.time()
        if channel.down is not None:
            self.channel_down(channel, channel.down)
            return
        channel.add_writer(self._recovery.ledger_id, self)
        for i in range(len(self._entries)):
            self._send(position, i)

    def _send(self, position: int, i: int) -> None:
        channel = self._channels[position]
        if channel is not None and position in write_set(self._first + i, self._size, self._quorum):
            channel.send(self._recovery.frame(self._entries[i]))

    async def wait(self, timeout_s: float) -> None:
        """Wait for a change. Bookies that owe answers and sent none for ``timeout_s`` are recorded as failed."""
        owing = [p for p in range(self._size) if self._owes(p)]
        until = min((self._last_received[p] for p in owing), default=self._loop.time()) + timeout_s
        try:
            async with asyncio.timeout_at(until):
                await self.wake.wait()
        except TimeoutError:
            for position in owing:
                if self._last_received[position] + timeout_s <= self._loop.time():
                    self.failed[position] = None

    def newly_failed(self) -> list[int]:
        """Return the failed positions that no earlier call returned."""
        positions = [position for position in self.failed if position not in self._reported]
        self._reported.update(dict.fromkeys(positions))
        return positions

    def _owes(self, position: int) -> bool:
        if self._channels[position] is None or position in self.failed:
            return False
        return any(
            position not in acked
            and position in write_set(self._first + i, self._size, self._quorum)
            for i, acked in enumerate(self._acked)
        )

    def complete(self) -> bool:
        return all(len(acked) >= self._acks for acked in self._acked)

    def can_complete(self) -> bool:
        """Return whether the bookies that have not failed suffice for every ack quorum."""
        for i in range(len(self._entries)):
            positions = write_set(self._first + i, self._size, self._quorum)
            if sum(p not in self.failed for p in positions) < self._acks:
                return False
        return True

    def add_answered(self, channel: BookieChannel, rc: int, first: int, count: int) -> None:
        if channel not in self._channels:
            return
        position = self._channels.index(channel)
        self._last_received[position] = self._loop.time()
        low = max(first - self._first, 0)
        high = min(first + count - self._first, len(self._entries))
        for i in range(low, high):
            if rc == EOK:
                self._acked[i][position] = None
            elif rc == EFENCED and self._resent < RESEND_MAX * len(self._entries):
                # This may be the answer to the old writer's add of the same entry, if it was in this process: both use
                # the same connection, and V2 answers carry no request id.
                self._resent += 1
                self._send(position, i)
            else:
                self.failed[position] = None
        self.wake.set()

    def channel_down(self, channel: BookieChannel, reason: str) -> None:
        if channel in self._channels:
            position = self._channels.index(channel)
            self._channels[position] = None
            self.failed[position] = None
            self.wake.set()

    def close(self) -> None:
        for channel in self._channels:
            if channel is not None:
                channel.remove_writer(self._recovery.ledger_id, self)
