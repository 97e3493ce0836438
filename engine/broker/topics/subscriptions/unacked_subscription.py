"""Subscriptions whose cursor is not moved by acknowledgements."""

from collections.abc import Sequence

from engine.base.ids import Position
from engine.base.slices import View
from engine.broker.dispatch.consumer import Consumer
from engine.broker.topics.subscriptions.cursor_moves import CompactionMoves, CursorMoves
from engine.broker.topics.subscriptions.subscription import Subscription


class UnacknowledgedSubscription(Subscription):
    """A subscription whose cursor is not moved by acknowledgements."""

    __slots__ = ()

    def pass_markers(self, markers: list[View]) -> None:
        pass

    def acknowledge(self, consumer: Consumer, positions: list[Position]) -> None:
        pass

    def acknowledge_partly(
        self, consumer: Consumer, position: Position, ack_set: Sequence[int]
    ) -> None:
        pass

    def acknowledge_cumulative(
        self, consumer: Consumer, position: Position, ack_set: Sequence[int] = ()
    ) -> None:
        pass


class CompactionSubscription(UnacknowledgedSubscription):
    """The subscription of the topic's compaction.

    Consumers may read it, but only compaction moves it: the entries before its cursor count as compacted (M11).
    """

    __slots__ = ()

    def _make_moves(self) -> CursorMoves:
        return CompactionMoves(self, self.cursor, self._host.log)
