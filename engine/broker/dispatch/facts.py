"""Facts of entries (D5, D6, D17), computed once per slice and stored on it for all who read it.

A reader declares which facts it wants: only for those the bytes are searched. Most entries are plain, which one search
over the bytes of their slice proves: they may be sent to any consumer at any time. The bytes searched for may occur by
chance; then the metadata is decoded.
"""

import re
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

from google.protobuf.message import DecodeError

from engine.base.slices import Slice, View
from engine.broker.dispatch.choose.keys import SlotOf
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import read_metadata
from engine.wire.geo.source_positions import common_origin
from engine.wire.kernels import metadata_span, tagged
from engine.wire.texts import readable

DELIVERY, CHUNK, MARKER, TRANSACTION, ORIGIN = 1, 2, 4, 8, 16
"""Facts that a reader may want, as bits: the delivery time, the place in a chunked message, whether an entry is a
marker, its transaction, the clusters that it comes from and goes to."""
DISPATCH = DELIVERY | CHUNK | MARKER
"""Facts that dispatch to several consumers wants."""
_TAGS = (
    (DELIVERY, b"\x98\x01"),  # deliver_at_time, field 19
    (CHUNK, b"\xd2\x01"),  # uuid, field 26, which only chunks have
    (MARKER, b"\xa0\x01"),  # marker_type, field 20
    (TRANSACTION, b"\xb8\x01"),  # txnid_most_bits, field 23
    (ORIGIN, b"\x2a"),  # replicated_from, field 5
    (ORIGIN, b"\x3a"),  # replicate_to, field 7
)
"""Tags of the fields of MessageMetadata that the facts are read from."""
_TAGS_OF = [tuple(tag for fact, tag in _TAGS if wanted & fact) for wanted in range(2 * ORIGIN)]
_LARGE_ENTRY_BYTES = 2048
"""Mean size of entries above which only their metadata is searched, not all their bytes."""
_SHORT_ENTRY_BYTES = 320
"""Mean size of entries up to which a search of all their bytes for two bytes costs less than one of their metadata."""
_PATTERNS = {tag: re.compile(re.escape(tag)) for _, tag in _TAGS if len(tag) > 1}
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
    """Facts of an entry that is not plain. ``deliver_at_ms``: delivery time, ms since the epoch; 0: at once.

    ``marker``: type of a marker, an entry that a broker wrote for brokers; None for a message. ``transaction``: most
    and least significant 64 bits of its id. ``replicated_from``: cluster of the producer, empty for this one.
    ``replicate_to``: the only clusters to copy it to; empty without a restriction, and for entries of other clusters
    also where they have one.
    """

    deliver_at_ms: int = 0
    chunk: Chunk | None = None
    marker: int | None = None
    transaction: tuple[int, int] | None = None
    replicated_from: str = ""
    replicate_to: tuple[str, ...] = ()


PLAIN = EntryFacts()


class SliceFacts:
    """Facts of a slice. ``known``: the wanted ones. ``special``: facts of the entries that are not plain, by index in
    the slice. ``markers``: indexes of the markers. ``transaction``: the one that all entries were published in; None
    when that is not known."""

    __slots__ = ("_slots", "known", "markers", "special", "transaction")

    def __init__(self, run: Slice, wanted: int) -> None:
        self._slots: dict[SlotOf, list[int]] | None = None
        self.transaction: tuple[int, int] | None = None
        self.known = wanted
        self.special = _special_of(run, wanted)
        self.markers = _markers_of(self.special) if self.special else ()

    def part(self, start: int, stop: int) -> "SliceFacts":
        """Return the facts of a slice of the entries ``start`` (inclusive) to ``stop``."""
        part = SliceFacts.__new__(SliceFacts)
        known, special = self._slots, self.special
        part._slots = known and {slot_of: slots[start:stop] for slot_of, slots in known.items()}
        part.transaction = self.transaction
        part.known = self.known
        part.special = {i - start: special[i] for i in range(start, stop) if i in special}
        part.markers = _markers_of(part.special)
        return part

    def slots(self, run: Slice, slot_of: SlotOf) -> list[int]:
        """Return the slots of the keys of all entries of ``run``, whose facts these are."""
        if self._slots is None:
            self._slots = {}
        slots = self._slots.get(slot_of)
        if slots is None:
            slots = self._slots[slot_of] = [slot_of(key_of(run, i)) for i in range(run.count)]
        return slots


def facts_of(run: Slice, wanted: int = DISPATCH) -> SliceFacts:
    """Return at least the ``wanted`` facts of all entries of ``run``, computed at the first call that wants them."""
    facts: SliceFacts | None = run.facts
    if facts is None:
        facts = run.facts = SliceFacts(run, wanted)
    elif missing := wanted & ~facts.known:
        facts.known |= wanted
        more = _special_of(run, missing)
        # Of entries of another cluster ``_special_of`` may return their origin alone.
        both = (more, facts.special) if missing & ORIGIN else (facts.special, more)
        facts.special = {**both[0], **both[1]}
        facts.markers = _markers_of(facts.special)
    return facts


def hidden_of(run: Slice, wanted: int, aborted: Collection[tuple[int, int]]) -> Collection[int]:
    """Return the indexes of the entries of ``run`` that no consumer receives: markers, and messages of ``aborted``
    transactions. Compute the ``wanted`` facts, which include MARKER."""
    if not aborted:
        return facts_of(run, wanted).markers
    if run.facts is not None and run.facts.transaction is not None:
        if run.facts.transaction in aborted:
            return range(run.count)
        return facts_of(run, wanted).markers
    special = facts_of(run, wanted | TRANSACTION).special
    return [
        i
        for i, facts in special.items()
        if facts.marker is not None or facts.transaction in aborted
    ]


def chunks_of(view: View) -> int:
    """Return how many entries of ``view`` are chunks."""
    special = facts_of(view.run, CHUNK).special
    view_facts = [special.get(i) for i in view.indexes] if special else ()
    return sum(facts is not None and facts.chunk is not None for facts in view_facts)


def key_of(run: Slice, i: int) -> bytes:
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


def _markers_of(special: dict[int, EntryFacts]) -> tuple[int, ...]:
    return tuple(i for i, facts in special.items() if facts.marker is not None)


def _special_of(run: Slice, wanted: int) -> dict[int, EntryFacts]:
    """Return the facts of the entries that are not plain, at least the ``wanted`` ones, by index."""
    special: dict[int, EntryFacts] = {}
    if wanted & ORIGIN and (origin := common_origin(run)):
        # One object for all of them. The clusters that such an entry may go to do not matter: it goes to none.
        special = dict.fromkeys(range(run.count), EntryFacts(replicated_from=readable(origin)))
        wanted &= ~ORIGIN
    for i in places_of(run, _TAGS_OF[wanted]) if wanted else ():
        facts = _entry_facts(run, i)
        if facts != PLAIN:
            special[i] = facts
    return special


def places_of(run: Slice, tags: Sequence[bytes]) -> Collection[int]:
    """Return the indexes of the entries in whose metadata the bytes of any of ``tags`` are."""
    buf, spans = run.buf, run.spans
    # What was read from bookies may lie in the order in which it arrived, where one search would miss entries.
    if run.size > _LARGE_ENTRY_BYTES * run.count or spans != sorted(spans):
        return tagged(buf, spans, tags)
    # Where entries are small, one search of all their bytes costs less than one of the metadata of each, unless the
    # bytes of a tag are frequent.
    places: set[int] = set()
    frequent: list[bytes] = []
    for tag in tags:
        positions = _positions_of(run, tag)
        if positions is None:
            frequent.append(tag)
        elif positions:
            places.update(_entries_at(run, positions, len(tag)))
    if frequent:
        places.update(tagged(buf, spans, frequent))
    return places if len(places) < 2 else sorted(places)


def _positions_of(run: Slice, tag: bytes) -> list[int] | None:
    """Return where in the buffer of ``run`` the bytes of ``tag`` are, None when they are too frequent for a search."""
    buf, at, stop = run.buf, run.spans[0], run.spans[-1]
    first, last, width = tag[:1], tag[-1], len(tag) - 1
    most = (run.count >> 3) + 2
    positions: list[int] = []
    for _ in range(most):
        at = buf.find(first, at, stop - width)  # ten times as fast as a search for two bytes
        if at < 0:
            return positions
        if buf[at + width] == last:
            positions.append(at)
        at += 1
    if tag not in _PATTERNS or stop - run.spans[0] > _SHORT_ENTRY_BYTES * run.count:
        return None
    # The first byte is frequent, as in compressed payloads; both bytes together need not be.
    positions += [match.start() for match in islice(_PATTERNS[tag].finditer(buf, at, stop), most)]
    return positions if len(positions) < most else None


def _entries_at(run: Slice, positions: list[int], width: int) -> Iterator[int]:
    """Yield the indexes of the entries in whose metadata the ``width`` bytes at any of ``positions`` are."""
    spans = run.spans
    for at in positions:
        k = bisect_right(spans, at)
        # Where k is even, the position is between two entries, in what a client sent around them.
        span = metadata_span(run.buf, spans[k - 1], spans[k]) if k & 1 else None
        if span is not None and span[0] <= at <= span[1] - width:
            yield k >> 1


def short_uuid(uuid: str | bytes) -> str:
    """Return ``uuid`` or, when it is long, a digest, so that tables by uuid are bounded in bytes."""
    if len(uuid) <= UUID_MAX and isinstance(uuid, str):
        return uuid
    return sha256(uuid.encode() if isinstance(uuid, str) else uuid).hexdigest()


def _entry_facts(run: Slice, i: int) -> EntryFacts:
    """Return the facts of an entry; PLAIN for one whose metadata cannot be decoded."""
    metadata = read_metadata(run.entry(i))
    if metadata is None:
        return PLAIN
    chunk = marker = transaction = None
    if metadata.num_chunks_from_msg > 1 and metadata.uuid:
        chunk = Chunk(short_uuid(metadata.uuid), metadata.chunk_id, metadata.num_chunks_from_msg)
    if metadata.HasField("marker_type"):
        marker = metadata.marker_type
    if metadata.HasField("txnid_most_bits") and metadata.HasField("txnid_least_bits"):
        transaction = metadata.txnid_most_bits, metadata.txnid_least_bits
    return EntryFacts(
        max(metadata.deliver_at_time, 0),
        chunk,
        marker,
        transaction,
        readable(metadata.replicated_from),
        tuple(map(readable, metadata.replicate_to)),
    )
