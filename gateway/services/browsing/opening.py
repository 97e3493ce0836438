"""Unpacking of a stored entry into what a person browses: messages, and what is stored beside them. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import (
    BatchFormatError,
    Message,
    single_message,
    split_entry,
    unpack_entry,
)
from engine.wire.compression import CompressionError, codec_name
from engine.wire.texts import readable


class Kind(StrEnum):
    """Kind of the content at a position. A chunk is a part of a message; a marker is an entry of a broker, which no
    consumer receives; an entry that cannot be decoded is damaged."""

    MESSAGE = "message"
    CHUNK = "chunk"
    ENCRYPTED = "encrypted"
    MARKER = "marker"
    DAMAGED = "damaged"


class EntryNote(NamedTuple):
    """Facts of an entry that was not read from storage: how it is stored, or why it cannot be read."""

    compression: str
    problem: str = ""


@dataclass(slots=True)
class BrowsedMessage:
    """A message or another kind of content at its position, with the metadata of its entry.

    ``batch_index`` is -1 in an entry that is not a batch. ``message`` is None in damaged entries and markers; its value
    is the stored bytes where it is encrypted or a chunk. ``problem``: why the entry cannot be decoded, or its chunks
    not be joined. ``entry_bytes``: stored bytes of the entry, of a joined message those of all its chunks; None where
    the source does not state them.
    """

    ledger_id: int
    entry_id: int
    kind: Kind
    message: Message | None
    metadata: pb.MessageMetadata
    broker: pb.BrokerEntryMetadata | None
    entry_bytes: int | None
    batch_size: int = 1
    problem: str = ""
    compression: str = ""
    """Compression of the stored entry, where its metadata do not state it."""
    text: str | None = field(default=None, compare=False)
    """The value as text, once it was decoded for a filter."""

    @property
    def batch_index(self) -> int:
        return -1 if self.message is None else self.message.batch_index

    @property
    def position(self) -> tuple[int, int, int]:
        """Ledger, entry and index in the batch; positions of a topic are in its order."""
        return self.ledger_id, self.entry_id, self.batch_index

    @property
    def id(self) -> str:
        """ledger:entry, in a batch ledger:entry:index."""
        at = f"{self.ledger_id}:{self.entry_id}"
        return at if self.batch_index < 0 else f"{at}:{self.batch_index}"

    @property
    def publish_ms(self) -> int:
        return int(self.metadata.publish_time)

    @property
    def producer(self) -> str:
        return readable(self.metadata.producer_name)

    @property
    def codec(self) -> str:
        return self.compression or codec_name(self.metadata.compression)


def notes_of(answer: Mapping[str, Any]) -> dict[tuple[int, int], EntryNote]:
    """Return what an answer with entries notes of them, by ledger and entry; brokers of Magnetar note nothing."""
    return {
        (int(ledger), int(entry)): EntryNote(**note)
        for at, note in (answer.get("notes") or {}).items()
        for ledger, _, entry in (at.partition(":"),)
    }


def open_entry(
    ledger_id: int, entry_id: int, stored: bytes, note: EntryNote | None = None
) -> Iterator[BrowsedMessage]:
    """Yield what is in an entry, in order. With a note ``stored`` is an entry as a REST interface states it."""
    size = len(stored) if note is None else None
    compression = "" if note is None else note.compression
    if note is not None and note.problem:
        unread = pb.MessageMetadata()
        yield BrowsedMessage(
            ledger_id, entry_id, Kind.DAMAGED, None, unread, None, size, problem=note.problem
        )
        return
    try:
        broker, metadata, packed = split_entry(stored)
    except BatchFormatError as error:
        empty = pb.MessageMetadata()
        yield BrowsedMessage(
            ledger_id, entry_id, Kind.DAMAGED, None, empty, None, size, problem=str(error)
        )
        return

    def browsed(
        kind: Kind, message: Message | None, count: int = 1, problem: str = ""
    ) -> BrowsedMessage:
        return BrowsedMessage(
            ledger_id, entry_id, kind, message, metadata, broker, size, count, problem, compression
        )

    if metadata.marker_type:
        yield browsed(Kind.MARKER, None)
    elif metadata.encryption_keys:
        yield browsed(Kind.ENCRYPTED, _as_stored(metadata, packed))
    elif metadata.num_chunks_from_msg > 1:
        yield browsed(Kind.CHUNK, _as_stored(metadata, packed))
    else:
        try:
            messages = unpack_entry(stored).messages
        except (BatchFormatError, CompressionError) as error:
            yield browsed(Kind.DAMAGED, None, problem=str(error))
            return
        for message in messages:
            yield browsed(Kind.MESSAGE, message, len(messages))


def _as_stored(metadata: pb.MessageMetadata, packed: bytes) -> Message:
    return replace(single_message(metadata, packed), value=packed)
