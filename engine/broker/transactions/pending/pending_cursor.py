"""The reader of a subscription without what open transactions have acknowledged (X4)."""

from collections.abc import Sequence

from engine.base.ids import Position
from engine.base.ranges import bits_of, words_of
from engine.base.slices import Pick, View
from engine.broker.dispatch.ports import DispatchCursor
from engine.broker.transactions.pending.pending_state import PendingState


class PendingCursor:
    """Reader of ``cursor`` for which an entry that open transactions acknowledge is acknowledged while they are
    open."""

    __slots__ = ("_pending", "cursor", "name")

    def __init__(self, cursor: DispatchCursor, pending: PendingState) -> None:
        self.cursor = cursor
        self.name = cursor.name
        self._pending = pending

    def read_nowait(self, entries_max: int, bytes_max: int) -> list[View] | None:
        while True:
            views = self.cursor.read_nowait(entries_max, bytes_max)
            if not views or not self._pending:
                return views
            # All entries read may be pending; an empty answer would mean that there are no more.
            if due := self._due(views):
                return due

    async def read(self, entries_max: int, bytes_max: int) -> list[View]:
        while True:
            views = await self.cursor.read(entries_max, bytes_max)
            if not views or not self._pending:
                return views
            if due := self._due(views):
                return due

    async def replay(self, positions: Sequence[Position], bytes_max: int) -> list[View]:
        if self._pending:
            positions = [at for at in positions if not self._is_pending(at)]
        return await self.cursor.replay(positions, bytes_max)

    def rewind(self) -> None:
        self.cursor.rewind()

    def is_acknowledged(self, position: Position) -> bool:
        return self.cursor.is_acknowledged(position) or (
            bool(self._pending) and self._is_pending(position)
        )

    @property
    def has_partial_batches(self) -> bool:
        return self.cursor.has_partial_batches or self._pending.has_parts

    def ack_set(self, position: Position) -> list[int] | None:
        words = self.cursor.ack_set(position)
        kept = self._pending.kept(position)
        if not kept:
            return words
        return words_of(kept if words is None else kept & bits_of(words))

    def _is_pending(self, position: Position) -> bool:
        """Return whether no message of the entry is left for a consumer."""
        kept = self._pending.kept(position)
        if not kept:
            return kept is not None
        words = self.cursor.ack_set(position)
        return words is not None and not kept & bits_of(words)

    def _due(self, views: list[View]) -> list[View]:
        due: list[View] = []
        for view in views:
            run = view.run
            indexes = [i for i in view.indexes if not self._is_pending(run.position(i))]
            if len(indexes) == view.count:
                due.append(view)
            elif indexes:
                due.append(Pick(run, indexes))
        return due
