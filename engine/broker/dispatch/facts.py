"""Facts that dispatch needs of entries (D5, D6), computed once per slice and stored on it for all subscriptions.

Most entries are plain: they may be sent to any consumer at any time, and one search over the bytes of their slice
proves it. The bytes searched for may occur by chance; then the metadata is decoded.
"""

from base64 import b64decode
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from google.protobuf.message import DecodeError

from engine.base.slices import Slice, View
from engine.broker.dispatch.choose.keys import SlotOf
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import read_metadata
from engine.wire.kernels import metadata_span

DELIVER_AT_TAG = b"\x98\x01"
"""Tag of MessageMetadata.deliver_at_time, field 19."""
UUID_TAG = b"\xd2\x01"
"""Tag of MessageMetadata.uuid, field 26, which only chunks have."""
_TAGS = (DELIVER_AT_TAG, UUID_TAG)
_LARGE_ENTRY_BYTES = 2048
"""Mean size of entries above which only their metadata is searched, not all their bytes."""
_RARE = 50
"""Occurrences of one byte in a slice up to which single bytes are searched for."""
CHUNK_BYTES = 64 << 10
"""Mean size of entries below which chunks are not counted. Only statistics depend on it, no order."""


UUID_MAX = 200
"""Characters of a chunked message's uuid, which clients derive from a producer's name. A longer one is digested."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Chunk number ``index`` of ``count`` of the message ``uuid``."""

    uuid: str
    index: int
    count: int


class EntryFacts(NamedTuple):
    """Facts of an entry that is not plain. ``deliver_at_ms``: delivery time, ms since the epoch; 0: at once."""

    deliver_at_ms: int
    chunk: Chunk | None


class SliceFacts:
    """Facts of a slice. ``special``: facts of the entries that are not plain, by index in the slice."""

    __slots__ = ("_slots", "special")

    def __init__(self, run: Slice) -> None:
        self._slots: dict[SlotOf, list[int]] | None = None
        self.special: dict[int, EntryFacts] = {}
        if _may_be_special(run):
            for i in range(run.count):
                facts = _entry_facts(run, i)
                if facts is not None:
                    self.special[i] = facts

    def part(self, start: int, stop: int) -> "SliceFacts":
        """Return the facts of a slice of the entries ``start`` (inclusive) to ``stop``."""
        part = SliceFacts.__new__(SliceFacts)
        known, special = self._slots, self.special
        part._slots = known and {slot_of: slots[start:stop] for slot_of, slots in known.items()}
        part.special = {i - start: special[i] for i in range(start, stop) if i in special}
        return part

    def slots(self, run: Slice, slot_of: SlotOf) -> list[int]:
        """Return the slots of the keys of all entries of ``run``, whose facts these are."""
        if self._slots is None:
            self._slots = {}
        slots = self._slots.get(slot_of)
        if slots is None:
            slots = self._slots[slot_of] = [slot_of(_key(run, i)) for i in range(run.count)]
        return slots


def facts_of(run: Slice) -> SliceFacts:
    """Return the facts of all entries of ``run``, computed at the first call."""
    facts: SliceFacts | None = run.facts
    if facts is None:
        facts = run.facts = SliceFacts(run)
    return facts


def chunks_of(view: View) -> int:
    """Return how many entries of ``view`` are chunks."""
    special = facts_of(view.run).special
    view_facts = [special.get(i) for i in view.indexes] if special else ()
    return sum(facts is not None and facts.chunk is not None for facts in view_facts)


def _key(run: Slice, i: int) -> bytes:
    """Return an entry's ordering key, or else its key.

    For an entry with neither: its producer and sequence id, so that such entries are spread over the consumers. Empty
    for an entry whose metadata cannot be decoded.
    """
    buf = run.buf
    span = metadata_span(buf, run.spans[2 * i], run.spans[2 * i + 1])
    if span is None:
        return b""
    try:
        metadata = pb.MessageMetadata.FromString(buf[span[0] : span[1]])
    except DecodeError:
        return b""
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    text: str | bytes = metadata.partition_key
    if not text and not metadata.HasField("partition_key"):
        return f"{metadata.producer_name}-{metadata.sequence_id}".encode()
    # Protobuf returns bytes that are not UTF-8 as bytes.
    key = text.encode() if isinstance(text, str) else text
    if not metadata.partition_key_b64_encoded:
        return key
    try:
        return b64decode(key)
    except ValueError:
        return key


def _may_be_special(run: Slice) -> bool:
    """Return whether any entry may not be plain. Where entries are small, one search costs less than their metadata."""
    buf, spans = run.buf, run.spans
    if run.size > _LARGE_ENTRY_BYTES * run.count:
        return True
    return any(_holds(buf, tag, spans[0], spans[-1]) for tag in _TAGS)


def _holds(buf: bytes, tag: bytes, start: int, stop: int) -> bool:
    """Return whether the two bytes of ``tag`` are in ``buf``.

    A rare byte is searched for alone, which is ten times as fast as a search for two.
    """
    first, second = tag[:1], tag[1]
    at = start - 1
    for _ in range(_RARE):
        at = buf.find(first, at + 1, stop - 1)
        if at < 0:
            return False
        if buf[at + 1] == second:
            return True
    return buf.find(tag, at + 1, stop) >= 0


def short_uuid(uuid: str | bytes) -> str:
    """Return ``uuid`` or, when it is long, a digest, so that tables by uuid are bounded in bytes."""
    if len(uuid) <= UUID_MAX and isinstance(uuid, str):
        return uuid
    return sha256(uuid.encode() if isinstance(uuid, str) else uuid).hexdigest()


def _entry_facts(run: Slice, i: int) -> EntryFacts | None:
    """Return the facts of an entry; None for a plain one, and for one whose metadata cannot be decoded."""
    buf = run.buf
    span = metadata_span(buf, run.spans[2 * i], run.spans[2 * i + 1])
    if span is None or all(buf.find(tag, *span) < 0 for tag in _TAGS):
        return None
    metadata = read_metadata(run.entry(i))
    if metadata is None:
        return None
    chunk = None
    if metadata.num_chunks_from_msg > 1 and metadata.uuid:
        chunk = Chunk(short_uuid(metadata.uuid), metadata.chunk_id, metadata.num_chunks_from_msg)
    at_ms = metadata.deliver_at_time
    return EntryFacts(at_ms, chunk) if chunk is not None or at_ms > 0 else None
