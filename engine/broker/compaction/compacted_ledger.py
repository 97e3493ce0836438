"""What a compaction kept, read by places in the topic."""

from bisect import bisect_left

from engine.base.ids import EARLIEST, Position
from engine.base.slices import Pick, View
from engine.broker.compaction.kept_entries import as_in_topic, kept_entries
from engine.ledger.reading.reader import LedgerReader
from engine.wire.batches import BatchFormatError, read_metadata, unpack_entry

PLACES_MAX = 128
"""Places remembered for searches; then all are forgotten."""


class CompactedLedger:
    """A closed ledger of kept entries, for what was in the topic up to ``horizon``.

    ``last``: position of the last entry kept and the index of its last message (-1: no batch); EARLIEST when nothing
    was kept.
    """

    def __init__(self, reader: LedgerReader, horizon: Position) -> None:
        self.reader = reader
        self.horizon = horizon
        self._places: dict[int, Position] = {}
        self.last = EARLIEST, -1

    @classmethod
    async def opened(cls, reader: LedgerReader, horizon: Position) -> "CompactedLedger":
        """Raises LedgerError, CompactedFormatError. Cancel-safe."""
        made = cls(reader, horizon)
        if made.entries:
            (run,) = await reader.read(made.entries - 1, made.entries - 1, 0)
            ((position, start, stop),) = kept_entries(run)
            made.last = position, last_index(run.buf[start:stop])
        return made

    @property
    def ledger_id(self) -> int:
        return self.reader.ledger_id

    @property
    def entries(self) -> int:
        return self.reader.last_confirmed + 1

    async def find(self, position: Position) -> int:
        """Number of the first entry kept that was at or behind ``position``; ``entries`` when there is none.

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
        """Entries from ``number`` on that were at or behind ``from_position``, at least one if any; the number and the
        place to go on from. Raises LedgerError, CompactedFormatError. Cancel-safe."""
        last = min(number + entries_max, self.entries) - 1
        if last < number:
            return [], self.entries, behind(self.horizon)
        views: list[View] = []
        at = from_position
        for run in await self.reader.read(number, last, bytes_max):
            kept = kept_entries(run)
            number = run.last + 1
            at = behind(kept[-1].position)
            kept = kept[bisect_left(kept, from_position, key=lambda one: one.position) :]
            views += [Pick(made, indexes) for made, indexes in as_in_topic(run, kept)]
        return views, number, at


def behind(position: Position) -> Position:
    return Position(position.ledger_id, position.entry_id + 1)


def last_index(entry: bytes) -> int:
    """Index of the last message of a batch that was not compacted away; -1 when it is no batch."""
    metadata = read_metadata(entry)
    if metadata is None or not metadata.HasField("num_messages_in_batch"):
        return -1
    try:
        left = [one.batch_index for one in unpack_entry(entry).messages if not one.compacted_out]
    except BatchFormatError:
        left = []
    return left[-1] if left else metadata.num_messages_in_batch - 1
