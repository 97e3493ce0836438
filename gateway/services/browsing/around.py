"""A message in chunks as a whole: the others are looked for around one of them, within bounds."""

import asyncio
import time
from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

from engine.admin.api.arguments import MessagePosition
from engine.admin.api.messages import LATEST_ENTRIES, NEXT_ENTRIES, LatestEntries, NextEntries
from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from engine.wire.compression import CompressionError, decompress
from gateway.services.browsing.chunks import BYTES_MAX, is_chunk, is_last_chunk
from gateway.services.browsing.opening import BrowsedMessage, Kind, notes_of, open_entry
from gateway.services.engine_link import Engine

LOOK_S = 6.0
LOOK_BYTES_MAX = 64 << 20
PAGE_MESSAGES = 500
PAGE_BYTES = 4 << 20
BOUND = "they are further away than one look reaches"


@dataclass(slots=True)
class FoundChunks:
    """The chunks of one sending of a message, found around one of them.

    ``ids``: position by number. ``missing``: numbers that were not found; ``unread``: why not everything was looked at
    where they may be, empty when they are not stored. ``begun_again``: position at which the producer sent the message
    anew before it had sent all of this. ``is_large``: it is not joined because of its size.
    """

    size: int
    ids: dict[int, str] = field(default_factory=dict)
    unread: str = ""
    begun_again: str = ""
    is_large: bool = False
    is_whole: bool = False

    @property
    def missing(self) -> list[int]:
        return [number for number in range(self.size) if number not in self.ids]


async def whole_message(
    engine: Engine, name: TopicName, chunk: BrowsedMessage
) -> tuple[BrowsedMessage, FoundChunks]:
    """Return the message of a chunk at the position of that chunk, the chunk itself where it cannot be joined; and
    which chunks were found. ``name``: a topic without partitions, or a partition."""
    look = _Look(engine, name, chunk)
    await look.back()
    await look.on()
    chunks = look.chunks
    if chunks.missing or chunks.is_large or len(look.pieces) != chunks.size:
        return chunk, chunks
    metadata = chunk.metadata
    try:
        value = await asyncio.to_thread(
            decompress, metadata.compression, b"".join(look.pieces), metadata.uncompressed_size
        )
    except CompressionError as error:
        return replace(chunk, problem=f"its chunks cannot be joined: {error}"), chunks
    chunks.is_whole = True
    assert chunk.message is not None, "a chunk has its stored bytes"
    size = None if chunk.entry_bytes is None else look.stored_bytes
    message = replace(chunk.message, value=value)
    return replace(chunk, kind=Kind.MESSAGE, message=message, entry_bytes=size), chunks


class _Look:
    """A look for the other chunks of a message, first back to the first one, then on to the last one."""

    def __init__(self, engine: Engine, name: TopicName, chunk: BrowsedMessage) -> None:
        metadata = chunk.metadata
        self._engine = engine
        self._name = name
        self._chunk = chunk
        self._until_s = time.monotonic() + LOOK_S
        self._bytes_left = LOOK_BYTES_MAX
        self.chunks = FoundChunks(metadata.num_chunks_from_msg)
        self.chunks.is_large = metadata.total_chunk_msg_size > BYTES_MAX
        self.pieces: list[bytes] = []
        self.stored_bytes = 0

    async def back(self) -> None:
        """Find the chunks before, and take all up to the given one."""
        before: list[BrowsedMessage] = []
        if self._chunk.metadata.chunk_id:
            async for message in self._others(self._older()):
                before.append(message)
                if message.metadata.chunk_id == 0:
                    break
        for message in reversed(before):
            self._take(message)
        self._take(self._chunk)

    async def on(self) -> None:
        """Take the chunks behind, up to the last one, or to where the message begins again."""
        if is_last_chunk(self._chunk):
            return
        async for message in self._others(self._newer()):
            if message.metadata.chunk_id == 0:
                self.chunks.begun_again = message.id
                return
            self._take(message)
            if is_last_chunk(message):
                return

    def _take(self, chunk: BrowsedMessage) -> None:
        """Add a chunk by the rules of clients: a repeated one is skipped, a gap ends the message."""
        number = chunk.metadata.chunk_id
        self.chunks.ids.setdefault(number, chunk.id)
        if number == len(self.pieces) and chunk.message is not None:
            self.pieces.append(b"" if self.chunks.is_large else chunk.message.value or b"")
            self.stored_bytes += chunk.entry_bytes or 0

    async def _others(self, pages: AsyncIterator[dict[str, Any]]) -> AsyncIterator[BrowsedMessage]:
        """Yield the chunks of the message in pages of entries, until one fails or a bound is reached."""
        try:
            async for answer in pages:
                for message in await asyncio.to_thread(_opened, answer):
                    is_other = is_chunk(message) and message.position != self._chunk.position
                    if is_other and message.metadata.uuid == self._chunk.metadata.uuid:
                        yield message
                self._bytes_left -= sum(len(row[2]) for row in answer["entries"]) * 3 // 4
                if not answer["more"]:
                    return
                if self._bytes_left <= 0 or time.monotonic() > self._until_s:
                    self.chunks.unread = BOUND
                    return
        except (MagnetarError, TimeoutError, OSError) as error:
            # The chunk itself is read: it is shown, and what is not known of the others stated.
            self.chunks.unread = str(error) or type(error).__name__

    async def _older(self) -> AsyncIterator[dict[str, Any]]:
        at = [self._chunk.ledger_id, self._chunk.entry_id]
        while True:
            before = MessagePosition(at[0], at[1])
            args = LatestEntries(self._name, PAGE_MESSAGES, PAGE_BYTES, before)
            answer = await self._engine.call(LATEST_ENTRIES, args)
            rows = sorted(answer["entries"], reverse=True)
            if rows:
                at = rows[-1][:2]
            yield answer | {"entries": rows, "more": answer["more"] and bool(rows)}

    async def _newer(self) -> AsyncIterator[dict[str, Any]]:
        at = [self._chunk.ledger_id, self._chunk.entry_id]
        while True:
            start = MessagePosition(at[0], at[1])
            args = NextEntries(self._name, PAGE_MESSAGES, PAGE_BYTES, start)
            answer = await self._engine.call(NEXT_ENTRIES, args)
            at = answer["next"]
            yield answer


def _opened(answer: dict[str, Any]) -> list[BrowsedMessage]:
    notes = notes_of(answer)
    return [
        message
        for ledger, entry, text in answer["entries"]
        for message in open_entry(ledger, entry, b64decode(text), notes.get((ledger, entry)))
    ]
