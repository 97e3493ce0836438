"""Operations on subscriptions. Pure."""

from base64 import b64decode
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from engine.admin.api.arguments import (
    LONG_MAX,
    JsonObject,
    MessagePosition,
    OnSubscription,
    OnTopic,
    within,
)
from engine.admin.api.rights import CONSUME, CONSUME_SUBSCRIPTION
from engine.rpc.operation import Operation

HOLDER_ROWS_MAX = 500
HOLDER_SUBSCRIPTIONS_MAX = 1_000
KEY_CHARS_MAX = 8_192


@dataclass(frozen=True, slots=True)
class CreateSubscription(OnSubscription):
    """Subscription to be created at ``position``; None is latest."""

    position: MessagePosition | None = None
    properties: dict[str, str] = field(default_factory=dict)
    replicated: bool = False


@dataclass(frozen=True, slots=True)
class SubscriptionProperties(OnSubscription):
    """Properties that replace those of the subscription."""

    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class DeleteSubscription(OnSubscription):
    """``force`` disconnects its consumers. ``seen``: as SUBSCRIPTION_HOLDINGS answered it; nothing is deleted when more
    of that would be lost by now, or a consumer came. ``dry``: only whether."""

    force: bool = False
    seen: Any = None
    dry: bool = False


@dataclass(frozen=True, slots=True)
class DisconnectConsumer(OnSubscription):
    """Consumer as SUBSCRIPTION_HOLDINGS answered it: ``id`` was chosen by the client connected from ``address``."""

    name: str
    address: str
    id: int
    connected_ms: int

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        within("id", self.id, 0, LONG_MAX)
        within("connected_ms", self.connected_ms, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class Holders(OnSubscription):
    """``rows``: most entries, slots and delayed entries that are listed. ``key``: key of which the consumer is
    wanted, ``key_base64`` in base64."""

    rows: int = 100
    key: str | None = None
    key_base64: bool = False

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        within("rows", self.rows, 1, HOLDER_ROWS_MAX)
        within("length of key", len(self.key or ""), 0, KEY_CHARS_MAX)
        self.key_bytes()  # raises ValueError

    def key_bytes(self) -> bytes | None:
        if self.key is None or not self.key_base64:
            return None if self.key is None else self.key.encode()
        try:
            return b64decode(self.key, validate=True)
        except ValueError:
            raise ValueError("key: must be base64") from None


@dataclass(frozen=True, slots=True)
class MessageHolders(OnTopic):
    """``message``: the message that subscriptions may hold; ``batch_index`` -1 stands for all of its entry."""

    message: MessagePosition


@dataclass(frozen=True, slots=True)
class Replicate(OnSubscription):
    """Flag that requests the replication of the subscription's state to other clusters."""

    replicated: bool


SUBSCRIPTIONS = Operation("subscriptions", OnTopic, list[str], CONSUME, reads=True)
"""Names of the subscriptions, sorted."""
DURABLE_SUBSCRIPTIONS = Operation(
    "durable_subscriptions", OnTopic, dict[str, dict[str, str]], CONSUME, reads=True
)
"""Properties by name of the durable subscriptions. Raises NotReady while one of them cannot be read."""
CREATE_SUBSCRIPTION = Operation(
    "create_subscription", CreateSubscription, NoneType, CONSUME_SUBSCRIPTION
)
"""Creation of a subscription, and of the topic where auto-creation is allowed. Raises AlreadyExists, and NotFound
without the topic."""
DELETE_SUBSCRIPTION = Operation(
    "delete_subscription", DeleteSubscription, JsonObject, CONSUME_SUBSCRIPTION
)
"""Deletion of a subscription. Raises NotFound without it, PreconditionFailed while consumers are connected and not
``force`` (Conflict with ``seen``), and Conflict when it differs from ``seen``: nothing was deleted then. ``later``:
lost entries that were published after the preview, null when unknown."""
SUBSCRIPTION_HOLDINGS = Operation(
    "subscription_holdings", OnSubscription, JsonObject, CONSUME_SUBSCRIPTION, reads=True
)
"""Contents and consumers of a subscription: ``{"durable", "type": empty before its first consumer, "unread": reason why
it cannot be read now, or empty, "entries", "messages", "exact": as of HOLDINGS, null while it is unread, "consumers":
[{name, address, id, connected_ms, unacked}], "seen"}``. ``seen``: for DELETE_SUBSCRIPTION."""
HOLDERS = Operation("holders", Holders, JsonObject, CONSUME_SUBSCRIPTION, reads=True)
"""Holders of a subscription's messages: ``{"type", "durable", "entries": delivered and unacknowledged, "consumers",
"unacked", "draining", "delayed", "key"}``. A consumer is named by its place in ``consumers``.

* ``consumers``, most entries first: ``{name, address, connected_ms, entries, messages: null for types that acknowledge
  in order, redelivered: entries sent again since it connected, oldest: [ledger, entry] or null, oldest_ms: when that
  was published, null when not known, ranges: [[first, last]] of Key_Shared}``. Times are read of the first ``rows``.
* ``unacked``, the first ``rows`` in the order of the topic: ``[ledger, entry, messages or null, consumer, redeliveries,
  published_ms or null, slot of its key or null]``.
* ``draining``: ``{"total", "rows": [[slot, consumer, entries, refused]]}``: slots that moved to another consumer and
  wait for the acknowledgements of this one; null for other types than Key_Shared.
* ``delayed``: ``{"entries", "rows": [[due_ms, ledger, entry]], "known_ms", "last_ms", "last_exact"}`` by due time, null
  where the broker keeps no delivery times: without a consumer, and for types that deliver at once. Entries from
  ``known_ms`` on (null: none) are in storage, and not among ``rows``.
* ``key``: ``{"slot", "consumer", "range", "waits_for"}``; null without a key and for other types than Key_Shared."""
MESSAGE_HOLDERS = Operation("message_holders", MessageHolders, JsonObject, CONSUME, reads=True)
"""Holders of a message: ``{"delivers_ms": delivery time or 0, "subscriptions": [{name, type, durable, state, consumer,
redeliveries, slot, range, waits_for}], "total", "unread": names that cannot be read now}`` of the first
``HOLDER_SUBSCRIPTIONS_MAX`` by name. Consumers are ``{name, address}``. ``state``:

* ``acknowledged``; ``delivered`` to ``consumer``; ``delayed``.
* ``waiting`` to be sent, to ``consumer`` where its key has one, when ``waits_for`` acknowledged what it has of the key.
* ``unknown``: delivered or waiting, because the consumer reads the compacted topic.

Raises NotFound when the topic does not have the message."""
DISCONNECT_CONSUMER = Operation(
    "disconnect_consumer", DisconnectConsumer, JsonObject, CONSUME_SUBSCRIPTION
)
"""Disconnection of one consumer by CLOSE_CONSUMER, as an unload disconnects all: its client may reconnect at once. Its
unacknowledged messages are delivered again. Raises NotFound when it left, Conflict when it reconnected meanwhile."""
SUBSCRIPTION_PROPERTIES = Operation(
    "subscription_properties", OnSubscription, dict[str, str], CONSUME_SUBSCRIPTION, reads=True
)
SET_SUBSCRIPTION_PROPERTIES = Operation(
    "set_subscription_properties", SubscriptionProperties, JsonObject, CONSUME_SUBSCRIPTION
)
"""Replacement of the properties; those of a non-durable subscription last as long as it does."""
REPLICATED = Operation("replicated", OnSubscription, bool, CONSUME_SUBSCRIPTION, reads=True)
REPLICATE = Operation("replicate", Replicate, JsonObject, CONSUME_SUBSCRIPTION)
"""Stores the flag; subscriptions are not replicated yet."""
