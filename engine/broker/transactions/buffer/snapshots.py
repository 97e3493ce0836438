"""Snapshots of a topic's transactions, as Apache's brokers store them in the namespace's system topics. Pure.

A snapshot has the end to which the topic could be read, and all its aborted transactions. A topic is loaded with the
newest snapshot of its name, and what follows that end is read from the topic itself.

Where aborted transactions are very many, they are stored in segments, each written once; an index of the topic names
them and has the transactions of no segment yet. Segments do not have the positions of markers: that of their last
marker stands for all.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from engine.base.errors import PeerError
from engine.base.ids import EARLIEST, Position
from engine.broker.control.event_schemas import OwnSchema
from engine.broker.transactions.txn_id import TxnId
from engine.metadata.records import Document

_TXN_BITS = 64


class BufferSnapshot(NamedTuple):
    """``max_read``: the last entry that could be read. ``aborted``: the position of the marker of each aborted
    transaction."""

    max_read: Position
    aborted: Mapping[TxnId, Position]


SINGLE = "__transaction_buffer_snapshot"
"""Topic of the snapshots that hold all aborted transactions, one for each topic."""
SEGMENTS, INDEXES = f"{SINGLE}_segments", f"{SINGLE}_indexes"
"""Topics of segments, and of their indexes, one for each topic."""
_IDS = (
    '{"name":"aborts","type":["null",{"type":"array","items":{"type":"record","name":"TxnIDData","fields":[{"name":'
    '"leastSigBits","type":"long"},{"name":"mostSigBits","type":"long"}]},"java-class":"java.util.List"}],'
    '"default":null}'
)
_TOPIC_NAME = '{"name":"topicName","type":["null","string"],"default":null}'
_V2 = '"namespace":"org.apache.pulsar.broker.transaction.buffer.metadata.v2"'
TOPICS = {
    SINGLE: OwnSchema.of(
        '{"type":"record","name":"TransactionBufferSnapshot","namespace":'
        '"org.apache.pulsar.broker.transaction.buffer.metadata","fields":[{"name":"aborts","type":["null",{"type":'
        '"array","items":{"type":"record","name":"AbortTxnMetadata","fields":[{"name":"entryId","type":"long"},'
        '{"name":"ledgerId","type":"long"},{"name":"txnIdLeastBits","type":"long"},{"name":"txnIdMostBits","type":'
        '"long"}]},"java-class":"java.util.List"}],"default":null},{"name":"maxReadPositionEntryId","type":"long"},'
        '{"name":"maxReadPositionLedgerId","type":"long"},{"name":"topicName","type":["null","string"],'
        '"default":null}]}'
    ),
    SEGMENTS: OwnSchema.of(
        f'{{"type":"record","name":"TransactionBufferSnapshotSegment",{_V2},"fields":[{_IDS},'
        '{"name":"persistentPositionEntryId","type":"long"},{"name":"persistentPositionLedgerId","type":"long"},'
        f'{{"name":"sequenceId","type":"long"}},{_TOPIC_NAME}]}}'
    ),
    INDEXES: OwnSchema.of(
        f'{{"type":"record","name":"TransactionBufferSnapshotIndexes",{_V2},"fields":[{{"name":"indexList","type":'
        '["null",{"type":"array","items":{"type":"record","name":"TransactionBufferSnapshotIndex","fields":[{"name":'
        '"abortedMarkEntryID","type":"long"},{"name":"abortedMarkLedgerID","type":"long"},{"name":"segmentEntryID",'
        '"type":"long"},{"name":"segmentLedgerID","type":"long"},{"name":"sequenceID","type":"long"}]},"java-class":'
        '"java.util.List"}],"default":null},{"name":"snapshot","type":["null",{"type":"record","name":'
        f'"TransactionBufferSnapshotIndexesMetadata","fields":[{_IDS},{{"name":"maxReadPositionEntryId","type":"long"}},'
        f'{{"name":"maxReadPositionLedgerId","type":"long"}}]}}],"default":null}},{_TOPIC_NAME}]}}'
    ),
}
"""Schemas of the values, by the local name of the system topic."""


def single_value(topic: str, snapshot: BufferSnapshot) -> Document:
    """Return the value of a snapshot in the topic ``SINGLE``."""
    return {
        "aborts": [
            {
                "entryId": at.entry_id,
                "ledgerId": at.ledger_id,
                "txnIdLeastBits": signed(txn.least),
                "txnIdMostBits": signed(txn.most),
            }
            for txn, at in snapshot.aborted.items()
        ],
        "maxReadPositionEntryId": snapshot.max_read.entry_id,
        "maxReadPositionLedgerId": snapshot.max_read.ledger_id,
        "topicName": topic,
    }


def read_single(value: Document) -> BufferSnapshot:
    """Return the snapshot that a value of the topic ``SINGLE`` holds."""
    return BufferSnapshot(
        Position(value["maxReadPositionLedgerId"], value["maxReadPositionEntryId"]),
        {
            TxnId(unsigned(abort["txnIdMostBits"]), unsigned(abort["txnIdLeastBits"])): Position(
                abort["ledgerId"], abort["entryId"]
            )
            for abort in value.get("aborts", ())
        },
    )


class AbortSegment(NamedTuple):
    """A segment of aborted transactions: the position of the last one's marker, and that of the segment itself."""

    sequence: int
    mark: Position
    place: Position

    def key(self, topic: str) -> str:
        """Return the key of the segment in the topic ``SEGMENTS``."""
        return segment_key(topic, self.sequence)


class MissingSegmentError(PeerError):
    """A segment that the topic's index names is not stored."""


def segment_key(topic: str, sequence: int) -> str:
    """Return the key of a topic's segment in the topic ``SEGMENTS``."""
    return f"multiple-{sequence}-{topic}"


def segment_value(
    topic: str, sequence: int, aborted: Collection[TxnId], mark: Position
) -> Document:
    """Return the value of a segment."""
    return {
        "aborts": _ids(aborted),
        "persistentPositionEntryId": mark.entry_id,
        "persistentPositionLedgerId": mark.ledger_id,
        "sequenceId": sequence,
        "topicName": topic,
    }


def index_value(
    topic: str, segments: Sequence[AbortSegment], unsealed: Collection[TxnId], max_read: Position
) -> Document:
    """Return the value of an index. ``unsealed``: aborted transactions that are in no segment."""
    return {
        "indexList": [
            {
                "abortedMarkEntryID": segment.mark.entry_id,
                "abortedMarkLedgerID": segment.mark.ledger_id,
                "segmentEntryID": segment.place.entry_id,
                "segmentLedgerID": segment.place.ledger_id,
                "sequenceID": segment.sequence,
            }
            for segment in segments
        ],
        "snapshot": {
            "aborts": _ids(unsealed),
            "maxReadPositionEntryId": max_read.entry_id,
            "maxReadPositionLedgerId": max_read.ledger_id,
        },
        "topicName": topic,
    }


def segments_of(index: Document) -> list[AbortSegment]:
    """Return the segments that an index names."""
    return [
        AbortSegment(
            row["sequenceID"],
            Position(row["abortedMarkLedgerID"], row["abortedMarkEntryID"]),
            Position(row["segmentLedgerID"], row["segmentEntryID"]),
        )
        for row in index.get("indexList", ())
    ]


def read_stored(
    topic: str,
    single: Document | None,
    index: Document | None,
    segments: Mapping[str, Document],
    first: Position = EARLIEST,
) -> BufferSnapshot | None:
    """Return the snapshot of a topic from its values in the three system topics; None without one.

    Where the form was changed there are two snapshots: the later end counts, and the transactions of both. ``first``:
    the topic's first entry. A segment of deleted ledgers may be missing: it is deleted after the index is written, and
    an earlier owner's index may be stored behind that. Raises MissingSegmentError for any other.
    """
    snapshot = None if single is None else read_single(single)
    if index is None or "snapshot" not in index:
        return snapshot
    aborted: dict[TxnId, Position] = {} if snapshot is None else dict(snapshot.aborted)
    for segment in segments_of(index):
        value = segments.get(segment.key(topic))
        if value is None and segment.mark.ledger_id < first.ledger_id:
            continue
        if value is None:
            raise MissingSegmentError(f"segment {segment.sequence} of {topic} is not stored")
        aborted |= dict.fromkeys(read_ids(value), segment.mark)
    unsealed = index["snapshot"]
    max_read = Position(unsealed["maxReadPositionLedgerId"], unsealed["maxReadPositionEntryId"])
    # Markers behind this end are read from the topic, so those of the others are not behind it.
    aborted |= dict.fromkeys(read_ids(unsealed), max_read)
    return BufferSnapshot(max(max_read, snapshot.max_read) if snapshot else max_read, aborted)


def _ids(aborted: Collection[TxnId]) -> list[Document]:
    return [{"leastSigBits": signed(txn.least), "mostSigBits": signed(txn.most)} for txn in aborted]


def read_ids(value: Document) -> list[TxnId]:
    """Return the aborted transactions of a segment, or of an index's own part."""
    return [
        TxnId(unsigned(row["mostSigBits"]), unsigned(row["leastSigBits"]))
        for row in value.get("aborts", ())
    ]


def signed(bits: int) -> int:
    """Return 64 bits as the number that Java holds them in."""
    return bits - (1 << _TXN_BITS) if bits >> _TXN_BITS - 1 else bits


def unsigned(number: int) -> int:
    """Return the 64 bits of a number of Java."""
    return number & (1 << _TXN_BITS) - 1
