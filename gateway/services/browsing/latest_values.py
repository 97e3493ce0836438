"""The latest value of each key of a topic: what its compaction kept, then what was published behind its horizon.

A page folds a range of the topic by key, and states what it looked at, why it stopped and where the next one goes on.
A row is the latest value up to the end of its page: a later page may replace or remove it. Keys are those of a
partition, as for a compaction (J13). Nothing moves a cursor or creates a subscription.
"""

import asyncio
import base64
import json
import time
from base64 import b64decode
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.admin.api.arguments import EARLIEST_MESSAGE, LONG_MAX, MessagePosition
from engine.admin.api.messages import COMPACTED_ENTRIES, CompactedEntries
from engine.base.errors import Conflict, InvalidField
from engine.base.names import TopicName
from gateway.services.browsing.chunks import (
    BYTES_MAX,
    INCOMPLETE,
    REPEATED,
    ChunkJoiner,
    is_chunk,
    is_last_chunk,
)
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.opening import BrowsedMessage, Kind, open_entry
from gateway.services.browsing.parts import Part, Stopped, collected, names_of
from gateway.services.browsing.values import TopicValues
from gateway.services.engine_link import Engine

KEYS_MAX = 1_000
"""Bound on the keys of a page."""
PAGE_MESSAGES = 1_000
TOKEN_MAX = 64_000
COMPACTED_MEANWHILE = "The topic was compacted since the first page, and keys that were shown may be gone: begin again"
_IS_FIRST = "c"
"""First member of the tokens of these pages; those of scans have another."""


@dataclass(slots=True)
class KeyFold:
    """Messages folded by partition and key. The counts add up to ``scanned`` with the latest message of each key.

    A message in chunks is counted at its last one, and is joined there.

    ``replaced``: messages with a later one of the same key on this page; ``without_key``: those that have none;
    ``undecoded``: those whose key is not known, and chunks before the last one; ``incomplete``: those of ``undecoded``
    that end a message of which chunks are missing; ``other_keys``: those with another key than the one that is looked
    for.
    """

    latest: dict[tuple[int, str], BrowsedMessage] = field(default_factory=dict)
    scanned: int = 0
    replaced: int = 0
    without_key: int = 0
    undecoded: int = 0
    incomplete: int = 0
    other_keys: int = 0

    def add(self, partition: int, browsed: BrowsedMessage) -> int:
        """Add the next message of a partition; return 1 for the first one of its key, else 0."""
        self.scanned += 1
        message = browsed.message
        if message is None or is_partial(browsed):
            self.undecoded += 1
            self.incomplete += browsed.problem == INCOMPLETE
            return 0
        if message.key is None:
            self.without_key += 1
            return 0
        key = partition, message.key
        is_new = key not in self.latest
        if not is_new:
            # Removed first: rows are in the order of their messages.
            del self.latest[key]
            self.replaced += 1
        self.latest[key] = browsed
        return int(is_new)


class LatestValues(NamedTuple):
    """A page. ``rows``: partition (-1 without) and latest message of the keys that have a value and meet the
    conditions; ``removed``: partition and key of the others, which an earlier page may have had.

    ``deleted``: how many of ``removed`` have no value. ``horizons``: partition and the position up to which it was
    compacted, None where it was not.
    """

    rows: list[tuple[int, BrowsedMessage]]
    removed: list[tuple[int, str]]
    deleted: int
    fold: KeyFold
    stopped: Stopped
    entries: int
    bytes: int
    took_ms: int
    partitions: int
    missing: list[int]
    horizons: list[tuple[int, MessagePosition | None]]
    after: str


class _KeyedPart(Part[BrowsedMessage]):
    """A topic or partition, read from its compacted ledger on. ``place``: ledger, entry and index of the next message;
    ``ledger``: the compacted one, -1 without, None before it is known."""

    def __init__(self, name: TopicName, engine: Engine, key: str | None) -> None:
        super().__init__(name)
        self.place: tuple[int, int, int] | None = None
        self.chunks_from: tuple[int, int] | None = None
        """The entry from which chunks are read again whose message was not complete at ``place``."""
        self.again_bytes = 0
        """Bytes of entries before ``place`` that were read for their chunks."""
        self.ledger: int | None = None
        self.horizon: MessagePosition | None = None
        self.passed = 0
        """Messages with another key than the one that is looked for."""
        self._engine = engine
        self._key = key
        self._read_to: MessagePosition | None = None
        self._waiting: deque[BrowsedMessage] = deque()
        self._joiner: ChunkJoiner | None = None
        self._open: dict[str, tuple[tuple[int, int], int]] = {}
        """Position of the first chunk of each message that is not complete at ``place``, and the bytes before it."""
        self._passed_bytes = 0
        """Bytes of the entries before ``place`` that were read again or taken."""
        self._has_taken = False

    @property
    def next_ms(self) -> int | None:
        return self._waiting[0].publish_ms if self._waiting else None

    async def page(self, page_bytes: int) -> None:
        begin = self.chunks_from or (self.place and self.place[:2])
        start = self._read_to or (EARLIEST_MESSAGE if begin is None else MessagePosition(*begin))
        args = CompactedEntries(self.name, PAGE_MESSAGES, page_bytes, start)
        answer = await self._engine.call(COMPACTED_ENTRIES, args)
        horizon = answer["horizon"]
        self.horizon = None if horizon is None else MessagePosition(*horizon)
        is_compacted_since = self.ledger not in (None, answer["ledger"])
        # Chunks that are read again are kept by a compaction, since their message was not complete.
        reached = max(start.position, (self.place or EARLIEST_MESSAGE.position)[:2])
        if is_compacted_since and reached <= tuple(horizon or ()):
            raise Conflict(COMPACTED_MEANWHILE)
        stored = [(ledger, entry, b64decode(text)) for ledger, entry, text in answer["entries"]]
        # In a thread: a page may have thousands of messages, and other requests would wait for the loop.
        opened, passed = await asyncio.to_thread(self._opened, stored)
        again = [len(entry) for *at, entry in stored if self.place and (*at, -1) < self.place]
        # Together, since a timeout may end the page at each wait.
        self._waiting += opened
        self.passed += passed
        self.ledger = answer["ledger"]
        self._read_to, self.more = MessagePosition(*answer["next"]), answer["more"]
        self.entries += len(stored)
        # What is read again does not count against the bound of a page, which else might not progress.
        self.again_bytes += sum(again)
        self.read_bytes += sum(len(entry) for *_, entry in stored) - sum(again)

    def _opened(self, stored: Sequence[tuple[int, int, bytes]]) -> tuple[list[BrowsedMessage], int]:
        """Return the messages to fold, and how many others have another key than the one that is looked for."""
        opened: list[BrowsedMessage] = []
        passed = 0
        if self._joiner is None:
            self._joiner = ChunkJoiner(from_beginning=self.place is None)
        for ledger, entry, content in stored:
            for browsed in open_entry(ledger, entry, content):
                is_behind = self.place is not None and browsed.position < self.place
                message = browsed.message
                if browsed.kind is Kind.MARKER or (message is not None and message.compacted_out):
                    continue
                known = None if message is None or is_encrypted_batch(browsed) else message
                if self._key is not None and known is not None and known.key != self._key:
                    passed += not is_behind
                    continue
                if browsed.kind is Kind.CHUNK and is_chunk(browsed):
                    browsed = self._joiner.add(browsed)
                if is_behind:
                    self._pass(browsed, len(content) if browsed.batch_index <= 0 else 0)
                else:
                    opened.append(browsed)
        return opened, passed

    def take(self) -> BrowsedMessage:
        """Remove and return the next message; the part continues behind it."""
        browsed = self._waiting.popleft()
        ledger, entry, index = browsed.position
        is_last = index < 0 or index + 1 >= browsed.batch_size
        self.place = (ledger, entry + 1, -1) if is_last else (ledger, entry, index + 1)
        self._has_taken = True
        self._pass(browsed, browsed.entry_bytes or 0 if is_last else 0)
        return browsed

    def _pass(self, browsed: BrowsedMessage, entry_bytes: int) -> None:
        """Record which messages are not complete behind this one."""
        if is_chunk(browsed):
            uuid = browsed.metadata.uuid
            if is_last_chunk(browsed):
                self._open.pop(uuid, None)
            elif browsed.metadata.chunk_id == 0:
                self._open[uuid] = (browsed.ledger_id, browsed.entry_id), self._passed_bytes
        self._passed_bytes += entry_bytes

    def rest_place(self) -> tuple[int, int, int] | None:
        """Return where the next page goes on."""
        if self._waiting or self._read_to is None:
            return self.place
        read_to = self._read_to.ledger_id, self._read_to.entry_id, -1
        # While chunks are read again, that is before the place.
        return read_to if self.place is None else max(read_to, self.place)

    def rest_chunks(self) -> tuple[int, int] | None:
        """Return the entry from which the next page reads chunks again, None for none.

        A page that took nothing does not ask for that again: the next one would not progress either.
        """
        if self.chunks_from is not None and not self._has_taken:
            return None
        since = self._passed_bytes - BYTES_MAX
        places = [place for place, before in self._open.values() if before >= since]
        return min(places, default=None)


async def latest_values(
    engine: Engine,
    topic: TopicName,
    *,
    after: str,
    wanted: MessageFilter,
    limit: int,
    values: TopicValues,
) -> LatestValues:
    """Return a page with at most ``limit`` keys, within the bounds of ``parts``. ``after`` continues an earlier page.

    A key of ``wanted`` is looked for alone; its other conditions are those of the latest values. Raises InvalidField,
    Unsupported for a non-persistent topic, NotFound, Conflict when the topic was compacted since the first page, and,
    when no partition answers, the first one's error.
    """
    began = time.monotonic()
    count, names = await names_of(engine, topic)
    parts = [_KeyedPart(name, engine, wanted.key) for name in names]
    if after:
        _continue(parts, after)
    fold = KeyFold()
    stopped = await collected(parts, fold.add, sign=1, limit=limit)
    errors = [part.error for part in parts if part.error is not None]
    for error in errors:
        if isinstance(error, Conflict) or (len(errors) == len(parts) and not fold.latest):
            raise error
    await values.fetch(engine, fold.latest.values())
    rows, removed, deleted = await asyncio.to_thread(_chosen, fold, wanted, values)
    fold.other_keys = sum(part.passed for part in parts)
    fold.scanned += fold.other_keys
    return LatestValues(
        rows,
        removed,
        deleted,
        fold,
        stopped,
        sum(part.entries for part in parts),
        sum(part.read_bytes + part.again_bytes for part in parts),
        round((time.monotonic() - began) * 1000),
        count,
        [part.name.partition for part in parts if part.error is not None],
        [(part.name.partition, part.horizon) for part in parts if part.ledger is not None],
        _token(parts),
    )


def _chosen(
    fold: KeyFold, wanted: MessageFilter, values: TopicValues
) -> tuple[list[tuple[int, BrowsedMessage]], list[tuple[int, str]], int]:
    rows: list[tuple[int, BrowsedMessage]] = []
    removed: list[tuple[int, str]] = []
    deleted = 0
    for (partition, key), browsed in fold.latest.items():
        is_deletion = is_empty(browsed)
        deleted += is_deletion
        if is_deletion or not wanted.matches(browsed, values.text):
            removed.append((partition, key))
        else:
            rows.append((partition, browsed))
    return rows, removed, deleted


def is_empty(browsed: BrowsedMessage) -> bool:
    """Return whether a message deletes its key: it has no value, or an empty one."""
    return browsed.message is not None and not browsed.message.value


def is_partial(browsed: BrowsedMessage) -> bool:
    """Return whether only a part of a message, or of the keys of a batch, is known."""
    if is_encrypted_batch(browsed):
        return True
    if browsed.kind is Kind.MESSAGE or not is_chunk(browsed):
        return False
    return not is_last_chunk(browsed) or browsed.problem in (INCOMPLETE, REPEATED)


def is_encrypted_batch(browsed: BrowsedMessage) -> bool:
    """Return whether the keys of a batch are not known but the first."""
    return browsed.kind is Kind.ENCRYPTED and browsed.metadata.num_messages_in_batch > 1


def _token(parts: Sequence[_KeyedPart]) -> str:
    places = [[part.ledger, part.rest_place(), part.rest_chunks()] for part in parts]
    text = json.dumps([_IS_FIRST, *places], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _continue(parts: Sequence[_KeyedPart], token: str) -> None:
    """Set the parts to the places of a token; others begin as the first page did."""
    try:
        if len(token) > TOKEN_MAX:
            raise ValueError
        kind, *places = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        if kind != _IS_FIRST or len(places) > len(parts):
            raise ValueError
        for part, (ledger, place, chunks) in zip(parts, places, strict=False):
            numbers = [*([] if ledger is None else [ledger]), *(place or ()), *(chunks or ())]
            if not all(type(number) is int and -1 <= number < LONG_MAX for number in numbers):
                raise ValueError
            part.ledger = ledger
            if place is not None:
                at, entry, index = place
                part.place = at, entry, index
                if chunks is not None:
                    first, entry = chunks
                    part.chunks_from = first, entry
    except (ValueError, TypeError) as error:
        raise InvalidField("after", "not the place of an earlier page of this topic") from error
