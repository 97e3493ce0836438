"""One read of a run of entries: from one replica after another (I2), and from the next as well when one is slow.

Only an answer of a bookie that its digest proves intact counts (I42).
"""

import asyncio

from engine.ledger.access import LedgerAccess
from engine.ledger.digest import Digest
from engine.ledger.errors import CorruptEntryError, NoSuchEntryError, ReadError
from engine.ledger.quorum import write_set
from engine.ledger.reading.batch_read import BatchRead
from engine.ledger.reading.read_op import CORRUPT, MISSING, RangeRead, answer_text
from engine.wire.bookie_commands import EBADREQ

Attempt = RangeRead | BatchRead


class ReplicaReads:
    """A read of entries ``first .. stop - 1`` of one segment. ``run`` returns the first attempt that brought the first
    entry.

    Where every bookie holds every entry, the run is requested from one bookie, in one request if that supports batch
    reads. In a striped segment each entry is requested from a bookie that holds it. ``bytes_max`` bounds the answer to
    a batch read, about ``wanted`` entries; without batch reads ``wanted`` entries are requested. ``failures`` counts
    the replicas that failed.
    """

    def __init__(
        self,
        access: LedgerAccess,
        members: tuple[str, ...],
        write_quorum: int,
        span: tuple[int, int],
        bytes_max: int,
        wanted: int,
        *,
        start_at: int,
        digest: Digest,
    ) -> None:
        self.failures = 0
        self._ledger_id = access.ledger_id
        self._members = members
        self._quorum = write_quorum
        self._first, self._stop = span
        self._bytes_max = bytes_max
        self._wanted = wanted
        self._digest = digest
        self._links = access.bookies.links
        self._choice = access.bookies.choice
        self._settings = access.settings
        self._loop = asyncio.get_running_loop()
        self._costs = self._choice.read_costs(members)
        size = len(members)
        self._order = sorted(range(size), key=lambda p: (self._costs[p], (p - start_at) % size))
        self._codes: list[int] = []
        self._answers: list[str] = []
        self._running: list[tuple[Attempt, int, float]] = []  # attempt, turn, deadline

    async def run(self) -> Attempt:
        """Return the first attempt that brought the first entry; the caller closes it. Cancel-safe.

        Raises NoSuchEntryError when every replica lacks the first entry, ReadError when at least one failed otherwise:
        damage, silence and errors never count as absence (I21).
        """
        settings, loop = self._settings, self._loop
        patience = settings.speculative_read_timeout_s or settings.read_entry_timeout_s
        turn, overtake_at = 0, 0.0
        try:
            while True:
                now = loop.time()
                if turn < self._quorum and (not self._running or now >= overtake_at):
                    if self._running:
                        self._mark_slow()
                    self._request(turn, now)
                    turn += 1
                    overtake_at = now + patience
                if not self._running:
                    raise self._failure()
                until = min(deadline for _, _, deadline in self._running)
                if turn < self._quorum:
                    until = min(until, overtake_at)
                await asyncio.wait(
                    [op.done for op, _, _ in self._running],
                    timeout=max(until - now, 0),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                attempt = self._collect(loop.time())
                if attempt is not None:
                    return attempt
        finally:
            for op, _, _ in self._running:
                op.close()

    def _collect(self, now: float) -> Attempt | None:
        """Return an attempt that brought entries, or None; failed attempts are removed."""
        for attempt in list(self._running):
            op, turn, deadline = attempt
            if not op.done.done() and now < deadline:
                continue
            self._running.remove(attempt)
            if op.intact_count():
                if op.complete is False:
                    self.failures += 1  # so that the reader continues with another replica
                return op
            if not op.done.done():
                for channel in op.silent_channels(now - self._settings.read_entry_timeout_s):
                    channel.take_down("hangs: nothing received since a read was sent")
            op.close()
            if isinstance(op, BatchRead) and self._refused(op):
                self._request(turn, now)
                continue
            self._codes.append(op.code)
            self._answers.append(answer_text(op.code, op.down))
            self.failures += 1
        return None

    def _refused(self, op: BatchRead) -> bool:
        """Return whether the bookie does not support batch reads, so that the entries are requested one by one."""
        if op.code == EBADREQ:
            self._links.mark_batches_refused(op.bookie_id)
        return not self._links.supports_batches(op.bookie_id)

    def _mark_slow(self) -> None:
        for op, turn, _ in self._running:
            if isinstance(op, BatchRead) or len(self._members) == self._quorum:
                self._choice.slow(self._members[self._order[turn]])

    def _request(self, turn: int, now: float) -> None:
        """Request the entries from the ``turn``-th best replica of each."""
        op: Attempt
        if len(self._members) > self._quorum:
            op = self._request_striped(turn)
        else:
            bookie = self._members[self._order[turn]]
            channel = self._links.reading(bookie)
            if self._stop - self._first > 1 and self._links.supports_batches(bookie):
                op = BatchRead(self._ledger_id, self._first, self._stop, self._digest)
                op.request(channel, self._bytes_max, self._wanted)
            else:
                op = self._range()
                op.request(channel, range(self._first, self._first + len(op.codes)))
        self._running.append((op, turn, now + self._settings.read_entry_timeout_s))

    def _range(self) -> RangeRead:
        stop = min(self._stop, self._first + min(self._wanted, self._settings.read_entries_max))
        return RangeRead(self._ledger_id, self._first, stop, self._digest)

    def _request_striped(self, turn: int) -> RangeRead:
        op = self._range()
        shares: dict[int, list[int]] = {}
        for entry in range(self._first, self._first + len(op.codes)):
            replicas = write_set(entry, len(self._members), self._quorum)
            replicas.sort(key=self._costs.__getitem__)
            shares.setdefault(replicas[turn], []).append(entry)
        for position, entries in shares.items():
            op.request(self._links.reading(self._members[position]), entries)
        return op

    def _failure(self) -> Exception:
        answers = ", ".join(self._answers)
        text = f"entry {self._first} of ledger {self._ledger_id}: replicas answered {answers}"
        if all(code in MISSING for code in self._codes):
            return NoSuchEntryError(text)
        if all(code == CORRUPT or code in MISSING for code in self._codes):
            return CorruptEntryError(text)
        return ReadError(text)
