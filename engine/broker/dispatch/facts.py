"""What dispatch must know of entries (D5, D6): worked out once per slice and kept on it, for all subscriptions.

Most entries are plain: they go to anyone at any time, and one search over the bytes of their slice shows it. What a
search finds may stand there by chance; then the metadata decides.
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
"""MessageMetadata.deliver_at_time, field 19."""
UUID_TAG = b"\xd2\x01"
"""MessageMetadata.uuid, field 26: only chunks carry it."""
_TAGS = (DELIVER_AT_TAG, UUID_TAG)
_LARGE_ENTRY_BYTES = 2048
_RARE = 50
CHUNK_BYTES = 64 << 10
"""Where no order depends on it, runs of smaller entries are not looked at for chunks."""


UUID_MAX = 200
"""Characters of a chunked message's uuid; of a longer one there is a digest. Clients make it of a producer's name."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece: ``index`` of ``count`` of the message ``uuid``."""

    uuid: str
    index: int
    count: int


class EntryFacts(NamedTuple):
    """``deliver_at_ms``: when it is to be delivered, ms since the epoch; 0: at once."""

    deliver_at_ms: int
    chunk: Chunk | None


class SliceFacts:
    """``special``: facts of those entries that are not plain, by index in the slice."""

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
        """Facts of a slice of the entries ``start`` (inclusive) to ``stop``."""
        made = SliceFacts.__new__(SliceFacts)
        known, special = self._slots, self.special
        made._slots = known and {slot_of: slots[start:stop] for slot_of, slots in known.items()}
        made.special = {i - start: special[i] for i in range(start, stop) if i in special}
        return made

    def slots(self, run: Slice, slot_of: SlotOf) -> list[int]:
        """Slots of the keys of all entries of ``run``, whose facts these are."""
        if self._slots is None:
            self._slots = {}
        found = self._slots.get(slot_of)
        if found is None:
            found = self._slots[slot_of] = [slot_of(_key(run, i)) for i in range(run.count)]
        return found


def facts_of(run: Slice) -> SliceFacts:
    """Facts of all entries of ``run``."""
    facts: SliceFacts | None = run.facts
    if facts is None:
        facts = run.facts = SliceFacts(run)
    return facts


def chunks_of(view: View) -> int:
    """How many entries of ``view`` are chunks."""
    special = facts_of(view.run).special
    found = [special.get(i) for i in view.indexes] if special else ()
    return sum(facts is not None and facts.chunk is not None for facts in found)


def _key(run: Slice, i: int) -> bytes:
    """The ordering key, or else the key. What has none goes by its producer and number, so that it is spread; what
    cannot be read goes together."""
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
    key = text.encode() if isinstance(text, str) else text  # bytes when it is no UTF-8
    if not metadata.partition_key_b64_encoded:
        return key
    try:
        return b64decode(key)
    except ValueError:
        return key


def _may_be_special(run: Slice) -> bool:
    """One search over all bytes where entries are small: it costs less than to find their metadata."""
    buf, spans = run.buf, run.spans
    if run.size > _LARGE_ENTRY_BYTES * run.count:
        return True
    return any(_holds(buf, tag, spans[0], spans[-1]) for tag in _TAGS)


def _holds(buf: bytes, tag: bytes, start: int, stop: int) -> bool:
    """Whether the two bytes of ``tag`` are in ``buf``: one byte is found ten times as fast as two, while it is rare."""
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
    """A name of the same message that is short: whoever remembers messages by it is bounded in bytes, too."""
    if len(uuid) <= UUID_MAX and isinstance(uuid, str):
        return uuid
    return sha256(uuid.encode() if isinstance(uuid, str) else uuid).hexdigest()


def _entry_facts(run: Slice, i: int) -> EntryFacts | None:
    """None for a plain entry, and for one whose metadata cannot be read."""
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
