"""Operations on subscriptions. Pure."""

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
