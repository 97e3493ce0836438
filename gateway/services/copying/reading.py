"""The messages of a plan's sources, page by page, from a place on that can be stored."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from engine.admin.api.arguments import MessagePosition
from engine.admin.api.messages import NEXT_ENTRIES, NextEntries
from engine.base.names import TopicName
from engine.wire.compression import decompress
from gateway.services.browsing.opening import BrowsedMessage, Kind, open_entry
from gateway.services.copying.plan import CopyPlan, SourcePart
from gateway.services.engine_link import Engine

PAGE_BYTES = 2 << 20
PAGE_MESSAGES = 500
CHUNKED_BYTES_MAX = 64 << 20
"""Largest message in chunks that is put together."""
LOOK_AHEAD_ENTRIES = 20_000
"""Entries behind the first chunk among which the others are looked for."""


class SourcePlace(NamedTuple):
    """The place at which reading goes on: number of the part, ledger, entry and ``message``: index in the batch."""

    part: int = 0
    ledger: int = -1
    entry: int = -1
    message: int = -1


class SourcePage(NamedTuple):
    """Messages in the order of a part. ``after``: the place behind all of them; ``entries``: how many were read."""

    part: int
    messages: list[BrowsedMessage]
    after: SourcePlace
    entries: int


async def pages(engine: Engine, plan: CopyPlan, place: SourcePlace) -> AsyncIterator[SourcePage]:
    """Yield the messages from ``place`` to the ends of the plan's sources, one source after the other."""
    for number in range(place.part, len(plan.sources)):
        part = plan.sources[number]
        if part.end is None:
            continue
        here = place if place.part == number and place.ledger >= 0 else None
        start = [here.ledger, here.entry] if here else part.start
        name, more = TopicName.parse(part.topic), True
        while more:
            at = MessagePosition(start[0], start[1])
            args = NextEntries(name, PAGE_MESSAGES, PAGE_BYTES, at)
            answer = await engine.call(NEXT_ENTRIES, args)
            rows = [row for row in answer["entries"] if row[:2] <= part.end]
            start = answer["next"]
            more = answer["more"] and len(rows) == len(answer["entries"]) and bool(rows)
            opened = await asyncio.to_thread(_opened, rows)
            if here is not None:
                first = (here.ledger, here.entry, here.message)
                opened = [message for message in opened if message.position >= first]
            after = SourcePlace(number, start[0], start[1]) if more else SourcePlace(number + 1)
            yield SourcePage(number, opened, after, len(rows))
            here = None


def _opened(rows: list[Any]) -> list[BrowsedMessage]:
    opened: list[BrowsedMessage] = []
    for ledger, entry, text in rows:
        opened += open_entry(ledger, entry, b64decode(text))
    return opened


class ChunkedMessage(NamedTuple):
    """A message in chunks, looked for from its first chunk on. ``value``: uncompressed, None when chunks are missing or
    it is too large. ``places``: of its chunks, the first one first. ``is_begun_again``: its producer sent all chunks
    once more behind these, of which clients make the message; there is no value here."""

    value: bytes | None
    places: list[MessagePosition]
    is_begun_again: bool = False


async def whole_chunked(engine: Engine, part: SourcePart, first: BrowsedMessage) -> ChunkedMessage:
    """Return the message whose first chunk is given."""
    wanted, uuid = first.metadata.num_chunks_from_msg, first.metadata.uuid
    is_large = first.metadata.total_chunk_msg_size > CHUNKED_BYTES_MAX
    pieces: list[bytes] = []
    places: list[MessagePosition] = []
    start, left = [first.ledger_id, first.entry_id], LOOK_AHEAD_ENTRIES
    name = TopicName.parse(part.topic)
    while left > 0:
        at = MessagePosition(start[0], start[1])
        args = NextEntries(name, PAGE_MESSAGES, PAGE_BYTES, at)
        answer = await engine.call(NEXT_ENTRIES, args)
        for message in await asyncio.to_thread(_opened, answer["entries"]):
            if message.kind is not Kind.CHUNK or message.metadata.uuid != uuid:
                continue
            number, place = message.metadata.chunk_id, MessagePosition(*message.position)
            if number == 0 and places and place != places[0]:
                return ChunkedMessage(None, places, is_begun_again=True)
            if number > len(pieces):
                return ChunkedMessage(None, places)  # clients drop a message with a gap
            places.append(place)
            if number < len(pieces):
                continue  # sent twice
            value = None if message.message is None else message.message.value
            pieces.append(b"" if is_large else value or b"")
            if len(pieces) == wanted:
                return ChunkedMessage(None if is_large else _joined(first, pieces), places)
        left -= len(answer["entries"])
        start = answer["next"]
        if not answer["more"]:
            break
    return ChunkedMessage(None, places)


def _joined(first: BrowsedMessage, pieces: list[bytes]) -> bytes:
    metadata = first.metadata
    return decompress(metadata.compression, b"".join(pieces), metadata.uncompressed_size)
