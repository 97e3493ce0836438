"""Operations that find and read messages. Pure.

A message is ``{"headers": {name: text}, "body": base64}``.
"""

from dataclasses import dataclass
from typing import Literal

from engine.admin.api.arguments import (
    COUNT_MAX,
    EARLIEST_MESSAGE,
    LONG_MAX,
    JsonObject,
    MessagePosition,
    OnSubscription,
    OnTopic,
    within,
)
from engine.admin.api.rights import CONSUME, CONSUME_SUBSCRIPTION
from engine.rpc.operation import Operation

LATEST_MESSAGES_MAX = 1_000
LATEST_BYTES_MAX = 8 << 20


@dataclass(frozen=True, slots=True)
class Peek(OnSubscription):
    """Number of an unacknowledged entry of the subscription, from 1."""

    nth: int = 1

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        within("nth", self.nth, 1, COUNT_MAX)


@dataclass(frozen=True, slots=True)
class Examine(OnTopic):
    """Number of an entry (from 1), counted from the ``initial`` end of the topic."""

    initial: Literal["earliest", "latest"] = "latest"
    nth: int = 1

    def __post_init__(self) -> None:
        within("nth", self.nth, 1, COUNT_MAX)


@dataclass(frozen=True, slots=True)
class MessageById(OnTopic):
    ledger_id: int
    entry_id: int

    def __post_init__(self) -> None:
        within("ledger_id", self.ledger_id, 0, LONG_MAX)
        within("entry_id", self.entry_id, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class LatestEntries(OnTopic):
    """Selection of the last entries, or of those before the position ``before``.

    The entries have ``messages`` messages (1 to ``LATEST_MESSAGES_MAX``) and at most ``bytes_max`` bytes (up to
    ``LATEST_BYTES_MAX``); at least one entry is selected.
    """

    messages: int
    bytes_max: int
    before: MessagePosition | None = None

    def __post_init__(self) -> None:
        within("messages", self.messages, 1, LATEST_MESSAGES_MAX)
        within("bytes_max", self.bytes_max, 1, LATEST_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class NextEntries(OnTopic):
    """Selection of the entries from the position ``start`` on, bounded as those of ``LatestEntries``."""

    messages: int
    bytes_max: int
    start: MessagePosition = EARLIEST_MESSAGE

    def __post_init__(self) -> None:
        within("messages", self.messages, 1, LATEST_MESSAGES_MAX)
        within("bytes_max", self.bytes_max, 1, LATEST_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class CompactedEntries(NextEntries):
    """Selection of the entries of the compacted topic from the position ``start`` on, bounded as ``NextEntries``."""


@dataclass(frozen=True, slots=True)
class MessageIdByTime(OnTopic):
    """Time at or after which the message was published, epoch milliseconds."""

    timestamp_ms: int

    def __post_init__(self) -> None:
        within("timestamp_ms", self.timestamp_ms, 0, LONG_MAX)


LAST_MESSAGE_ID = Operation("last_message_id", OnTopic, JsonObject, CONSUME, reads=True)
"""MessageId of the last message; entryId -1 of the open ledger when the topic is empty."""
MESSAGE_ID_BY_TIME = Operation(
    "message_id_by_time", MessageIdByTime, JsonObject, CONSUME, reads=True
)
"""MessageId ``{ledgerId, entryId, partitionIndex}`` of the first message at or after the time."""
PEEK = Operation("peek", Peek, JsonObject, CONSUME_SUBSCRIPTION, reads=True)
EXAMINE = Operation("examine", Examine, JsonObject, CONSUME, reads=True)
LATEST_ENTRIES = Operation("latest_entries", LatestEntries, JsonObject, CONSUME, reads=True)
"""Complete stored entries, newest first: ``{"entries": [[ledger, entry, base64]], "more": bool}``; ``more``: there may
be earlier entries. No subscription and no cache is affected."""
NEXT_ENTRIES = Operation("next_entries", NextEntries, JsonObject, CONSUME, reads=True)
"""Stored entries as those of LATEST_ENTRIES, oldest first: ``{"entries": [[ledger, entry, base64]], "more": bool,
"next": [ledger, entry]}``. ``next``: where the entries behind them begin, also those that do not exist yet."""
COMPACTED_ENTRIES = Operation(
    "compacted_entries", CompactedEntries, JsonObject, CONSUME, reads=True
)
"""The answer of NEXT_ENTRIES for a reader of the compacted topic: up to the horizon the entries that the last
compaction kept, then those of the topic. Also ``"ledger"``: id of the compacted ledger, -1 without one, and
``"horizon"``: [ledger, entry] up to which it was compacted, or null."""
MESSAGE_BY_ID = Operation("message_by_id", MessageById, JsonObject, CONSUME, reads=True)
