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


async def whole_chunked(engine: Engine, part: SourcePart, first: BrowsedMessage) -> bytes | None:
    """Return the uncompressed value of the message whose first chunk is given; None when chunks are missing, or it is
    too large."""
    metadata = first.metadata
    wanted, uuid = metadata.num_chunks_from_msg, metadata.uuid
    if metadata.total_chunk_msg_size > CHUNKED_BYTES_MAX:
        return None
    pieces: list[bytes] = []
    start, left = [first.ledger_id, first.entry_id], LOOK_AHEAD_ENTRIES
    name = TopicName.parse(part.topic)
    while left > 0:
        at = MessagePosition(start[0], start[1])
        args = NextEntries(name, PAGE_MESSAGES, PAGE_BYTES, at)
        answer = await engine.call(NEXT_ENTRIES, args)
        for message in await asyncio.to_thread(_opened, answer["entries"]):
            of_it = message.kind is Kind.CHUNK and message.metadata.uuid == uuid
            if of_it and message.metadata.chunk_id == len(pieces) and message.message is not None:
                pieces.append(message.message.value or b"")
                if len(pieces) == wanted:
                    whole = b"".join(pieces)
                    return decompress(metadata.compression, whole, metadata.uncompressed_size)
        left -= len(answer["entries"])
        start = answer["next"]
        if not answer["more"]:
            return None
    return None
