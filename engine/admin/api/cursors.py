"""Operations on the cursors of subscriptions. Pure."""

from dataclasses import dataclass
from typing import Literal

from engine.admin.api.arguments import (
    COUNT_MAX,
    LONG_MAX,
    JsonObject,
    MessagePosition,
    OnSubscription,
    OnTopic,
    within,
)
from engine.admin.api.rights import CONSUME, CONSUME_SUBSCRIPTION
from engine.rpc.operation import Operation

CHANGE_ID_MAX = 64
ACKNOWLEDGED_MAX = 1_000
"""Messages that one call acknowledges."""
PREVIEW_AGE_MAX_S = 600
"""Seconds within which a preview may be confirmed."""
CursorChange = Literal["skip-all", "skip", "reset", "undo"]


@dataclass(frozen=True, slots=True)
class Skip(OnSubscription):
    """Number of entries to be skipped from the first unacknowledged one on, 0..2^31."""

    count: int

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        within("count", self.count, 0, COUNT_MAX)


@dataclass(frozen=True, slots=True)
class ResetCursor(OnSubscription):
    """Target of a reset: either ``timestamp_ms`` (publish time, epoch milliseconds) or ``position``."""

    timestamp_ms: int | None = None
    position: MessagePosition | None = None

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        if (self.timestamp_ms is None) == (self.position is None):
            raise ValueError("timestamp_ms: give either timestamp_ms or position")
        if self.timestamp_ms is not None:
            within("timestamp_ms", self.timestamp_ms, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class ExpireMessages(OnSubscription):
    """Acknowledgement of all messages that were published more than ``seconds`` ago (>= 1)."""

    seconds: int

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        within("seconds", self.seconds, 1, LONG_MAX // 1000)


@dataclass(frozen=True, slots=True)
class ExpireToPosition(OnSubscription):
    """Acknowledgement of all entries up to and including ``position``; with ``excluded``, also of the next entry."""

    position: MessagePosition


@dataclass(frozen=True, slots=True)
class AnalyzeBacklog(OnSubscription):
    """Start of the analysed backlog: ``position``, or the first unacknowledged entry without one."""

    position: MessagePosition | None = None


@dataclass(frozen=True, slots=True)
class PreviewChange(OnSubscription):
    """Change of a cursor to be previewed, with the change's arguments; ``undo`` is the id of the change to undo."""

    change: CursorChange
    count: int | None = None
    timestamp_ms: int | None = None
    position: MessagePosition | None = None
    undo: str | None = None

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        if self.change == "undo" and not self.undo:
            raise ValueError("undo: needed to take a change back")
        if self.change == "skip":
            if self.count is None:
                raise ValueError("count: needed to skip")
            within("count", self.count, 0, COUNT_MAX)
        if self.change == "reset":
            ResetCursor(self.topic, self.subscription, self.timestamp_ms, self.position)


@dataclass(frozen=True, slots=True)
class MoveCursor(OnSubscription):
    """Confirmed change of a cursor, as it was previewed.

    ``id`` is chosen by the client, at most ``CHANGE_ID_MAX`` characters; an id that was used on the subscription in the
    last ``PREVIEW_AGE_MAX_S`` seconds is refused. ``base``, ``target`` and the numbers of entries and messages that are
    ``lost`` and due ``again`` are those of the preview. ``undoes`` is the id of the change that is undone. ``dry`` only
    checks whether the change would be made.
    """

    id: str
    change: CursorChange
    base: str
    target: str
    lost: int
    again: int
    lost_messages: int | None = None
    again_messages: int | None = None
    exact: bool = True
    by: str = ""
    undoes: str = ""
    dry: bool = False

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        within("length of id", len(self.id), 1, CHANGE_ID_MAX)


@dataclass(frozen=True, slots=True)
class AcknowledgeMessages(OnSubscription):
    """Single messages, at most ``ACKNOWLEDGED_MAX``, that are to be acknowledged for a subscription; ``batch_index`` -1
    stands for all of an entry. ``dry`` only reads their states."""

    messages: list[MessagePosition]
    dry: bool = False

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        within("length of messages", len(self.messages), 1, ACKNOWLEDGED_MAX)


SKIP_MESSAGES = Operation("skip_messages", Skip, JsonObject, CONSUME_SUBSCRIPTION)
CLEAR_BACKLOG = Operation("clear_backlog", OnSubscription, JsonObject, CONSUME_SUBSCRIPTION)
RESET_CURSOR = Operation("reset_cursor", ResetCursor, JsonObject, CONSUME_SUBSCRIPTION)
"""Reset of a cursor. Consumers are disconnected and reconnect at the new position."""
EXPIRE_MESSAGES = Operation("expire_messages", ExpireMessages, JsonObject, CONSUME_SUBSCRIPTION)
EXPIRE_TO_POSITION = Operation(
    "expire_to_position", ExpireToPosition, JsonObject, CONSUME_SUBSCRIPTION
)
"""Raises Conflict for a position behind the last entry."""
ANALYZE_BACKLOG = Operation(
    "analyze_backlog", AnalyzeBacklog, JsonObject, CONSUME_SUBSCRIPTION, reads=True
)
"""Pulsar's AnalyzeSubscriptionBacklogResult."""
PREVIEW_CHANGE = Operation(
    "preview_change", PreviewChange, JsonObject, CONSUME_SUBSCRIPTION, reads=True
)
"""Effect of a change of the cursor:

* ``lost``: entries that would count as acknowledged without having been acknowledged by a consumer.
* ``again``: entries that would be redelivered.
* ``lost_messages``, ``again_messages``: messages in them, null when unknown, estimated unless ``exact``.
* ``from``, ``to``: next entry before and after; ``holes``: entries between them that are acknowledged already.
* ``delayed``: affected messages that are not due yet; ``first``, ``last``: ``{id, publish_time, key}`` of the affected.
* ``consumers``: ``[{name, address}]``.
* ``undoable``; ``kept_ms``: time after the change for which trimming keeps the skipped entries.
* ``base``, ``target``: arguments of ``MOVE_CURSOR``.
* For an undo, ``gone``: entries that were trimmed; ``moved``: entries that another client has set back since.

Raises Conflict for an undo of a change that is not the last one, or that was too large to be recorded."""
MOVE_CURSOR = Operation("move_cursor", MoveCursor, JsonObject, CONSUME_SUBSCRIPTION)
"""Change of the cursor exactly as it was previewed: later entries are not affected, and entries that were acknowledged
since remain so. The answer describes the change that was made:

* ``done``, ``lost``, ``again`` and both in messages, ``exact``.
* ``meanwhile``: entries of the change that were acknowledged since the preview.
* ``from``, ``to``, ``mark_delete``: read after the change.
* ``changed``: False when no entry remained to be changed, which is not recorded.
* ``undoable``; ``kept_until``: epoch milliseconds until which trimming keeps the skipped entries.
* Unless ``done``: ``why`` (``used``, ``moved``, ``trimmed``), ``reason``, ``from``: next entry now, and the ``entries``
  that differ."""
LAST_CHANGES = Operation("last_changes", OnTopic, list[JsonObject], CONSUME, reads=True)
"""Last change by ``MOVE_CURSOR`` of each subscription that has one: ``subscription, id, at, by, change, lost, again,
lost_messages, again_messages, exact, undoable, kept_until, undoes``."""
ACKNOWLEDGE_MESSAGES = Operation(
    "acknowledge_messages", AcknowledgeMessages, JsonObject, CONSUME_SUBSCRIPTION
)
"""Acknowledgement of single messages without a consumer, durable before the answer; idempotent. ``states``: of each
message before it, in their order: ``held`` (not acknowledged), ``acknowledged`` or ``gone`` (there is no such entry);
``acknowledged``: how many were held; ``before`` and ``after``: mark-delete positions."""
