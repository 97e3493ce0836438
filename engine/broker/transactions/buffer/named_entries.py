"""The transaction in messages' metadata, by which readers know what was aborted. Pure."""

from struct import Struct

from google.protobuf.message import DecodeError

from engine.base.crc32c import crc32c
from engine.base.slices import Slice
from engine.broker.errors import NotAllowed
from engine.broker.transactions.txn_id import TxnId
from engine.wire import pulsar_pb2 as pb
from engine.wire.frames import metadata_span
from engine.wire.kernels import CHECKSUM_MAGIC
from engine.wire.varints import read_varint, varint

_MAGIC, _SIZE = Struct(">HI"), Struct(">I")
_CHECKSUM = CHECKSUM_MAGIC.to_bytes(2, "big")
_LEAST, _MOST = b"\xb0\x01", b"\xb8\x01"
"""Tags of the fields txnid_least_bits and txnid_most_bits."""


def name_transaction(run: Slice, txn: TxnId) -> None:
    """Write a transaction into the metadata of those entries of ``run`` that name none.

    Apache's Go client names it in the SEND alone; Apache's brokers deliver its messages also when they were aborted.
    Raises NotAllowed when an entry has no metadata, or names another transaction.
    """
    unnamed = _unnamed(run, txn)
    if unnamed:
        fields = b"".join((_LEAST, varint(txn.least), _MOST, varint(txn.most)))
        _rewrite(run, set(unnamed), fields)


def _unnamed(run: Slice, txn: TxnId) -> list[int]:
    """Return the indexes of the entries that name no transaction. Raises NotAllowed as ``name_transaction``."""
    buf, spans = run.buf, run.spans
    unnamed: list[int] = []
    size, mask, wanted = 0, 0, -1
    for i in range(run.count):
        start, stop = spans[2 * i], spans[2 * i + 1]
        # Single messages of one producer differ in what the mask leaves out, which decoding of each would cost more
        # than all else of its publishing.
        if (
            start + size <= stop
            and int.from_bytes(buf[start : start + size], "little") & mask == wanted
        ):
            continue
        entry = buf[start:stop]
        span = metadata_span(entry, 0, len(entry))
        if span is None:
            raise NotAllowed(f"The message has no metadata to name the transaction {txn} in")
        if not _names(entry[span[0] : span[1]], txn):
            unnamed.append(i)
        elif i + 1 < run.count:
            size, mask, wanted = _alike(entry, span)
    return unnamed


def _names(metadata_bytes: bytes, txn: TxnId) -> bool:
    """Return whether metadata names a transaction. Raises NotAllowed when that is another one."""
    if _MOST not in metadata_bytes:
        return False
    try:
        metadata = pb.MessageMetadata.FromString(metadata_bytes)
    except DecodeError as error:
        raise NotAllowed(f"The message's metadata is damaged: {error}") from error
    if not metadata.HasField("txnid_most_bits"):
        return False
    named = metadata.txnid_most_bits, metadata.txnid_least_bits
    if named != txn or not metadata.HasField("txnid_least_bits"):
        raise NotAllowed(f"The message does not name the transaction {txn} of its SEND")
    return True


def _alike(entry: bytes, span: tuple[int, int]) -> tuple[int, int, int]:
    """Return (size, mask, value) of the beginning of entries whose metadata differ from those of ``entry`` by the
    sequence id and the publish time alone; a value that nothing has when these are not its second and third field, or
    the entry has no checksum before them."""
    start, stop = span
    sequence_at = start
    if entry[start : start + 1] == b"\x0a":
        name_size, at = read_varint(entry, start + 1, stop)
        sequence_at = at + name_size if at > 0 else stop
    time_at = read_varint(entry, sequence_at + 1, stop)[1]
    behind = read_varint(entry, time_at + 1, stop)[1] if time_at > 0 else -1
    has_checksum = start == _MAGIC.size + _SIZE.size and entry[:2] == _CHECKSUM
    if behind < 0 or not has_checksum or (entry[sequence_at], entry[time_at]) != (0x10, 0x18):
        return 0, 0, -1
    mask = bytearray(b"\xff" * stop)
    mask[2:6] = bytes(4)  # the checksum
    for first, end in ((sequence_at + 1, time_at), (time_at + 1, behind)):
        mask[first:end] = b"\x80" * (end - first)
    bits = int.from_bytes(mask, "little")
    return stop, bits, int.from_bytes(entry[:stop], "little") & bits


def _rewrite(run: Slice, unnamed: set[int], fields: bytes) -> None:
    """Put ``fields`` behind the metadata of the entries ``unnamed``, over a buffer of the run's own."""
    parts: list[bytes] = []
    spans: list[int] = []
    at = 0
    for i in range(run.count):
        entry = run.entry(i)
        if i in unnamed:
            span = metadata_span(entry, 0, len(entry))
            assert span is not None
            named = entry[span[0] : span[1]] + fields
            body = b"".join((_SIZE.pack(len(named)), named, entry[span[1] :]))
            entry = _MAGIC.pack(CHECKSUM_MAGIC, crc32c(body)) + body
        parts.append(entry)
        spans += (at, at + len(entry))
        at += len(entry)
    run.buf, run.spans, run.size = b"".join(parts), spans, at
