"""Snapshots of a topic's transactions, as Apache's brokers store them in the namespace's system topics. Pure.

A snapshot has the end to which the topic could be read, and all its aborted transactions. A topic is loaded with the
newest snapshot of its name, and what follows that end is read from the topic itself.
"""

from collections.abc import Mapping
from typing import NamedTuple

from engine.base.ids import Position
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


def signed(bits: int) -> int:
    """Return 64 bits as the number that Java holds them in."""
    return bits - (1 << _TXN_BITS) if bits >> _TXN_BITS - 1 else bits


def unsigned(number: int) -> int:
    """Return the 64 bits of a number of Java."""
    return number & (1 << _TXN_BITS) - 1
