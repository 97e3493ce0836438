"""Entries that a compaction kept, read by positions in the topic."""

from bisect import bisect_left

from engine.base.ids import EARLIEST, Position
from engine.base.slices import Pick, View
from engine.broker.compaction.kept_entries import as_in_topic, kept_entries
from engine.ledger.reading.reader import LedgerReader
from engine.wire.batches import BatchFormatError, read_metadata, unpack_entry

PLACES_MAX = 128
"""Number of positions cached for searches; the cache is emptied when it is full."""


class CompactedLedger:
    """A closed ledger of the entries kept of the topic up to ``horizon``.

    ``last``: position of the last entry kept and the index of its last message, -1 when it is no batch; EARLIEST and -1
    when nothing was kept.
    """

    def __init__(self, reader: LedgerReader, horizon: Position) -> None:
        self.reader = reader
        self.horizon = horizon
        self._places: dict[int, Position] = {}
        self.last = EARLIEST, -1

    @classmethod
    async def opened(cls, reader: LedgerReader, horizon: Position) -> "CompactedLedger":
        """Open a compacted ledger and read its last entry. Raises LedgerError, CompactedFormatError. Cancel-safe."""
        ledger = cls(reader, horizon)
        if ledger.entries:
            (run,) = await reader.read(ledger.entries - 1, ledger.entries - 1, 0)
            ((position, start, stop),) = kept_entries(run)
            ledger.last = position, last_index(run.buf[start:stop])
        return ledger

    @property
    def ledger_id(self) -> int:
        return self.reader.ledger_id

    @property
    def entries(self) -> int:
        return self.reader.last_confirmed + 1

    async def find(self, position: Position) -> int:
        """Return the number of the first entry at or behind ``position``; ``entries`` when there is none.

        Raises LedgerError, CompactedFormatError. Cancel-safe.
        """
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            if await self._place(middle) < position:
                low = middle + 1
            else:
                high = middle
        return low

    async def _place(self, number: int) -> Position:
        place = self._places.get(number)
        if place is None:
            if len(self._places) >= PLACES_MAX:
                self._places.clear()
            (run,) = await self.reader.read(number, number, 0)
            place = self._places[number] = kept_entries(run)[0].position
        return place

    async def read(
        self, number: int, from_position: Position, entries_max: int, bytes_max: int
    ) -> tuple[list[View], int, Position]:
        """Return entries from ``number`` on that are at or behind ``from_position``, at least one if any.

        Also return the number and the position to continue from. Raises LedgerError, CompactedFormatError. Cancel-safe.
        """
        last = min(number + entries_max, self.entries) - 1
        if last < number:
            return [], self.entries, behind(self.horizon)
        views: list[View] = []
        ahead = from_position
        for run in await self.reader.read(number, last, bytes_max):
            kept = kept_entries(run)
            number = run.last + 1
            ahead = behind(kept[-1].position)
            kept = kept[bisect_left(kept, from_position, key=lambda entry: entry.position) :]
            views += [Pick(placed, indexes) for placed, indexes in as_in_topic(run, kept)]
        return views, number, ahead


def behind(position: Position) -> Position:
    """Return the position right behind ``position`` in its ledger."""
    return Position(position.ledger_id, position.entry_id + 1)


def last_index(entry: bytes) -> int:
    """Return the index of a batch's last message that was not compacted out; -1 when the entry is no batch."""
    metadata = read_metadata(entry)
    if metadata is None or not metadata.HasField("num_messages_in_batch"):
        return -1
    try:
        messages = unpack_entry(entry).messages
    except BatchFormatError:
        messages = []
    indexes = [message.batch_index for message in messages if not message.compacted_out]
    return indexes[-1] if indexes else metadata.num_messages_in_batch - 1
