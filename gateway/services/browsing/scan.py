"""A bounded scan of a topic's messages over all its partitions, in the order of their publish times.

A scan states how much it read and why it stopped, and where it goes on: ``after`` of its result is the ``after`` of the
next one. Nothing moves a cursor or creates a subscription.
"""

import asyncio
import base64
import json
import time
from base64 import b64decode
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.admin.api.arguments import (
    EARLIEST_MESSAGE,
    LONG_MAX,
    MessagePosition,
    OnTopic,
)
from engine.admin.api.messages import (
    LAST_MESSAGE_ID,
    LATEST_ENTRIES,
    MESSAGE_ID_BY_TIME,
    NEXT_ENTRIES,
    LatestEntries,
    MessageIdByTime,
    NextEntries,
)
from engine.admin.api.statistics import INTERNAL_STATS, InternalStats
from engine.base.errors import InvalidField, MagnetarError, NotFound
from engine.base.names import TopicName
from gateway.services import catalog
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.opening import BrowsedMessage, EntryNote, notes_of, open_entry
from gateway.services.browsing.parts import ANSWER_S, Part, Stopped, merged, names_of
from gateway.services.browsing.values import TopicValues
from gateway.services.engine_link import Engine

PAGE_MESSAGES_MAX = 1_000
TOKEN_MAX = 64_000

Direction = Literal["forward", "backward"]
Place = tuple[int, int, int]
"""Ledger, entry and index in the batch."""


@dataclass(frozen=True, slots=True)
class ScanStart:
    """The place at which a scan begins: one of the fields, without any the end of the topic where its direction begins.

    ``position`` is of a topic without partitions, or of one partition. ``subscription``: at its mark-delete position.
    """

    time_ms: int | None = None
    position: Place | None = None
    subscription: str = ""
    newest: bool = False


class MessageScan(NamedTuple):
    """The result of a scan. ``missing``: partitions that did not answer, of ``partitions`` (0: it has none)."""

    messages: list[tuple[int, BrowsedMessage]]
    """Partition (-1 without) and message, in the order of the scan."""
    stopped: Stopped
    scanned: int
    entries: int
    bytes: int
    took_ms: int
    partitions: int
    missing: list[int]
    after: str


@dataclass(slots=True)
class _Reading:
    """The common part of a scan's reads. ``messages``: of a page."""

    engine: Engine
    values: TopicValues
    wanted: MessageFilter
    messages: int


class _Part(Part[BrowsedMessage]):
    """A topic or partition, read in one direction.

    ``place``: forwards the next message, backwards the last one that was shown or passed over; None at the end of the
    topic where the direction begins. ``read_to``: the end of what was read. ``passed``: messages between where the scan
    began and ``place``.
    """

    def __init__(self, name: TopicName, direction: Direction, reading: _Reading) -> None:
        super().__init__(name)
        self.direction = direction
        self.place: Place | None = None
        self.passed = 0
        self.looked_at = 0
        self.read_to: MessagePosition | None = None
        self._reading = reading
        self._waiting: deque[tuple[int, BrowsedMessage]] = deque()
        """Matches that are not shown yet, each with how many messages were looked at up to it."""

    @property
    def next_ms(self) -> int | None:
        return self._waiting[0][1].publish_ms if self._waiting else None

    async def page(self, page_bytes: int) -> None:
        reading = self._reading
        read_to: MessagePosition | None
        if self.direction == "forward":
            start = self.read_to or _entry_of(self.place)
            following = NextEntries(self.name, reading.messages, page_bytes, start)
            answer = await reading.engine.call(NEXT_ENTRIES, following)
            read_to = MessagePosition(*answer["next"])
        else:
            before = self.read_to or _behind(self.place)
            latest = LatestEntries(self.name, reading.messages, page_bytes, before)
            answer = await reading.engine.call(LATEST_ENTRIES, latest)
            rows = answer["entries"]
            read_to = MessagePosition(*rows[-1][:2]) if rows else before
        stored = [(ledger, entry, b64decode(text)) for ledger, entry, text in answer["entries"]]
        # In threads: a page may have 40,000 messages, and other requests would wait for the loop.
        opened = await asyncio.to_thread(self._opened, stored, notes_of(answer))
        await reading.values.fetch(reading.engine, opened)
        matching = await asyncio.to_thread(
            lambda: [
                (number, message)
                for number, message in enumerate(opened, self.looked_at + 1)
                if reading.wanted.matches(message, reading.values.text)
            ]
        )
        # Together, since a timeout may end the scan at each wait: what is passed over was looked at.
        self._waiting += matching
        self.read_to, self.more = read_to, answer["more"]
        self.looked_at += len(opened)
        self.entries += len(stored)
        self.read_bytes += sum(len(entry) for *_, entry in stored)

    def _opened(
        self,
        stored: Sequence[tuple[int, int, bytes]],
        notes: Mapping[tuple[int, int], EntryNote],
    ) -> list[BrowsedMessage]:
        opened: list[BrowsedMessage] = []
        for ledger, entry, content in stored:
            messages = list(open_entry(ledger, entry, content, notes.get((ledger, entry))))
            opened += messages if self.direction == "forward" else messages[::-1]
        if self.place is None:
            return opened
        # Of the entry at the place only the messages on its far side are not shown yet.
        if self.direction == "forward":
            return [message for message in opened if message.position >= self.place]
        return [message for message in opened if message.position < self.place]

    def take(self) -> BrowsedMessage:
        """Remove and return the next message; the part continues behind it."""
        self.passed, message = self._waiting.popleft()
        ledger, entry, index = self.place = message.position
        if self.direction == "forward":
            is_last = index < 0 or index + 1 >= message.batch_size
            self.place = (ledger, entry + 1, -1) if is_last else (ledger, entry, index + 1)
        return message

    @property
    def scanned(self) -> int:
        """Messages that the next scan does not look at again."""
        return self.passed if self._waiting else self.looked_at

    def rest_place(self) -> Place | None:
        """Return where the next scan goes on: behind all that was looked at, unless a match of it waits."""
        if self._waiting or self.read_to is None:
            return self.place
        return self.read_to.ledger_id, self.read_to.entry_id, -1


async def scan(
    engine: Engine,
    topic: TopicName,
    *,
    direction: Direction,
    start: ScanStart,
    after: str,
    wanted: MessageFilter,
    limit: int,
    values: TopicValues,
) -> MessageScan:
    """Return at most ``limit`` messages that match ``wanted``, within the bounds of ``parts``.

    ``after`` continues an earlier scan of the same topic, direction and start, which is that of partitions that did not
    answer then. Raises InvalidField, Unsupported for a non-persistent topic, NotFound, and, when no partition answers,
    the first one's error.
    """
    began = time.monotonic()
    count, names = await names_of(engine, topic)
    # Without conditions, more than is shown would be read in vain.
    few = min(max(2 * limit // len(names), 16), limit) if wanted.empty else PAGE_MESSAGES_MAX
    reading = _Reading(engine, values, wanted, few)
    parts = [_Part(name, direction, reading) for name in names]

    async def begin() -> None:
        if after:
            _continue(parts, direction, after)
        await _place(engine, [part for part in parts if part.place is None], start)

    sign = 1 if direction == "forward" else -1
    matches, stopped = await merged(parts, sign=sign, limit=limit, begin=begin)
    return MessageScan(
        matches,
        stopped,
        sum(part.scanned for part in parts),
        sum(part.entries for part in parts),
        sum(part.read_bytes for part in parts),
        round((time.monotonic() - began) * 1000),
        count,
        [part.name.partition for part in parts if part.error is not None],
        _token(direction, [part.rest_place() for part in parts]),
    )


async def _place(engine: Engine, parts: Sequence[_Part], start: ScanStart) -> None:
    """Set where each of the parts begins. A partition that was never used has no place."""
    if start.position is not None and parts:
        if len(parts) > 1:
            raise InvalidField(
                "position", "a position is one of a partition: name it, such as topic-partition-0"
            )
        ledger, entry, index = parts[0].place = start.position
        if parts[0].direction == "backward":  # the message of the position itself is shown too
            parts[0].place = (ledger, entry + 1, -1) if index < 0 else (ledger, entry, index + 1)
        return

    async def place(part: _Part) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                part.place = await _place_of(engine, part, start)
        except NotFound as error:
            if part.name.partition < 0:
                raise
            part.more = False
            part.error = error if start.subscription else None
        except (MagnetarError, TimeoutError, OSError) as error:
            part.more, part.error = False, error

    await catalog.each(parts, place)


async def _place_of(engine: Engine, part: _Part, start: ScanStart) -> Place | None:
    name = part.name
    if start.time_ms is not None:
        answer = await engine.call(MESSAGE_ID_BY_TIME, MessageIdByTime(name, start.time_ms))
        return answer["ledgerId"], max(answer["entryId"], 0), -1
    if start.subscription:
        stats = await engine.call(INTERNAL_STATS, InternalStats(name))
        cursor = stats["cursors"].get(start.subscription)
        if cursor is None:
            raise NotFound(f"There is no subscription {start.subscription} of {name}")
        ledger, entry = map(int, cursor["markDeletePosition"].split(":"))
        return ledger, entry + 1, -1
    if part.direction == "backward" or start.newest:
        # Backwards too: the next page must not begin with messages that were published meanwhile.
        answer = await engine.call(LAST_MESSAGE_ID, OnTopic(name))
        return answer["ledgerId"], answer["entryId"] + 1, -1
    return None


def _entry_of(place: Place | None) -> MessagePosition:
    """Return where a read forwards begins."""
    return EARLIEST_MESSAGE if place is None else MessagePosition(*place[:2])


def _behind(place: Place | None) -> MessagePosition | None:
    """Return where a read backwards begins: behind the place's entry if messages of its batch come before it."""
    if place is None:
        return None
    ledger, entry, index = place
    return MessagePosition(ledger, entry + (index > 0))


def _token(direction: Direction, places: Sequence[Place | None]) -> str:
    text = json.dumps([direction[0], *places], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _continue(parts: Sequence[_Part], direction: Direction, token: str) -> None:
    """Set the parts to the places of a token; others begin as the first scan did."""
    try:
        if len(token) > TOKEN_MAX:
            raise ValueError
        padded = token + "=" * (-len(token) % 4)
        kind, *places = json.loads(base64.urlsafe_b64decode(padded))
        if kind != direction[0] or len(places) > len(parts):
            raise ValueError
        for part, place in zip(parts, places, strict=False):
            part.place = None if place is None else _checked(place)
    except (ValueError, TypeError) as error:
        raise InvalidField("after", "not the place of an earlier page of this topic") from error


def _checked(place: object) -> Place:
    if not isinstance(place, list) or len(place) != 3:
        raise ValueError
    ledger, entry, index = place
    if not all(type(number) is int and -1 <= number < LONG_MAX for number in place):
        raise ValueError
    return ledger, entry, index
