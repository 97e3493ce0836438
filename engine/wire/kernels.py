"""Processing of runs of frames on the hot paths: cut, check and build complete runs in one call. Pure.

All functions receive ``bytes`` and positions and return ints, lists and ``bytes``. The only costs per entry are slices,
one or two struct calls and the checksum. A frame that is not of the one shape that a kernel knows stops it with
``OTHER``, and the caller parses that frame with protobuf. Hostile bytes never raise and are never read past ``end``.

Pulsar frames (docs/formats/pulsar-frames.md); all integers big-endian::

    u32 total | u32 command size | BaseCommand | [0x0e01 u32 crc32c] u32 metadata size | MessageMetadata | payload

A SEND's BaseCommand is ``08 06 | 32 n | body``. Its body's first two fields (producer id, sequence id) are the same
bytes in the receipt, so they are copied, not parsed. The BookKeeper side is in ``bookie_kernels``.
"""

from collections.abc import Sequence
from struct import Struct

from google.protobuf.message import DecodeError

from engine.base.crc32c import crc32c
from engine.base.ids import Position
from engine.base.slices import Slice, span_bytes
from engine.wire import pulsar_pb2 as pb
from engine.wire.bookie_kernels import (
    BAD_CHECKSUM,
    LARGE_ENTRY_BYTES,
    NEED,
    OTHER,
    TOO_LARGE,
    build_add_replies,
    build_adds,
    take_add_replies,
    take_adds,
    take_read_replies,
)
from engine.wire.frames import (
    BROKER_METADATA_MAGIC,
    CHECKSUM_MAGIC,
    metadata_span,
    tagged,
)
from engine.wire.varints import LOW14, SHORT14, read_varint, skip_field, varint

__all__ = [
    "BAD_CHECKSUM",
    "BATCH_MESSAGES_MAX",
    "BROKER_METADATA_MAGIC",
    "CHECKSUM_MAGIC",
    "LARGE_ENTRY_BYTES",
    "NEED",
    "OTHER",
    "TOO_LARGE",
    "SendRun",
    "bare",
    "batch_sizes",
    "build_add_replies",
    "build_adds",
    "build_messages",
    "build_receipts",
    "build_sends",
    "entry_stamp",
    "following",
    "following_places",
    "head_sequences",
    "messages_in",
    "metadata_span",
    "stamped",
    "tagged",
    "take_acks",
    "take_add_replies",
    "take_adds",
    "take_read_replies",
    "take_sends",
]

_TOTAL = Struct(">I")
_SIZES = Struct(">II")
_MAGIC = Struct(">HI")
_HEAD = Struct(">IIHBB")  # total, command size, type field, command's tag, command's length
_INT64_END = 1 << 63
BATCH_MESSAGES_MAX = 1 << 20
"""Messages of a batch; metadata that claims more is ignored. Each needs 6 bytes: an entry of 5 MiB has fewer."""
_SEND_TYPE = b"\x08\x06\x32"
_SHAPE_BYTES = 4  # 08 06 32 n
_SHAPE_STOP_MIN = 8 + _SHAPE_BYTES + 3  # a producer id of one byte and the tags around it
_SEND_SIZES = [size.to_bytes(4, "big") + _SEND_TYPE for size in range(_SHAPE_BYTES + 256)]
"""Command size and type of a SEND, by its command size."""
_ENTRY_BYTES_MIN = 6  # checksum magic and crc, or the metadata size and two bytes of metadata


class SendRun(Slice):
    """SENDs of one connection in their order, cut from one buffer.

    ``heads[i]``: the beginning of the receipt's body of SEND ``i``: producer id and sequence id fields as received,
    then its highest sequence id as field 4 when the SEND had one. ``owners[i]`` is its producer id; None when all are
    of ``producer_id``. ``txn``: most and least significant bits of the transaction that all SENDs name; None for none.
    """

    __slots__ = ("heads", "owners", "producer_id", "txn")

    def __init__(
        self,
        buf: bytes,
        spans: list[int],
        size: int,
        heads: list[bytes],
        counts: list[int] | None,
        producer_id: int,
        owners: list[int] | None = None,
        txn: tuple[int, int] | None = None,
    ) -> None:
        # Slice.__init__ inlined: many runs have one entry, and each would pay for the call.
        self.buf = buf
        self.spans = spans
        self.count = len(heads)
        self.size = size
        self.counts = counts
        self.ledger_id = self.first = -1
        self.facts = None
        self.heads = heads
        self.producer_id = producer_id
        self.owners = owners
        self.txn = txn

    @property
    def first_sequence(self) -> int:
        """Sequence id of the first SEND. Decoded on access; ``head_sequences`` returns those of all SENDs."""
        return _sequences(self.heads[0])[0]

    @property
    def last_sequence(self) -> int:
        """The larger of sequence id and highest sequence id of the last SEND."""
        return max(_sequences(self.heads[-1]))

    def tail(self, start: int) -> "SendRun":
        """Return the SENDs from index ``start`` on (``start < count``), without a place in a ledger."""
        return self.pick(range(start, self.count))

    def pick(self, indexes: Sequence[int]) -> "SendRun":
        """Return the SENDs at ``indexes`` (rising, at least one), without a place in a ledger."""
        spans: list[int] = []
        for i in indexes:
            spans += self.spans[2 * i : 2 * i + 2]
        owners = None if self.owners is None else [self.owners[i] for i in indexes]
        producer_id = self.producer_id if owners is None else owners[0]
        return SendRun(
            self.buf,
            spans,
            span_bytes(spans, 0, len(indexes)),
            [self.heads[i] for i in indexes],
            None if self.counts is None else [self.counts[i] for i in indexes],
            producer_id,
            owners if owners is not None and owners.count(producer_id) < len(owners) else None,
            self.txn,
        )


def _sequences(head: bytes) -> tuple[int, int]:
    """Return (sequence id, highest sequence id or the sequence id) of a head."""
    stop = len(head)
    pos = 2
    while head[pos - 1] > 127:  # skips the producer id
        pos += 1
    sequence, pos = read_varint(head, pos + 1, stop)
    return (sequence, read_varint(head, pos + 1, stop)[0]) if pos < stop else (sequence, sequence)


def head_sequences(heads: list[bytes]) -> list[tuple[int, int]]:
    """Return (sequence id, highest sequence id or the sequence id) by entry, for deduplication of a run that has
    gaps."""
    return [_sequences(head) for head in heads]


_LOW7 = bytes(range(128))
_LOW7_CONTINUED = bytes(range(128, 256))


def following(heads: list[bytes]) -> tuple[int, int] | None:
    """Return (first, last) sequence id of heads whose sequence ids follow one another without a gap, else None.

    None as well when that is not quickly visible. It is visible for one producer's SENDs of single messages, the most
    frequent case.
    """
    first, highest = _sequences(heads[0])
    if len(heads) == 1:
        return first, max(first, highest)
    return (first, first + len(heads) - 1) if _follow(heads, 0) else None


def following_places(heads: list[bytes]) -> tuple[int, int, int] | None:
    """Return (sequence id, first, last highest one) of heads with one sequence id whose highest ones follow without a
    gap, else None; None as well when that is not quickly visible. A replicator's heads name ledger and entry so."""
    sequence, first = _sequences(heads[0])
    return (sequence, first, first + len(heads) - 1) if _follow(heads, 1) else None


def _follow(heads: list[bytes], field: int) -> bool:
    """Return whether the sequence ids (``field`` 0) or the highest ones (1) visibly follow one another, and all other
    bytes are the same. The highest ones are present."""
    ids = _sequences(heads[0])
    start, sequence, count = 0, ids[field], len(heads)
    while start < count:
        # Ids that share all but their lowest seven bits differ in one byte, at the same place.
        stop = min(count, start + 128 - (sequence & 127))
        head = heads[start]
        size, n = len(head), stop - start
        at = read_varint(head, 1, size)[1] + 1
        if field:
            at = read_varint(head, at, size)[1] + 1
        rows = b"".join(heads[start:stop])
        low = sequence & 127
        column = _LOW7 if sequence < 128 else _LOW7_CONTINUED
        if len(rows) != size * n or rows[at::size] != column[low : low + n]:
            return False
        for i in range(size):
            if i != at and rows[i::size] != head[i : i + 1] * n:
                return False
        start = stop
        sequence += n
        if start < count:
            following_ids = _sequences(heads[start])
            if following_ids[field] != sequence or (field and following_ids[0] != ids[0]):
                return False
    return True


# For a sequence id of n bytes: its continuation bits, and their required values (set in all bytes but the last).
_CONTINUED = [int.from_bytes(b"\x80" * n, "little") for n in range(11)]
_LAST_ENDS = [int.from_bytes(b"\x80" * (n - 1), "little") if n else -1 for n in range(11)]


def take_sends(buf: bytes, pos: int, end: int, frame_max: int) -> tuple[int, int, SendRun | None]:
    """Cut the run of SEND frames that starts at ``pos``.

    Returns (position behind the run, why it ended, the run or None when it is empty). ``frame_max`` bounds a frame's
    ``total``. Checksums are verified where present. SENDs with fields other than the message count, the transaction and
    the highest sequence id, and with sequence ids beyond int64, end the run with OTHER, as does the first SEND of
    another transaction. The number of messages in a batch is read from the entry, as later readers from storage will
    do; the count in the command is ignored.
    """
    heads: list[bytes] = []
    spans: list[int] = []
    counts: list[int] | None = None
    add_head, add_span = heads.append, spans.append
    unpack_total, unpack_magic = _TOTAL.unpack_from, _MAGIC.unpack_from
    owners: list[int] | None = None
    producer_id = -1
    # The bytes from the command size up to the sequence id: equal for SENDs of one producer with commands of one
    # length.
    known_start = b""
    # The fields of the transaction, which end the commands of single messages of one transaction.
    txn_fields = b""
    shape_stop = _SHAPE_STOP_MIN
    command_size = continued = last_ends = 0
    size = why = 0
    # Inlined on purpose (docs/decisions/0004): a call or an object for each SEND costs more than all the decoding here.
    # Anything unexpected ends the run, and the slow, complete path parses it.
    while pos + shape_stop < end:
        total = unpack_total(buf, pos)[0]
        stop = pos + 4 + total
        if stop > end or total > frame_max:
            break
        if buf[pos + 4 : pos + shape_stop] != known_start:
            command_size = buf[pos + 11] + _SHAPE_BYTES
            if buf[pos + 4 : pos + 11] != _SEND_SIZES[command_size] or buf[pos + 12] != 0x08:
                break
            owner, id_stop = buf[pos + 13], pos + 14
            if owner > 127:
                owner, id_stop = read_varint(buf, pos + 13, stop)
            sequence_size = pos + 8 + command_size - id_stop - 1
            if id_stop < 0 or sequence_size < 1 or id_stop >= stop or buf[id_stop] != 0x10:
                break
            shape_stop = id_stop + 1 - pos
            known_start = buf[pos + 4 : pos + shape_stop]
            # A number of ten bytes is beyond int64; the slow path refuses it.
            checked = sequence_size if sequence_size <= 9 else 0
            before = 8 * (shape_stop - 12)  # bits of the head before the sequence id
            continued, last_ends = _CONTINUED[checked] << before, _LAST_ENDS[checked] << before
            if txn_fields:
                continued, last_ends = _ends_of_txn(sequence_size, before, txn_fields)
            if owner != producer_id:
                if owners is None and heads:
                    owners = [producer_id] * len(heads)
                producer_id = owner
        start = pos + 8 + command_size
        if start + _ENTRY_BYTES_MIN > stop:
            break
        head = buf[pos + 12 : start]
        if int.from_bytes(head, "little") & continued != last_ends:
            fields = _rare_fields(buf, pos + shape_stop, start)
            if fields is None:
                break
            sequence_stop, highest, named = fields
            if named != txn_fields:
                if heads:
                    break
                txn_fields = named
                before = 8 * (shape_stop - 12)
                continued, last_ends = _ends_of_txn(start - pos - shape_stop, before, named)
            head = buf[pos + 12 : sequence_stop] + highest + named
            messages = messages_in(buf, start, stop)
            if messages != 1 and counts is None:
                counts = [1] * len(heads)
            if counts is not None:
                counts.append(messages)
        elif counts is not None:
            counts.append(1)
        magic, checksum = unpack_magic(buf, start)
        source = buf if total < LARGE_ENTRY_BYTES else memoryview(buf)
        if magic == CHECKSUM_MAGIC and crc32c(source[start + 6 : stop]) != checksum:
            if counts is not None:
                counts = counts[: len(heads)]
            why = BAD_CHECKSUM
            break
        add_head(head)
        if owners is not None:
            owners.append(producer_id)
        add_span(start)
        add_span(stop)
        size += stop - start
        pos = stop
    if why != BAD_CHECKSUM and pos != end:
        why = _why(buf, pos, end, frame_max)
    if not heads:
        return pos, why, None
    if owners is not None:
        producer_id = owners[0]
    if not txn_fields:
        return pos, why, SendRun(buf, spans, size, heads, counts, producer_id, owners)
    heads = [head[: -len(txn_fields)] for head in heads]
    txn = _txn_of(txn_fields)
    return pos, why, SendRun(buf, spans, size, heads, counts, producer_id, owners, txn)


def _ends_of_txn(size: int, before: int, txn_fields: bytes) -> tuple[int, int]:
    """Return the bits of a head that are compared, and their required values: the ends of a sequence id behind
    ``before`` bits, then ``txn_fields``. ``size``: bytes of both."""
    sequence_size = size - len(txn_fields)
    if not 0 < sequence_size <= 9:
        return 0, -1
    behind = before + 8 * sequence_size
    whole = (1 << 8 * len(txn_fields)) - 1
    return (
        _CONTINUED[sequence_size] << before | whole << behind,
        _LAST_ENDS[sequence_size] << before | int.from_bytes(txn_fields, "little") << behind,
    )


def _txn_of(fields: bytes) -> tuple[int, int]:
    """Return the most and the least significant bits in the two fields of a transaction."""
    stop = len(fields)
    least, pos = read_varint(fields, 1, stop)
    return read_varint(fields, pos + 1, stop)[0], least


def _why(buf: bytes, pos: int, end: int, frame_max: int) -> int:
    """Return why a kernel stopped before the frame at ``pos``, from the frame alone."""
    if pos + 4 > end:
        return NEED
    total = _TOTAL.unpack_from(buf, pos)[0]
    if total > frame_max:
        return TOO_LARGE
    return NEED if pos + 4 + total > end else OTHER


def _rare_fields(buf: bytes, pos: int, stop: int) -> tuple[int, bytes, bytes] | None:
    """Parse the sequence id, then optionally message count, transaction and highest sequence id, in this order and
    nothing else.

    Returns (end of the sequence id, the highest sequence id as the receipt's field 4 or empty, the transaction's fields
    or empty); None for anything else.
    """
    sequence, pos = read_varint(buf, pos, stop)
    if pos < 0 or sequence >= _INT64_END:
        return None
    sequence_stop, highest = pos, b""
    if pos < stop and buf[pos] == 0x18:
        messages, pos = read_varint(buf, pos + 1, stop)
        if pos < 0 or not 0 < messages < 1 << 31:
            return None
    txn_at = pos
    if pos < stop and buf[pos] == 0x20:
        _, pos = read_varint(buf, pos + 1, stop)
        if pos < 0 or pos >= stop or buf[pos] != 0x28:
            return None
        _, pos = read_varint(buf, pos + 1, stop)
        if pos < 0:
            return None
    txn_fields = buf[txn_at:pos]
    if pos < stop and buf[pos] == 0x30:
        last, after = read_varint(buf, pos + 1, stop)
        if after < 0 or not sequence <= last < _INT64_END:
            return None
        highest = b"\x20" + buf[pos + 1 : after]
        pos = after
    return (sequence_stop, highest, txn_fields) if pos == stop else None


def build_receipts(
    ledger_id: int, first_entry: int, heads: list[bytes], start: int, stop: int
) -> bytes:
    """Build SEND_RECEIPT frames for ``heads[start:stop]``; ``first_entry`` is the entry id of ``heads[start]``.

    Entries without a place in a ledger (ledger id -1) all have the id 0:0.
    """
    step = 1
    if ledger_id < 0:
        ledger_id = first_entry = step = 0
    parts: list[bytes] = []
    pack = _HEAD.pack
    ledger = b"\x08" + varint(ledger_id) + b"\x10"
    entry = first_entry
    high, high_of = b"", -1
    # (bytes before and behind the head) by (length of head, length of message id); a run has one to three of them.
    frames: dict[tuple[int, int], tuple[bytes, bytes]] = {}
    for head in heads[start:stop]:
        if entry < 16384:
            number = SHORT14[entry]
        else:
            if entry >> 14 != high_of:
                high_of = entry >> 14
                high = varint(high_of)
            number = LOW14[entry & 16383] + high
        key = (len(head), len(number))
        around = frames.get(key)
        if around is None:
            id_size = len(ledger) + len(number)
            n = len(head) + 2 + id_size
            around = frames[key] = (
                pack(n + 8, n + 4, 0x0807, 0x3A, n),
                b"\x1a" + bytes((id_size,)) + ledger,
            )
        parts += (around[0], head, around[1], number)
        entry += step
    return b"".join(parts)


def build_sends(
    producer_id: int,
    sequences: Sequence[int],
    entries: Sequence[bytes | memoryview],
    counts: Sequence[int] | None = None,
    *,
    highest: bool = False,
) -> list[bytes | memoryview]:
    """Build SEND frames of ``entries``, in parts. ``counts``: messages of each, None when all are single.

    ``highest``: each message has a sequence id of its own, so the last one of a batch is sent as well.
    """
    parts: list[bytes | memoryview] = []
    pack = _HEAD.pack
    producer = b"\x08" + varint(producer_id) + b"\x10"
    for i, entry in enumerate(entries):
        body = producer + varint(sequences[i])
        if counts is not None and counts[i] > 1:
            body += b"\x18" + varint(counts[i])
            if highest:
                body += b"\x30" + varint(sequences[i] + counts[i] - 1)
        n = len(body)
        parts.append(pack(n + 8 + len(entry), n + 4, 0x0806, 0x32, n) + body)
        parts.append(entry)
    return parts


def build_messages(
    consumer_id: int,
    run: Slice,
    indexes: Sequence[int],
    redelivery_counts: Sequence[int] | None = None,
    consumer_epoch: int | None = None,
    partition: int = -1,
    *,
    bare: bool = True,
) -> list[bytes | memoryview]:
    """Build MESSAGE frames for the entries ``indexes`` (rising) of a slice. Without a place in a ledger all have the id
    0:0.

    ``bare``: entries are sent as their producers sent them, without the broker's metadata before them.
    ``redelivery_counts[i]`` belongs to entry ``indexes[i]``. Small entries are returned as one joined part. Those of a
    slice of entries above LARGE_ENTRY_BYTES on average are returned as heads and views of its buffer, which must not be
    joined again.
    """
    buf, spans = run.buf, run.spans
    if bare and (_is_stamped(buf, spans[0]) or _is_stamped(buf, spans[-2])):
        spans = _bare_spans(buf, spans)
    large = run.size > LARGE_ENTRY_BYTES * run.count
    source: bytes | memoryview = memoryview(buf) if large else buf
    parts: list[bytes | memoryview] = []
    add = parts.append
    pack = _HEAD.pack
    consumer = b"\x08" + varint(consumer_id) + b"\x12"
    placed = run.ledger_id >= 0
    ledger = b"\x08" + varint(run.ledger_id if placed else 0) + b"\x10"
    behind_id = b"\x18" + varint(partition) if partition >= 0 else b""
    behind = b"\x28" + varint(consumer_epoch) if consumer_epoch is not None else b""
    redelivered = iter(redelivery_counts) if redelivery_counts is not None else None
    first = run.first
    high, high_of = b"", -1
    for i in indexes:
        entry = first + i if placed else 0
        if entry < 16384:
            number = SHORT14[entry]
        else:
            if entry >> 14 != high_of:
                high_of = entry >> 14
                high = varint(high_of)
            number = LOW14[entry & 16383] + high
        message_id = ledger + number + behind_id
        body = consumer + bytes((len(message_id),)) + message_id
        if redelivered is not None and (count := next(redelivered)):
            body += b"\x18" + varint(count)
        body += behind
        a, b = spans[2 * i], spans[2 * i + 1]
        n = len(body)
        add(pack(n + 8 + b - a, n + 4, 0x0809, 0x4A, n) + body)
        add(source[a:b])
    return parts if large else [b"".join(parts)]


def stamped(run: Slice, time_ms: int | None, index: int | None) -> Slice:
    """Return the entries of ``run`` in a new buffer, each with the broker's metadata before it.

    ``time_ms``: the time, None for none. ``index``: index of the first message, None for no indexes; an entry has the
    index of its last message.
    """
    buf, spans, counts = run.buf, run.spans, run.counts
    source: bytes | memoryview = buf
    if run.size > LARGE_ENTRY_BYTES * run.count:
        source = memoryview(buf)
    time = b"" if time_ms is None else b"\x08" + varint(time_ms)
    parts: list[bytes | memoryview] = []
    add = parts.append
    fronts: dict[int, bytes] = {}
    placed: list[int] = []
    pos = 0
    for i in range(run.count):
        number = b""
        if index is not None:
            number = varint(index if counts is None else index + counts[i] - 1)
            index += 1 if counts is None else counts[i]
        front = fronts.get(len(number))
        if front is None:
            size = len(time) + (1 + len(number) if number else 0)
            front = _MAGIC.pack(BROKER_METADATA_MAGIC, size) + time + (b"\x10" if number else b"")
            fronts[len(number)] = front
        a, b = spans[2 * i], spans[2 * i + 1]
        add(front)
        add(number)
        add(source[a:b])
        placed.append(pos)
        pos += len(front) + len(number) + b - a
        placed.append(pos)
    stamped_run = Slice(b"".join(parts), placed, pos, counts)
    stamped_run.facts = run.facts
    return stamped_run


def entry_stamp(entry: bytes) -> tuple[int | None, int | None]:
    """Return (time in epoch milliseconds, index) that a broker put before an entry; None for a missing one."""
    values: dict[int, int] = {}
    if len(entry) > _MAGIC.size and _is_stamped(entry, 0):
        pos = _MAGIC.size
        stop = min(pos + _MAGIC.unpack_from(entry)[1], len(entry))
        while 0 <= pos < stop:
            tag, pos = read_varint(entry, pos, stop)
            if pos >= 0 and tag in (0x08, 0x10):
                values[tag], pos = read_varint(entry, pos, stop)
            elif pos >= 0:
                pos = skip_field(entry, pos, stop, tag & 7)
        if pos < 0:
            values = {}
    return values.get(0x08), values.get(0x10)


def _is_stamped(buf: bytes, start: int) -> bool:
    return buf[start : start + 2] == b"\x0e\x02"


def bare(entry: bytes) -> bytes:
    """Return ``entry`` as its producer sent it."""
    return entry[_bare_spans(entry, [0, len(entry)])[0] :]


def _bare_spans(buf: bytes, spans: list[int]) -> list[int]:
    """Return the spans without broker metadata. All entries of a ledger have it or none has. A client may send bytes
    that only look like it; such an entry is unchanged."""
    bare_spans = spans.copy()
    for i in range(0, len(spans), 2):
        start, stop = spans[i], spans[i + 1]
        if _is_stamped(buf, start) and start + 6 <= stop:
            behind = start + 6 + _MAGIC.unpack_from(buf, start)[1]
            if behind <= stop:
                bare_spans[i] = behind
    return bare_spans


def take_acks(buf: bytes, pos: int, end: int) -> tuple[int, int, int, list[Position]]:
    """Cut the run of plain individual ACK frames of one consumer.

    Plain: message ids of ledger and entry alone (any number), no request id, transaction, batch index or error. Returns
    (position behind the run, why it ended: NEED or OTHER, consumer id, positions).
    """
    positions: list[Position] = []
    add = positions.append
    make = tuple.__new__
    unpack_total = _TOTAL.unpack_from
    consumer = ledger = -1
    id_prefix, id_prefix_total, entry_at = b"", 0, 0
    while pos + 4 < end:
        total = unpack_total(buf, pos)[0]
        stop = pos + 4 + total
        if stop > end:
            break
        if total == id_prefix_total and buf[pos + 8 : pos + entry_at] == id_prefix:
            entry, after = read_varint(buf, pos + entry_at, stop)
            if after == stop and entry < _INT64_END:
                add(make(Position, (ledger, entry)))
                pos = stop
                continue
        ack = _plain_ack(buf, pos, stop)
        if ack is None or (positions and ack[0] != consumer):
            break
        consumer, ids, entry_at = ack
        positions += ids
        if len(ids) == 1:
            ledger = ids[0].ledger_id
            entry_at -= pos
            id_prefix, id_prefix_total = buf[pos + 8 : pos + entry_at], total
        pos = stop
    return pos, _why(buf, pos, end, 1 << 32), consumer, positions


def _plain_ack(buf: bytes, pos: int, stop: int) -> tuple[int, list[Position], int] | None:
    """Return (consumer id, positions, where the last entry id starts) of one complete plain individual ACK frame, else
    None."""
    if stop - pos < 21 or _SIZES.unpack_from(buf, pos)[1] != stop - pos - 8:
        return None
    if buf[pos + 8 : pos + 11] != b"\x08\x0a\x52":
        return None
    size, pos = read_varint(buf, pos + 11, stop)
    if pos < 0 or pos + size != stop or buf[pos] != 0x08:
        return None
    consumer, pos = read_varint(buf, pos + 1, stop)
    if pos < 0 or buf[pos : pos + 2] != b"\x10\x00":
        return None
    pos += 2
    positions: list[Position] = []
    entry_at = -1
    while pos < stop:
        id_stop = pos + 2 + buf[pos + 1] if pos + 1 < stop else stop + 1
        if buf[pos] != 0x1A or id_stop > stop or buf[pos + 1] > 127 or buf[pos + 2] != 0x08:
            return None
        ledger, pos = read_varint(buf, pos + 3, id_stop)
        if pos < 0 or pos >= id_stop or buf[pos] != 0x10:
            return None
        entry_at = pos + 1
        entry, pos = read_varint(buf, entry_at, id_stop)
        # The ids "before the first" and "after the last" are beyond int64; the slow path parses them.
        if pos != id_stop or ledger >> 63 or entry >> 63:
            return None
        positions.append(Position(ledger, entry))
    return (consumer, positions, entry_at) if positions else None


def batch_sizes(buf: bytes, spans: list[int]) -> list[int] | None:
    """Return the number of messages by entry, as ``messages_in`` does; None when all are single."""
    sizes: list[int] | None = None
    for i in tagged(buf, spans, (b"\x58",)):  # num_messages_in_batch, field 11
        count = messages_in(buf, spans[2 * i], spans[2 * i + 1])
        if count > 1:
            if sizes is None:
                sizes = [1] * (len(spans) >> 1)
            sizes[i] = count
    return sizes


def messages_in(buf: bytes, start: int, stop: int) -> int:
    """Return the number of messages in the entry ``buf[start:stop]``: num_messages_in_batch of its metadata; 1 when
    that is absent, cannot be read or is not from 1 to BATCH_MESSAGES_MAX."""
    span = metadata_span(buf, start, stop)
    return 1 if span is None else _messages_in_batch(buf, *span)


def _messages_in_batch(buf: bytes, pos: int, stop: int) -> int:
    try:
        count: int = pb.MessageMetadata.FromString(buf[pos:stop]).num_messages_in_batch
    except DecodeError:
        return 1
    return count if 0 < count <= BATCH_MESSAGES_MAX else 1


def is_encrypted(buf: bytes, pos: int, stop: int) -> bool:
    """Return whether an entry's metadata names a key that its payload was encrypted with."""
    span = metadata_span(buf, pos, stop)
    if span is None:
        return False
    pos, stop = span
    while 0 <= pos < stop:
        tag, pos = read_varint(buf, pos, stop)
        if pos < 0:
            break
        if tag == 0x6A:
            return True
        pos = skip_field(buf, pos, stop, tag & 7)
    return False
