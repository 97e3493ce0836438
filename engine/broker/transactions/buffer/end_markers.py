"""Markers that end a transaction in a topic, encoded as Apache's brokers encode them. Pure.

A marker is an entry without a payload behind the transaction's messages. Its type states whether they are valid.
"""

from struct import Struct

from engine.base.crc32c import crc32c
from engine.broker.transactions.txn_id import TxnId
from engine.wire import pulsar_pb2 as pb
from engine.wire.kernels import CHECKSUM_MAGIC
from engine.wire.varints import UINT64_MAX

COMMIT, ABORT = 21, 22
"""Types of markers."""
_PRODUCER = "pulsar.txn.marker"
_MAGIC, _SIZE = Struct(">HI"), Struct(">I")


def marker(txn: TxnId, *, commit: bool, now_ms: int) -> bytes:
    """Return the entry that ends a transaction."""
    metadata = pb.MessageMetadata(
        producer_name=_PRODUCER,
        sequence_id=UINT64_MAX,  # -1 as Apache's brokers write it
        publish_time=now_ms,
        marker_type=COMMIT if commit else ABORT,
        txnid_most_bits=txn.most,
        txnid_least_bits=txn.least,
    ).SerializeToString()
    body = _SIZE.pack(len(metadata)) + metadata
    return _MAGIC.pack(CHECKSUM_MAGIC, crc32c(body)) + body
