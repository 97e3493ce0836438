"""Reads of confirmed entries: a run at once from one replica, checked, the next replica when that fails."""

import asyncio
from typing import TYPE_CHECKING

from engine.base.errors import MisuseError
from engine.base.slices import Slice
from engine.ledger import tail
from engine.ledger.bookies import Bookies
from engine.ledger.digest import Digest, DigestType, header_of
from engine.ledger.errors import NoSuchEntryError, ReadError
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.ledger.quorum import covered, write_set
from engine.ledger.read_op import CORRUPT, DOWN, MISSING, PENDING, RangeRead
from engine.ledger.settings import LedgerSettings
from engine.metadata.store import MetadataStore
from engine.wire.bookie_commands import EOK, LAST_ENTRY

if TYPE_CHECKING:
    from engine.ledger.writer import LedgerWriter

ENTRY_GUESS = 1024
"""Bytes of an entry while none was seen."""

_WORDS = {CORRUPT: "corrupt", DOWN: "unreachable", PENDING: "nothing in time"}


class LedgerReader:
    """Entries 0 to ``last_confirmed`` of one ledger. Made by ``LedgerClient.open`` or ``LedgerWriter.reader``."""

    def __init__(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        *,
        store: MetadataStore,
        bookies: Bookies,
        settings: LedgerSettings,
        password: bytes,
        writer: "LedgerWriter | None" = None,
    ) -> None:
        self.ledger_id = ledger_id
        self._metadata = metadata
        self._store = store
        self._bookies = bookies
        self._settings = settings
        self._writer = writer
        self._digest = Digest(metadata.digest or DigestType.CRC32, password)
        self._known = metadata.last_entry
        self._open_length = 0
        self._sticky = 0
        self._entry_bytes = 0.0

    @property
    def metadata(self) -> LedgerMetadata:
        return self._metadata if self._writer is None else self._writer.metadata

    @property
    def last_confirmed(self) -> int:
        """Highest entry id known to be confirmed; never falls."""
        return self._known if self._writer is None else self._writer.last_confirmed

    @property
    def closed(self) -> bool:
        return self.metadata.state is LedgerState.CLOSED

    @property
    def length(self) -> int:
        """Payload bytes of all entries; of an open ledger up to ``last_confirmed``, or 0 where that is not known."""
        if self._writer is not None:
            return self._writer.length
        return self.metadata.length if self.closed else self._open_length

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]:
        """Entries from ``first`` on, contiguous, digests verified: at least one, at most to ``last`` or so many that
        ``bytes_max`` is about reached (a guess by the sizes seen).

        Raises NoSuchEntryError when ``first`` is beyond ``last_confirmed`` or every replica lacks it, ReadError when no
        replica gave it and one could not say. Cancel-safe.
        """
        if first < 0 or last < first:
            raise MisuseError(f"read of entries {first} to {last}")
        if first > self.last_confirmed:
            raise NoSuchEntryError(
                f"entry {first} of ledger {self.ledger_id} is beyond {self.last_confirmed}"
            )
        metadata = self.metadata
        index = metadata.segment_index(first)
        last = min(last, self.last_confirmed)
        if index + 1 < len(metadata.segments):
            last = min(last, metadata.segments[index + 1].first - 1)
        wanted = int(bytes_max // self._size_guess()) if bytes_max > 0 else 1
        stop = min(last + 1, first + max(1, min(wanted, self._settings.read_entries_max)))
        return await self._read_segment(metadata, metadata.segments[index].bookies, first, stop)

    def _size_guess(self) -> float:
        if self._entry_bytes:
            return self._entry_bytes
        if self.length and self.last_confirmed >= 0:
            return max(self.length / (self.last_confirmed + 1), 1.0)
        return float(ENTRY_GUESS)

    async def _read_segment(
        self, metadata: LedgerMetadata, bookies: tuple[str, ...], first: int, stop: int
    ) -> list[Slice]:
        """Try replica after replica; a slow one is overtaken by the next after the speculative timeout."""
        loop = asyncio.get_running_loop()
        patience = self._settings.speculative_read_timeout_s or self._settings.read_entry_timeout_s
        running: list[tuple[RangeRead, float]] = []
        failures: list[int] = []
        turn, started, overtake_at = self._sticky, 0, 0.0
        try:
            while True:
                now = loop.time()
                if started < metadata.write_quorum and (not running or now >= overtake_at):
                    op = self._ask(metadata, bookies, first, stop, turn + started)
                    running.append((op, now + self._settings.read_entry_timeout_s))
                    started += 1
                    overtake_at = now + patience
                if not running:
                    raise self._failure(first, failures)
                until = min(deadline for _, deadline in running)
                if started < metadata.write_quorum:
                    until = min(until, overtake_at)
                await asyncio.wait(
                    [op.done for op, _ in running],
                    timeout=max(until - now, 0),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                now = loop.time()
                for attempt in list(running):
                    op, deadline = attempt
                    if not op.done.done() and now < deadline:
                        continue
                    if op.good():
                        return self._use(op)
                    running.remove(attempt)
                    op.close()
                    failures.append(op.codes[0])
                    self._sticky += 1
        finally:
            for op, _ in running:
                op.close()

    def _use(self, op: RangeRead) -> list[Slice]:
        if op.good() < len(op.codes):
            self._sticky += 1  # the rest is better asked of another replica
        slices = op.slices()
        size = sum(run.size for run in slices)
        self._entry_bytes = max(size / op.good(), 1.0)
        op.close()
        return slices

    def _ask(
        self, metadata: LedgerMetadata, bookies: tuple[str, ...], first: int, stop: int, turn: int
    ) -> RangeRead:
        """Ask the ``turn``-th replica of each entry."""
        op = RangeRead(self.ledger_id, first, stop, self._digest)
        size, quorum = metadata.ensemble_size, metadata.write_quorum
        if size == quorum:
            op.ask(self._bookies.channel(bookies[turn % size]), range(first, stop))
            return op
        shares: dict[int, list[int]] = {}
        for entry in range(first, stop):
            shares.setdefault(write_set(entry, size, quorum)[turn % quorum], []).append(entry)
        for position, entries in shares.items():
            op.ask(self._bookies.channel(bookies[position]), entries)
        return op

    def _failure(self, entry: int, codes: list[int]) -> Exception:
        words = ", ".join(_WORDS.get(code, str(code)) for code in codes)
        text = f"entry {entry} of ledger {self.ledger_id}: replicas answered {words}"
        if codes and all(code in MISSING for code in codes):
            return NoSuchEntryError(text)
        return ReadError(text)

    async def read_last_confirmed(self) -> int:
        """Ask metadata and bookies anew how far the ledger is confirmed. Raises ReadError without coverage."""
        if self._writer is not None:
            return self._writer.last_confirmed
        if not self.closed:
            self._metadata = await tail.read(self._store, self.ledger_id)
            if self.closed:
                self._known = self._metadata.last_entry
            else:
                self._known = max(self._known, await self._highest_confirmed())
        return self._known

    async def _highest_confirmed(self) -> int:
        """How far the open ledger is confirmed, by the last entries of its ensemble, once every ack quorum is heard.

        Their headers carry a LAC, which lags behind while nothing more is written. Where every bookie holds every
        entry, an ack quorum that holds an entry has confirmed it and all before it, whether the writer said so or not.
        """
        metadata = self._metadata
        bookies = metadata.segments[-1].bookies
        ops = []
        for bookie in bookies:
            op = RangeRead(self.ledger_id, LAST_ENTRY, LAST_ENTRY + 1, self._digest)
            op.ask(self._bookies.channel(bookie), (LAST_ENTRY,))
            ops.append(op)
        try:
            async with asyncio.timeout(self._settings.read_entry_timeout_s):
                while True:
                    heard = [op.codes[0] == EOK or op.codes[0] in MISSING for op in ops]
                    if covered(heard, metadata.write_quorum, metadata.ack_quorum):
                        break
                    waiting = [op.done for op in ops if not op.done.done()]
                    if not waiting:
                        raise ReadError(f"ledger {self.ledger_id}: too few bookies answer")
                    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise ReadError(f"ledger {self.ledger_id}: too few bookies answer") from None
        finally:
            for op in ops:
                op.close()
        headers = [header_of(op.stored()) for op in ops if op.codes[0] == EOK]
        marks = [-1, metadata.segments[-1].first - 1, *(one.lac for one in headers)]
        quorum = metadata.ack_quorum
        if metadata.ensemble_size == metadata.write_quorum and len(headers) >= quorum:
            common = sorted(headers, key=lambda one: -one.entry_id)[quorum - 1]
            if common.entry_id > max(marks):
                marks.append(common.entry_id)
                self._open_length = common.length
        return max(marks)
