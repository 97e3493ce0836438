"""Administrative operations that a broker runs on the topics it owns: names, typed arguments, results. Pure.

``OPERATIONS`` maps each operation's name to the dataclass of its arguments. The broker serves them at
``POST /rpc/<name>`` (a JSON object of arguments in, ``{"result": …}`` out); ``engine.admin.client`` calls them;
``Operations`` is what the broker implements. Results are JSON values in the shapes of Pulsar's Admin REST API unless
said otherwise. Refusals raise AdminError with Pulsar's HTTP status and text. Topic arguments are full names; 64-bit ids
are JSON numbers here.
"""

import typing
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Protocol, TypeVar

from engine.base.errors import AdminError, InvalidNameError
from engine.base.ids import Position
from engine.base.names import TopicName, check_subscription

JsonObject = dict[str, Any]
LONG_MAX = (1 << 63) - 1
COUNT_MAX = 1 << 31

A = TypeVar("A")


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name}: must be from {low} to {high}, not {value}")


@dataclass(frozen=True, slots=True)
class MessagePosition:
    """A place in a topic. Earliest is -1:-1, latest is LONG_MAX:LONG_MAX. ``batch_index`` -1: the whole entry."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1
    excluded: bool = False

    def __post_init__(self) -> None:
        _within("ledger_id", self.ledger_id, -1, LONG_MAX)
        _within("entry_id", self.entry_id, -1, LONG_MAX)
        _within("batch_index", self.batch_index, -1, COUNT_MAX)

    @property
    def position(self) -> Position:
        return Position(self.ledger_id, self.entry_id)


EARLIEST_MESSAGE = MessagePosition(-1, -1)
LATEST_MESSAGE = MessagePosition(LONG_MAX, LONG_MAX)


@dataclass(frozen=True, slots=True)
class NoArguments:
    """For operations of the broker itself."""


@dataclass(frozen=True, slots=True)
class OnTopic:
    """``topic``: full name of a topic that is no partitioned parent."""

    topic: str

    def __post_init__(self) -> None:
        TopicName.parse(self.topic)

    @property
    def name(self) -> TopicName:
        return TopicName.parse(self.topic)


@dataclass(frozen=True, slots=True)
class CreateTopic(OnTopic):
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteTopic(OnTopic):
    """``force`` disconnects producers and consumers and deletes subscriptions."""

    force: bool = False


@dataclass(frozen=True, slots=True)
class TopicStats(OnTopic):
    """Flags as of Pulsar's stats route."""

    precise_backlog: bool = False
    subscription_backlog_size: bool = True
    earliest_time_in_backlog: bool = False
    exclude_publishers: bool = False
    exclude_consumers: bool = False


@dataclass(frozen=True, slots=True)
class InternalStats(OnTopic):
    """``metadata`` adds each ledger's metadata."""

    metadata: bool = False


@dataclass(frozen=True, slots=True)
class BrokerTopicsStats:
    """Rows of topics loaded here; ``namespace`` (``t/n``) narrows them."""

    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class OnSubscription(OnTopic):
    subscription: str

    def __post_init__(self) -> None:
        OnTopic.__post_init__(self)
        check_subscription(self.subscription)


@dataclass(frozen=True, slots=True)
class CreateSubscription(OnSubscription):
    """``position``: where it starts; None is latest."""

    position: MessagePosition | None = None
    properties: dict[str, str] = field(default_factory=dict)
    replicated: bool = False


@dataclass(frozen=True, slots=True)
class DeleteSubscription(OnSubscription):
    """``force`` disconnects its consumers."""

    force: bool = False


@dataclass(frozen=True, slots=True)
class Skip(OnSubscription):
    """``count`` entries from the first unacknowledged one on, 0..2^31."""

    count: int

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        _within("count", self.count, 0, COUNT_MAX)


@dataclass(frozen=True, slots=True)
class ResetCursor(OnSubscription):
    """Exactly one of ``timestamp_ms`` (publish time, epoch milliseconds) and ``position``."""

    timestamp_ms: int | None = None
    position: MessagePosition | None = None

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        if (self.timestamp_ms is None) == (self.position is None):
            raise ValueError("timestamp_ms: give either timestamp_ms or position")
        if self.timestamp_ms is not None:
            _within("timestamp_ms", self.timestamp_ms, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class ExpireMessages(OnSubscription):
    """Acknowledge what was published more than ``seconds`` ago (>= 1)."""

    seconds: int

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        _within("seconds", self.seconds, 1, LONG_MAX // 1000)


@dataclass(frozen=True, slots=True)
class Peek(OnSubscription):
    """``nth`` unacknowledged entry of the subscription, from 1."""

    nth: int = 1

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        _within("nth", self.nth, 1, COUNT_MAX)


@dataclass(frozen=True, slots=True)
class Examine(OnTopic):
    """``nth`` entry (from 1) counted from the ``initial`` end of the topic."""

    initial: Literal["earliest", "latest"] = "latest"
    nth: int = 1

    def __post_init__(self) -> None:
        OnTopic.__post_init__(self)
        _within("nth", self.nth, 1, COUNT_MAX)


@dataclass(frozen=True, slots=True)
class MessageById(OnTopic):
    ledger_id: int
    entry_id: int

    def __post_init__(self) -> None:
        OnTopic.__post_init__(self)
        _within("ledger_id", self.ledger_id, 0, LONG_MAX)
        _within("entry_id", self.entry_id, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class MessageIdByTime(OnTopic):
    """First message published at or after ``timestamp_ms``."""

    timestamp_ms: int

    def __post_init__(self) -> None:
        OnTopic.__post_init__(self)
        _within("timestamp_ms", self.timestamp_ms, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class PreviewChange(OnSubscription):
    """What a change of the cursor would do, without doing it; arguments as of the change itself."""

    change: Literal["skip-all", "skip", "reset"]
    count: int | None = None
    timestamp_ms: int | None = None
    position: MessagePosition | None = None

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        if self.change == "skip":
            if self.count is None:
                raise ValueError("count: needed to skip")
            _within("count", self.count, 0, COUNT_MAX)
        if self.change == "reset":
            ResetCursor(self.topic, self.subscription, self.timestamp_ms, self.position)


@dataclass(frozen=True, slots=True)
class OnBundle:
    """``bundle``: ``0x00000000_0x40000000`` of ``namespace``; None: every bundle owned here."""

    namespace: str
    bundle: str | None = None


class Operations(Protocol):
    """What the owner of a topic can do on request. Every method raises AdminError; none is cancel-safe halfway:
    a cancelled change may or may not have happened."""

    async def create_topic(self, args: CreateTopic) -> None:
        """409 when it exists, 404 without its namespace."""
        ...

    async def delete_topic(self, args: DeleteTopic) -> None:
        """404 when missing, 412 when in use and not forced."""
        ...

    async def topic_stats(self, args: TopicStats) -> JsonObject:
        """Pulsar's TopicStats."""
        ...

    async def internal_stats(self, args: InternalStats) -> JsonObject:
        """Pulsar's PersistentTopicInternalStats."""
        ...

    async def broker_topics_stats(self, args: BrokerTopicsStats) -> JsonObject:
        """``{"at": ms, "broker": id, "rows": [row]}``. row: name, domain, tenant, namespace, topic, producers,
        consumers, subscriptions, msg_rate_in, msg_rate_out, bytes_rate_in, bytes_rate_out, backlog, storage_bytes;
        sorted by name."""
        ...

    async def create_subscription(self, args: CreateSubscription) -> None:
        """409 when it exists; creates the topic where auto-creation is allowed, else 404."""
        ...

    async def delete_subscription(self, args: DeleteSubscription) -> None:
        """404 when missing, 412 with consumers connected and not forced."""
        ...

    async def subscriptions(self, args: OnTopic) -> list[str]:
        """Names, sorted."""
        ...

    async def durable_subscriptions(self, args: OnTopic) -> JsonObject:
        """``{name: properties}`` of everything that outlives the broker; 503 while one of them cannot be read."""
        ...

    async def skip_messages(self, args: Skip) -> None: ...

    async def clear_backlog(self, args: OnSubscription) -> None: ...

    async def reset_cursor(self, args: ResetCursor) -> None:
        """Consumers are disconnected and come back at the new place."""
        ...

    async def expire_messages(self, args: ExpireMessages) -> None: ...

    async def peek(self, args: Peek) -> JsonObject:
        """``{"headers": {name: text}, "body": base64}``: as Pulsar's REST answer."""
        ...

    async def examine(self, args: Examine) -> JsonObject:
        """As ``peek``."""
        ...

    async def message_by_id(self, args: MessageById) -> JsonObject:
        """As ``peek``."""
        ...

    async def message_id_by_time(self, args: MessageIdByTime) -> JsonObject:
        """MessageId: ``{ledgerId, entryId, partitionIndex}``."""
        ...

    async def last_message_id(self, args: OnTopic) -> JsonObject:
        """MessageId; entryId -1 of the open ledger when the topic is empty."""
        ...

    async def terminate(self, args: OnTopic) -> JsonObject:
        """Refuses publishing from now on; MessageId of the last message."""
        ...

    async def unload(self, args: OnTopic) -> None:
        """Close the topic; clients reconnect and load it again."""
        ...

    async def unload_bundle(self, args: OnBundle) -> None:
        """Close the topics of the bundle and give up its ownership."""
        ...

    async def preview_change(self, args: PreviewChange) -> JsonObject:
        """``{"affected": entries, "from": "ledger:entry", "to": "ledger:entry"}``."""
        ...

    async def trim(self, args: OnTopic) -> None:
        """Delete ledgers that no subscription or retention needs."""
        ...

    async def lookup(self, args: OnTopic) -> JsonObject:
        """Owner, chosen now when there is none: LookupData ``{brokerUrl, httpUrl, nativeUrl, brokerUrlSsl}``."""
        ...

    async def topics(self, args: BrokerTopicsStats) -> list[str]:
        """Names of topics loaded here, sorted."""
        ...

    async def owned_bundles(self, args: NoArguments) -> list[str]:
        """``tenant/namespace/0x…_0x…``, sorted."""
        ...

    async def health(self, args: NoArguments) -> str:
        """``ok`` when this broker holds its session and could reach the store just now; else AdminError 503."""
        ...


OPERATIONS: Mapping[str, type[Any]] = {
    "create_topic": CreateTopic,
    "delete_topic": DeleteTopic,
    "topic_stats": TopicStats,
    "internal_stats": InternalStats,
    "broker_topics_stats": BrokerTopicsStats,
    "create_subscription": CreateSubscription,
    "delete_subscription": DeleteSubscription,
    "subscriptions": OnTopic,
    "durable_subscriptions": OnTopic,
    "skip_messages": Skip,
    "clear_backlog": OnSubscription,
    "reset_cursor": ResetCursor,
    "expire_messages": ExpireMessages,
    "peek": Peek,
    "examine": Examine,
    "message_by_id": MessageById,
    "message_id_by_time": MessageIdByTime,
    "last_message_id": OnTopic,
    "terminate": OnTopic,
    "unload": OnTopic,
    "unload_bundle": OnBundle,
    "preview_change": PreviewChange,
    "trim": OnTopic,
    "lookup": OnTopic,
    "topics": BrokerTopicsStats,
    "owned_bundles": NoArguments,
    "health": NoArguments,
}


READS = frozenset(
    [
        "topic_stats",
        "internal_stats",
        "broker_topics_stats",
        "subscriptions",
        "durable_subscriptions",
        "peek",
        "examine",
        "message_by_id",
        "message_id_by_time",
        "last_message_id",
        "preview_change",
        "lookup",
        "topics",
        "owned_bundles",
        "health",
    ]
)
"""Operations that change nothing, so that a lost answer allows asking again."""


def parse_arguments(kind: type[A], given: object) -> A:
    """Arguments from a JSON value. Raises AdminError 400 naming the field, or 412 for an invalid name."""
    try:
        return _build(kind, given, "arguments")
    except InvalidNameError as error:
        raise AdminError(412, str(error)) from error
    except ValueError as error:
        raise AdminError(400, str(error)) from error


def to_json(args: Any) -> JsonObject:
    """The JSON object that ``parse_arguments`` reads."""
    return {key: value for key, value in asdict(args).items() if value is not None}


def _build(kind: type[A], given: object, where: str) -> A:
    if not isinstance(given, dict):
        raise ValueError(f"{where}: must be a JSON object")
    known = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise ValueError(f"{name}: unknown argument")
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for name, item in known.items():
        if name in given:
            values[name] = _checked(name, given[name], hints[name])
        elif item.default is MISSING and item.default_factory is MISSING:
            raise ValueError(f"{name}: missing")
    return kind(**values)


def _checked(name: str, value: object, kind: Any) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is UnionType:
        if value is None and NoneType in inner:
            return None
        return _checked(name, value, next(each for each in inner if each is not NoneType))
    if origin is Literal:
        if value not in inner:
            raise ValueError(f"{name}: must be one of {', '.join(inner)}")
        return value
    if origin is dict:
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise ValueError(f"{name}: must be a JSON object of texts")
        return value
    if is_dataclass(kind):
        return _build(typing.cast(type[Any], kind), value, name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        named = {str: "a text", int: "a whole number", bool: "true or false"}[kind]
        raise ValueError(f"{name}: must be {named}")
    return value
