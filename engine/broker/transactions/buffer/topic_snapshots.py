"""The snapshots of one topic's transactions, stored in one of two forms and read in either."""

from typing import Any

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.ports import TransactionSnapshots
from engine.broker.settings import TransactionSettings
from engine.broker.transactions.buffer.snapshots import (
    INDEXES,
    SEGMENTS,
    SINGLE,
    AbortSegment,
    BufferSnapshot,
    index_value,
    read_ids,
    read_stored,
    segment_key,
    segment_value,
    segments_of,
    single_value,
)
from engine.broker.transactions.txn_id import TxnId

SEGMENT_HEAD_BYTES, ID_BYTES = 8, 3
"""Assumed bytes of a segment without its ids and its topic's name, and of an id, as in Apache's brokers."""


class TopicSnapshots:
    """The snapshots of a topic. Methods raise MagnetarError."""

    __slots__ = ("_name", "_sealed", "_segments", "_settings", "_snapshots", "sealed_ms")

    def __init__(
        self, name: TopicName, snapshots: TransactionSnapshots, settings: TransactionSettings
    ) -> None:
        self._name = name
        self._snapshots = snapshots
        self._settings = settings
        self._segments: list[AbortSegment] = []
        self._sealed: dict[TxnId, int] = {}
        """Sequences of the segments of aborted transactions."""
        self.sealed_ms = 0

    @property
    def kind(self) -> str:
        """The form in Pulsar's words."""
        return (
            "Segment" if self._settings.transaction_buffer_segmented_snapshot_enabled else "Single"
        )

    @property
    def capacity(self) -> int:
        """Number of aborted transactions of a segment."""
        size = self._settings.transaction_buffer_snapshot_segment_size
        return max((size - SEGMENT_HEAD_BYTES - len(self._name.full)) // ID_BYTES, 1)

    async def read(self, first: Position) -> BufferSnapshot | None:
        """Return the newest snapshot of a topic whose first entry is at ``first``; None without one."""
        topic, space = self._name.full, self._name.namespace
        single = await self._snapshots.read(space, SINGLE, lambda key: key == topic)
        index = (await self._snapshots.read(space, INDEXES, lambda key: key == topic)).get(topic)
        self._segments = [] if index is None else segments_of(index)
        keys = {segment.key(topic): segment for segment in self._segments}
        segments = await self._snapshots.read(space, SEGMENTS, keys.__contains__) if keys else {}
        snapshot = read_stored(topic, single.get(topic), index, segments, first)
        self._sealed = {
            txn: keys[key].sequence for key, value in segments.items() for txn in read_ids(value)
        }
        return snapshot

    async def write(self, snapshot: BufferSnapshot, first: Position, now_ms: int) -> None:
        """Store a snapshot of a topic whose first entry is at ``first``."""
        topic, space = self._name.full, self._name.namespace
        if self.kind == "Single":
            value = single_value(topic, snapshot)
            await self._snapshots.write(space, SINGLE, topic, value)
            return
        aborted = dict(snapshot.aborted)
        unsealed = [txn for txn in aborted if txn not in self._sealed]
        while len(unsealed) >= self.capacity:
            some, unsealed = unsealed[: self.capacity], unsealed[self.capacity :]
            await self._seal(some, max(aborted[txn] for txn in some), now_ms)
        gone = [part for part in self._segments if part.mark.ledger_id < first.ledger_id]
        self._segments = [part for part in self._segments if part not in gone]
        value = index_value(topic, self._segments, unsealed, snapshot.max_read)
        await self._snapshots.write(space, INDEXES, topic, value)
        # After the index, which would name segments that are not stored.
        for part in gone:
            await self._snapshots.write(space, SEGMENTS, part.key(topic), None)
            self._sealed = {txn: at for txn, at in self._sealed.items() if at != part.sequence}

    async def _seal(self, aborted: list[TxnId], mark: Position, now_ms: int) -> None:
        """Store a segment. One that no index names yet is replaced."""
        topic = self._name.full
        sequence = self._segments[-1].sequence + 1 if self._segments else 0
        value = segment_value(topic, sequence, aborted, mark)
        key = segment_key(topic, sequence)
        place = await self._snapshots.write(self._name.namespace, SEGMENTS, key, value)
        self._segments.append(AbortSegment(sequence, mark, place))
        self._sealed |= dict.fromkeys(aborted, sequence)
        self.sealed_ms = now_ms

    async def forget(self) -> None:
        """Delete what is stored of the topic."""
        topic, space = self._name.full, self._name.namespace
        read = self._snapshots.read
        if topic in await read(space, SINGLE, lambda key: key == topic):
            await self._snapshots.write(space, SINGLE, topic, None)
        index = (await read(space, INDEXES, lambda key: key == topic)).get(topic)
        if index is not None:
            await self._snapshots.write(space, INDEXES, topic, None)
            for segment in segments_of(index):
                await self._snapshots.write(space, SEGMENTS, segment.key(topic), None)

    def segment_stats(self, aborted: int) -> dict[str, Any]:
        """Return Pulsar's SegmentsStats of a topic with so many ``aborted`` transactions."""
        last = {sequence: txn for txn, sequence in self._sealed.items()}
        return {
            "segmentsSize": len(self._segments),
            "currentSegmentCapacity": self.capacity,
            "unsealedAbortTxnIDSize": max(aborted - len(self._sealed), 0),
            "lastTookSnapshotSegmentTimestamp": self.sealed_ms,
            "segmentStats": [
                {
                    "lastTxnID": str(last.get(segment.sequence, "")),
                    "persistentPosition": str(segment.mark),
                }
                for segment in self._segments
            ],
        }
