"""The transaction in a message's metadata, by which readers know what was aborted. Pure."""

from struct import Struct

from google.protobuf.message import DecodeError

from engine.base.crc32c import crc32c
from engine.base.slices import Slice
from engine.broker.transactions.txn_id import TxnId
from engine.wire import pulsar_pb2 as pb
from engine.wire.frames import metadata_span
from engine.wire.kernels import CHECKSUM_MAGIC
from engine.wire.varints import varint

_MAGIC, _SIZE = Struct(">HI"), Struct(">I")
_LEAST, _MOST = b"\xb0\x01", b"\xb8\x01"
"""Tags of the fields txnid_least_bits and txnid_most_bits."""


def name_transaction(run: Slice, txn: TxnId) -> None:
    """Write a transaction into the metadata of the one entry of ``run``, if it names none.

    Apache's Go client names it in the SEND alone; Apache's brokers deliver its messages also when they were aborted.
    """
    entry = run.entry(0)
    span = metadata_span(entry, 0, len(entry))
    if span is None or _names_one(entry[span[0] : span[1]]):
        return  # without metadata it is refused later
    named = b"".join((entry[span[0] : span[1]], _LEAST, varint(txn.least), _MOST, varint(txn.most)))
    body = b"".join((_SIZE.pack(len(named)), named, entry[span[1] :]))
    run.buf = _MAGIC.pack(CHECKSUM_MAGIC, crc32c(body)) + body
    run.spans = [0, len(run.buf)]
    run.size = len(run.buf)


def _names_one(metadata: bytes) -> bool:
    """Return whether metadata names a transaction, also when they are damaged."""
    if _MOST not in metadata:
        return False
    try:
        return pb.MessageMetadata.FromString(metadata).HasField("txnid_most_bits")
    except DecodeError:
        return True
