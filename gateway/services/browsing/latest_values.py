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

    ``replaced``: messages with a later one of the same key on this page; ``without_key``: those that have none;
    ``undecoded``: those whose key is not known, and chunks before the last one; ``other_keys``: those with another key
    than the one that is looked for.
    """

    latest: dict[tuple[int, str], BrowsedMessage] = field(default_factory=dict)
    scanned: int = 0
    replaced: int = 0
    without_key: int = 0
    undecoded: int = 0
    other_keys: int = 0

    def add(self, partition: int, browsed: BrowsedMessage) -> int:
        """Add the next message of a partition; return 1 for the first one of its key, else 0."""
        self.scanned += 1
        message = browsed.message
        if message is None or is_partial(browsed):
            self.undecoded += 1
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
        self.ledger: int | None = None
        self.horizon: MessagePosition | None = None
        self.passed = 0
        """Messages with another key than the one that is looked for."""
        self._engine = engine
        self._key = key
        self._read_to: MessagePosition | None = None
        self._waiting: deque[BrowsedMessage] = deque()

    @property
    def next_ms(self) -> int | None:
        return self._waiting[0].publish_ms if self._waiting else None

    async def page(self, page_bytes: int) -> None:
        start = self._read_to or (
            EARLIEST_MESSAGE if self.place is None else MessagePosition(*self.place[:2])
        )
        args = CompactedEntries(self.name, PAGE_MESSAGES, page_bytes, start)
        answer = await self._engine.call(COMPACTED_ENTRIES, args)
        horizon = answer["horizon"]
        self.horizon = None if horizon is None else MessagePosition(*horizon)
        is_compacted_since = self.ledger not in (None, answer["ledger"])
        if is_compacted_since and start.position <= tuple(horizon or ()):
            raise Conflict(COMPACTED_MEANWHILE)
        stored = [(ledger, entry, b64decode(text)) for ledger, entry, text in answer["entries"]]
        # In a thread: a page may have thousands of messages, and other requests would wait for the loop.
        opened, passed = await asyncio.to_thread(self._opened, stored)
        # Together, since a timeout may end the page at each wait.
        self._waiting += opened
        self.passed += passed
        self.ledger = answer["ledger"]
        self._read_to, self.more = MessagePosition(*answer["next"]), answer["more"]
        self.entries += len(stored)
        self.read_bytes += sum(len(entry) for *_, entry in stored)

    def _opened(self, stored: Sequence[tuple[int, int, bytes]]) -> tuple[list[BrowsedMessage], int]:
        """Return the messages to fold, and how many others have another key than the one that is looked for."""
        opened: list[BrowsedMessage] = []
        passed = 0
        for ledger, entry, content in stored:
            for browsed in open_entry(ledger, entry, content):
                if self.place is not None and browsed.position < self.place:
                    continue
                message = browsed.message
                if browsed.kind is Kind.MARKER or (message is not None and message.compacted_out):
                    continue
                known = None if message is None or is_partial(browsed) else message
                if self._key is not None and known is not None and known.key != self._key:
                    passed += 1
                    continue
                opened.append(browsed)
        return opened, passed

    def take(self) -> BrowsedMessage:
        """Remove and return the next message; the part continues behind it."""
        browsed = self._waiting.popleft()
        ledger, entry, index = browsed.position
        is_last = index < 0 or index + 1 >= browsed.batch_size
        self.place = (ledger, entry + 1, -1) if is_last else (ledger, entry, index + 1)
        return browsed

    def rest_place(self) -> tuple[int, int, int] | None:
        """Return where the next page goes on."""
        if self._waiting or self._read_to is None:
            return self.place
        return self._read_to.ledger_id, self._read_to.entry_id, -1


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
        sum(part.read_bytes for part in parts),
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
    metadata = browsed.metadata
    if browsed.kind is Kind.CHUNK:
        return bool(metadata.chunk_id + 1 < metadata.num_chunks_from_msg)
    return browsed.kind is Kind.ENCRYPTED and metadata.num_messages_in_batch > 1


def _token(parts: Sequence[_KeyedPart]) -> str:
    places = [[part.ledger, part.rest_place()] for part in parts]
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
        for part, (ledger, place) in zip(parts, places, strict=False):
            numbers = [*([] if ledger is None else [ledger]), *(place or ())]
            if not all(type(number) is int and -1 <= number < LONG_MAX for number in numbers):
                raise ValueError
            part.ledger = ledger
            if place is not None:
                at, entry, index = place
                part.place = at, entry, index
    except (ValueError, TypeError) as error:
        raise InvalidField("after", "not the place of an earlier page of this topic") from error
