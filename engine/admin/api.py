"""Declarations of the administrative operations that a broker runs on the topics it owns. Pure.

Answers are JSON values in the form of Pulsar's Admin REST API unless documented otherwise; 64-bit ids are JSON numbers.
The docstring of an operation describes its answer, and the Refusals that it raises with Pulsar's text. A call that was
cancelled or had no answer may or may not have happened.
"""

from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Literal

from engine.admin.operation import AdminAccess, Operation
from engine.base.ids import Position
from engine.base.names import NamespaceName, TopicName, check_subscription

JsonObject = dict[str, Any]
"""A JSON object. The answer of a change has ``"before"``, the previous state for the audit log; the answer of a cursor
change has the mark-delete positions ``"before"`` and ``"after"``."""
LONG_MAX = (1 << 63) - 1
COUNT_MAX = 1 << 31
TOPICS_AT_REST_MAX = 100
SCHEMA_PAGE_MAX = 100
STORED_SCHEMAS_MAX = 8
LATEST_MESSAGES_MAX = 1_000
LATEST_BYTES_MAX = 8 << 20
CHANGE_ID_MAX = 64
PREVIEW_AGE_MAX_S = 600
"""Seconds within which a preview may be confirmed."""
CursorChange = Literal["skip-all", "skip", "reset", "undo"]


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name}: must be from {low} to {high}, not {value}")


@dataclass(frozen=True, slots=True)
class MessagePosition:
    """Position in a topic: earliest is -1:-1, latest is LONG_MAX:LONG_MAX; ``batch_index`` -1 is the whole entry."""

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
    """Empty arguments, for operations of the broker itself."""


@dataclass(frozen=True, slots=True)
class ChangeSetting:
    """Change of a setting by Pulsar's ``name``; without ``value`` the stored one is removed.

    With ``checked``, the change is made only while ``expected`` is stored.
    """

    name: str
    value: str | None = None
    checked: bool = False
    expected: Any = None


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """Selection of the settings that may change: all, or the one called ``name``.

    The latter is described as if ``value`` were stored, or as if none were stored without ``value``.
    """

    name: str = ""
    value: str | None = None


@dataclass(frozen=True, slots=True)
class TopicsPage:
    """Page of topics in order of name, behind the topic named ``after``."""

    after: str = ""


@dataclass(frozen=True, slots=True)
class OnTopic:
    """Topic of an operation; it must not be a partitioned topic, but may be a partition."""

    topic: TopicName


@dataclass(frozen=True, slots=True)
class CreateTopic(OnTopic):
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChangeProperties(OnTopic):
    """Change that sets ``properties`` and removes those named in ``removed``.

    With ``expected``, the change is made only while the topic has exactly these properties.
    """

    properties: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    expected: dict[str, str] | None = None

    @property
    def changes(self) -> dict[str, str | None]:
        """New values by name; None for properties to be removed."""
        return {**self.properties, **dict.fromkeys(self.removed)}


@dataclass(frozen=True, slots=True)
class DeleteTopic(OnTopic):
    """Deletion of a topic. ``force`` disconnects producers and consumers and deletes subscriptions.

    ``seen`` is that of an answer of HOLDINGS: nothing is deleted when more would be lost now, or when other clients use
    the topic. ``dry`` only checks whether the topic would be deleted.
    """

    force: bool = False
    seen: Any = None
    dry: bool = False


@dataclass(frozen=True, slots=True)
class SetTopicPolicy(OnTopic):
    """Change of a policy by its ``name`` in the table of policies; ``value`` is the result of ``Policy.read``.

    A value of None removes the policy. With ``checked``, the change is made only while ``expected`` is stored.
    ``subscription`` selects the value of one subscription, for policies that have those. ``everywhere`` selects the
    value for all clusters instead of this one.
    """

    name: str
    value: Any = None
    checked: bool = False
    expected: Any = None
    subscription: str = ""
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class PolicyEffect(OnTopic):
    """Policy whose effect is computed: ``name`` of one with ``Policy.takes``, and its complete effective ``value``.

    ``at_ms`` is the time for which the effect is computed (epoch milliseconds), None for now. With ``measured``,
    messages are counted besides entries.
    """

    name: str
    value: Any
    at_ms: int | None = None
    measured: bool = True


@dataclass(frozen=True, slots=True)
class GivenSchema(OnTopic):
    """Schema in REST's form: ``kind`` by name, ``definition`` as text, for KEY_VALUE a JSON object of both parts."""

    kind: str
    definition: str = ""
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OneSchema(OnTopic):
    """Version of a schema by ``number``, None for the newest."""

    number: int | None = None


@dataclass(frozen=True, slots=True)
class RegisterSchema(GivenSchema):
    """Schema to be registered, only while the newest version has the number ``expected`` (-1 without any version)."""

    expected: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteSchema(OnTopic):
    """Deletion of a schema. ``force`` removes all versions with their ledgers.

    Without ``force``, messages with these versions remain readable, and with ``expected`` the schema is deleted only
    while the newest version has this number.
    """

    force: bool = False
    expected: int | None = None

    def __post_init__(self) -> None:
        if self.force and self.expected is not None:
            raise ValueError("expected: not with force")


@dataclass(frozen=True, slots=True)
class SchemaPage(OnTopic):
    """Page of the last ``limit`` (1 to ``SCHEMA_PAGE_MAX``) versions, or of those before number ``before``."""

    limit: int
    before: int | None = None

    def __post_init__(self) -> None:
        _within("limit", self.limit, 1, SCHEMA_PAGE_MAX)


@dataclass(frozen=True, slots=True)
class StoredSchemas(OnTopic):
    """Numbers of versions, at most ``STORED_SCHEMAS_MAX``."""

    numbers: list[int]

    def __post_init__(self) -> None:
        _within("length of numbers", len(self.numbers), 1, STORED_SCHEMAS_MAX)


@dataclass(frozen=True, slots=True)
class TopicStats(OnTopic):
    """Flags of Pulsar's stats route, and our own flag ``schema_versions`` for those of producers and consumers."""

    precise_backlog: bool = False
    subscription_backlog_size: bool = True
    earliest_time_in_backlog: bool = False
    exclude_publishers: bool = False
    exclude_consumers: bool = False
    schema_versions: bool = False


@dataclass(frozen=True, slots=True)
class InternalStats(OnTopic):
    """Flags of the internal statistics; ``metadata`` adds each ledger's metadata."""

    metadata: bool = False


@dataclass(frozen=True, slots=True)
class LoadedTopics:
    """Selection of the topics that are loaded on a broker: all, or those of one namespace."""

    namespace: NamespaceName | None = None


@dataclass(frozen=True, slots=True)
class TopicRows:
    """Position in a feed of rows, which selects the changes since an earlier answer.

    All rows are sent without an earlier answer, and when the broker has been restarted since.
    """

    incarnation: str = ""
    revision: int = 0
    begun: int = 0

    def __post_init__(self) -> None:
        _within("revision", self.revision, 0, LONG_MAX)
        _within("begun", self.begun, 0, LONG_MAX)

    @classmethod
    def after(cls, answer: JsonObject) -> "TopicRows":
        """Return the arguments of the call that follows an answer. Raises KeyError, TypeError, ValueError."""
        return cls(str(answer["incarnation"]), int(answer["revision"]), int(answer["begun"]))


@dataclass(frozen=True, slots=True)
class TopicsAtRest:
    """Persistent topics that are not partitioned topics, at most ``TOPICS_AT_REST_MAX``."""

    topics: list[TopicName]

    def __post_init__(self) -> None:
        if len(self.topics) > TOPICS_AT_REST_MAX:
            raise ValueError(
                f"topics: at most {TOPICS_AT_REST_MAX} at a time, not {len(self.topics)}"
            )
        for name in self.topics:
            if not name.persistent:
                raise ValueError(f"topics: {name} keeps nothing to be at rest")


@dataclass(frozen=True, slots=True)
class OnSubscription(OnTopic):
    subscription: str

    def __post_init__(self) -> None:
        check_subscription(self.subscription)


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
        _within("id", self.id, 0, LONG_MAX)
        _within("connected_ms", self.connected_ms, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class Skip(OnSubscription):
    """Number of entries to be skipped from the first unacknowledged one on, 0..2^31."""

    count: int

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        _within("count", self.count, 0, COUNT_MAX)


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
            _within("timestamp_ms", self.timestamp_ms, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class ExpireMessages(OnSubscription):
    """Acknowledgement of all messages that were published more than ``seconds`` ago (>= 1)."""

    seconds: int

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        _within("seconds", self.seconds, 1, LONG_MAX // 1000)


@dataclass(frozen=True, slots=True)
class ExpireToPosition(OnSubscription):
    """Acknowledgement of all entries up to and including ``position``; with ``excluded``, also of the next entry."""

    position: MessagePosition


@dataclass(frozen=True, slots=True)
class AnalyzeBacklog(OnSubscription):
    """Start of the analysed backlog: ``position``, or the first unacknowledged entry without one."""

    position: MessagePosition | None = None


@dataclass(frozen=True, slots=True)
class Replicate(OnSubscription):
    """Flag that requests the replication of the subscription's state to other clusters."""

    replicated: bool


@dataclass(frozen=True, slots=True)
class Peek(OnSubscription):
    """Number of an unacknowledged entry of the subscription, from 1."""

    nth: int = 1

    def __post_init__(self) -> None:
        OnSubscription.__post_init__(self)
        _within("nth", self.nth, 1, COUNT_MAX)


@dataclass(frozen=True, slots=True)
class Examine(OnTopic):
    """Number of an entry (from 1), counted from the ``initial`` end of the topic."""

    initial: Literal["earliest", "latest"] = "latest"
    nth: int = 1

    def __post_init__(self) -> None:
        _within("nth", self.nth, 1, COUNT_MAX)


@dataclass(frozen=True, slots=True)
class MessageById(OnTopic):
    ledger_id: int
    entry_id: int

    def __post_init__(self) -> None:
        _within("ledger_id", self.ledger_id, 0, LONG_MAX)
        _within("entry_id", self.entry_id, 0, LONG_MAX)


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
        _within("messages", self.messages, 1, LATEST_MESSAGES_MAX)
        _within("bytes_max", self.bytes_max, 1, LATEST_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class MessageIdByTime(OnTopic):
    """Time at or after which the message was published, epoch milliseconds."""

    timestamp_ms: int

    def __post_init__(self) -> None:
        _within("timestamp_ms", self.timestamp_ms, 0, LONG_MAX)


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
            _within("count", self.count, 0, COUNT_MAX)
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
        _within("length of id", len(self.id), 1, CHANGE_ID_MAX)


@dataclass(frozen=True, slots=True)
class OnBundle:
    """Bundle of a namespace by its range, such as ``0x00000000_0x40000000``; None for all bundles owned here."""

    namespace: NamespaceName
    bundle: str | None = None


@dataclass(frozen=True, slots=True)
class OwnPolicy(OnBundle):
    """Policy by its ``name`` in the table of policies."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class SplitBundle(OnBundle):
    """Split of a ``bundle``, which is required.

    ``algorithm`` has Pulsar's name, empty for the default. ``positions`` are the hashes at which the bundle is split,
    for the algorithm that needs them. ``unload`` releases the parts afterwards.
    """

    algorithm: str = ""
    positions: list[int] = field(default_factory=list)
    unload: bool = False

    def __post_init__(self) -> None:
        if not self.bundle:
            raise ValueError("bundle: missing")


@dataclass(frozen=True, slots=True)
class BacklogSize(OnTopic):
    """Position behind which the backlog is measured."""

    position: MessagePosition


# Topics

CREATE_TOPIC = Operation("create_topic", CreateTopic, NoneType, AdminAccess.TENANT)
"""Raises AlreadyExists, and NotFound without the namespace."""
DELETE_TOPIC = Operation("delete_topic", DeleteTopic, JsonObject, AdminAccess.TENANT)
"""Raises NotFound when missing, PreconditionFailed when in use and not forced, Conflict when more than was seen would
be lost; nothing is deleted then."""
FORGET_PARTITIONED = Operation("forget_partitioned", OnTopic, NoneType, AdminAccess.TENANT)
"""Deletion of the schemas, policies and permissions of a partitioned topic. Raises Conflict unless its record is marked
as deleted, PreconditionFailed while it has partitions."""
HOLDINGS = Operation("holdings", OnTopic, JsonObject, AdminAccess.LOOKUP, reads=True)
"""Contents and clients of a topic: ``{"bytes", "entries": stored ones, "terminated", "last": its last message,
"producers": [{name, address}], "subscriptions": [{name, durable, entries, messages, exact, consumers: [{name,
address}]}], "unread": names of subscriptions that cannot be read now, "seen"}``. A subscription's ``entries`` are its
unacknowledged ones, ``messages`` the messages in them: null when their number cannot be determined, estimated unless
``exact``. ``seen`` is the argument of DELETE_TOPIC."""
TOPIC_PROPERTIES = Operation(
    "topic_properties", OnTopic, dict[str, str], AdminAccess.LOOKUP, reads=True
)
CHANGE_PROPERTIES = Operation("change_properties", ChangeProperties, JsonObject, AdminAccess.TENANT)
"""Raises PreconditionFailed for a reserved name, or when all properties together exceed the limit, Conflict when the
topic does not have the expected properties."""
TOPIC_STATS = Operation("topic_stats", TopicStats, JsonObject, AdminAccess.LOOKUP, reads=True)
"""Pulsar's TopicStats."""
INTERNAL_STATS = Operation(
    "internal_stats", InternalStats, JsonObject, AdminAccess.LOOKUP, reads=True
)
"""Pulsar's PersistentTopicInternalStats."""
INTERNAL_INFO = Operation("internal_info", OnTopic, JsonObject, AdminAccess.LOOKUP, reads=True)
"""Pulsar's ManagedLedgerInfo: ledgers and cursors as stored. The topic is not loaded for it; any broker answers."""
LAST_MESSAGE_ID = Operation("last_message_id", OnTopic, JsonObject, AdminAccess.CONSUME, reads=True)
"""MessageId of the last message; entryId -1 of the open ledger when the topic is empty."""
MESSAGE_ID_BY_TIME = Operation(
    "message_id_by_time", MessageIdByTime, JsonObject, AdminAccess.CONSUME, reads=True
)
"""MessageId ``{ledgerId, entryId, partitionIndex}`` of the first message at or after the time."""
BACKLOG_SIZE = Operation("backlog_size", BacklogSize, int, AdminAccess.CONSUME, reads=True)
"""Bytes stored behind a position, estimated from the mean size of entries; all bytes if the topic lacks its ledger."""
TERMINATE = Operation("terminate", OnTopic, JsonObject, AdminAccess.TENANT)
"""Termination of a topic, which then refuses publishing. ``last`` is the MessageId of the last message."""
UNLOAD = Operation("unload", OnTopic, NoneType, AdminAccess.TENANT)
"""Closing of a topic; its clients reconnect and load it again."""
TRIM = Operation("trim", OnTopic, NoneType, AdminAccess.TENANT)
"""Deletion of the ledgers that no subscription and no retention needs."""
TRUNCATE = Operation("truncate", OnTopic, NoneType, AdminAccess.TENANT)
"""Acknowledgement of all entries by every subscription, then deletion of all ledgers but the open one, also of those
that retention would keep."""
COMPACT = Operation("compact", OnTopic, NoneType, AdminAccess.TENANT)
"""Start of a compaction. Raises Conflict while one is running."""
COMPACTION_STATUS = Operation(
    "compaction_status", OnTopic, JsonObject, AdminAccess.TENANT, reads=True
)
"""LongRunningProcessStatus: ``{"status": "NOT_RUN" | "RUNNING" | "SUCCESS" | "ERROR", "lastError"}``."""
PARTITIONS_TO_USE = Operation("partitions_to_use", OnTopic, int, AdminAccess.LOOKUP)
"""Number of partitions for a client that is about to use the topic; 0 for a plain topic. A partitioned topic is created
where the namespace's policy requests it. Raises NotFound when the topic is missing and not created by its use."""
LOOKUP = Operation("lookup", OnTopic, JsonObject, AdminAccess.LOOKUP, reads=True)
"""LookupData ``{brokerUrl, httpUrl, nativeUrl, brokerUrlSsl}`` of the owner, which is chosen now if there is none."""

TOPIC_POLICIES = Operation("topic_policies", OnTopic, JsonObject, AdminAccess.LOOKUP, reads=True)
"""Policies of a topic by name: ``{"value": effective value, "level": level that sets it, "own": the topic's value or
null, "everywhere": its value for all clusters or null, "inherited", "inherited_level": effective value and level
without the topic's}``. Policies with values for single subscriptions also have ``"subscriptions"`` and
``"subscriptions_everywhere"``, values by subscription name. ``topic`` must not be a partition; it need not exist."""
SET_TOPIC_POLICY = Operation("set_topic_policy", SetTopicPolicy, JsonObject, AdminAccess.TENANT)
"""Change of a topic's policy, which is durable before the answer. Raises Conflict when another value than expected is
stored, PreconditionFailed for retention and backlog quota that do not fit."""

POLICY_EFFECT = Operation("policy_effect", PolicyEffect, JsonObject, AdminAccess.LOOKUP, reads=True)
"""Deletions that a policy would cause: ``{"bytes": stored bytes that would be deleted, "deleted": whether the topic
would be deleted once it was unused for the whole time, "subscriptions": [{name, deleted, entries, messages, exact}] of
those that would lose entries or be deleted, "producers": number that would be disconnected, "unknown": subscriptions
whose effect is unknown, with the reason, "within_s": seconds in which brokers act on the policy at the latest}``.
``messages`` is null when not measured or when it cannot be determined, and estimated unless ``exact``."""
TOPICS_WITH_POLICY = Operation(
    "topics_with_policy", OwnPolicy, JsonObject, AdminAccess.LOOKUP, reads=True
)
"""Topics of a namespace with an own value, for this cluster or all clusters, by full name; a partitioned topic is
included once. Any broker answers."""

# Schemas of a topic and all its partitions. The topic need not exist; the bundle's owner answers.

SCHEMA = Operation("schema", OneSchema, JsonObject, AdminAccess.LOOKUP, reads=True)
"""GetSchemaResponse of a version since the last deletion. Raises NotFound."""
SCHEMAS = Operation("schemas", OnTopic, list[JsonObject], AdminAccess.LOOKUP, reads=True)
"""GetSchemaResponses of all versions since the last deletion, oldest first."""
SCHEMA_METADATA = Operation("schema_metadata", OnTopic, JsonObject, AdminAccess.LOOKUP, reads=True)
"""SchemaMetadata with the position of each version; empty without a version."""
SCHEMA_PAGE = Operation("schema_page", SchemaPage, JsonObject, AdminAccess.LOOKUP, reads=True)
"""Versions since the last deletion, newest first: ``{"total", "newest": number of the newest, -1 without any,
"versions": [{"version", "type", "timestamp", "size": bytes of the definition} or {"version", "reason": why it cannot be
read}]}``."""
STORED_SCHEMAS = Operation(
    "stored_schemas", StoredSchemas, list[JsonObject], AdminAccess.LOOKUP, reads=True
)
"""Requested versions, also from before a deletion: ``{"version", "type", "timestamp", "data": the definition's bytes in
base64, "properties"}``, or ``{"version", "reason"}`` for one that is missing or cannot be read."""
REGISTER_SCHEMA = Operation("register_schema", RegisterSchema, JsonObject, AdminAccess.TENANT)
"""``version`` is the number of the schema: an existing one, or a new one if it is compatible. Raises Conflict with the
incompatible field, Conflict when the newest version is not the expected one, Unprocessable for an invalid definition,
NotFound without the namespace."""
CHECK_SCHEMA = Operation("check_schema", GivenSchema, JsonObject, AdminAccess.LOOKUP, reads=True)
"""IsCompatibilityResponse (``compatibility``, ``schemaCompatibilityStrategy``), and ``reason`` if incompatible."""
FIND_SCHEMA = Operation("find_schema", GivenSchema, int, AdminAccess.LOOKUP, reads=True)
"""Number of the version with this schema; -1 when it is not registered."""
DELETE_SCHEMA = Operation("delete_schema", DeleteSchema, JsonObject, AdminAccess.TENANT)
"""``version`` is the number of the version that records the deletion. Without a schema to delete it is that of the last
deletion, -1 without one. Raises Conflict when the newest version is not the expected one."""

# Namespaces

NAMESPACE_POLICIES = Operation(
    "namespace_policies", OnBundle, JsonObject, AdminAccess.LOOKUP, reads=True
)
"""Policies of a namespace by name, as in TOPIC_POLICIES; ``own`` is the namespace's value, ``default`` the broker's,
which applies without it. Any broker answers."""

# Subscriptions

SUBSCRIPTIONS = Operation("subscriptions", OnTopic, list[str], AdminAccess.CONSUME, reads=True)
"""Names of the subscriptions, sorted."""
DURABLE_SUBSCRIPTIONS = Operation(
    "durable_subscriptions", OnTopic, dict[str, dict[str, str]], AdminAccess.CONSUME, reads=True
)
"""Properties by name of the durable subscriptions. Raises NotReady while one of them cannot be read."""
CREATE_SUBSCRIPTION = Operation(
    "create_subscription", CreateSubscription, NoneType, AdminAccess.CONSUME
)
"""Creation of a subscription, and of the topic where auto-creation is allowed. Raises AlreadyExists, and NotFound
without the topic."""
DELETE_SUBSCRIPTION = Operation(
    "delete_subscription", DeleteSubscription, JsonObject, AdminAccess.CONSUME
)
"""Deletion of a subscription. Raises NotFound without it, PreconditionFailed while consumers are connected and not
``force`` (Conflict with ``seen``), and Conflict when it differs from ``seen``: nothing was deleted then. ``later``:
lost entries that were published after the preview, null when unknown."""
SUBSCRIPTION_HOLDINGS = Operation(
    "subscription_holdings", OnSubscription, JsonObject, AdminAccess.CONSUME, reads=True
)
"""Contents and consumers of a subscription: ``{"durable", "type": empty before its first consumer, "unread": reason why
it cannot be read now, or empty, "entries", "messages", "exact": as of HOLDINGS, null while it is unread, "consumers":
[{name, address, id, connected_ms, unacked}], "seen"}``. ``seen``: for DELETE_SUBSCRIPTION."""
DISCONNECT_CONSUMER = Operation(
    "disconnect_consumer", DisconnectConsumer, JsonObject, AdminAccess.CONSUME
)
"""Disconnection of one consumer by CLOSE_CONSUMER, as an unload disconnects all: its client may reconnect at once. Its
unacknowledged messages are delivered again. Raises NotFound when it left, Conflict when it reconnected meanwhile."""
SUBSCRIPTION_PROPERTIES = Operation(
    "subscription_properties", OnSubscription, dict[str, str], AdminAccess.CONSUME, reads=True
)
SET_SUBSCRIPTION_PROPERTIES = Operation(
    "set_subscription_properties", SubscriptionProperties, JsonObject, AdminAccess.CONSUME
)
"""Replacement of the properties; those of a non-durable subscription last as long as it does."""
SKIP_MESSAGES = Operation("skip_messages", Skip, JsonObject, AdminAccess.CONSUME)
CLEAR_BACKLOG = Operation("clear_backlog", OnSubscription, JsonObject, AdminAccess.CONSUME)
RESET_CURSOR = Operation("reset_cursor", ResetCursor, JsonObject, AdminAccess.CONSUME)
"""Reset of a cursor. Consumers are disconnected and reconnect at the new position."""
EXPIRE_MESSAGES = Operation("expire_messages", ExpireMessages, JsonObject, AdminAccess.CONSUME)
EXPIRE_TO_POSITION = Operation(
    "expire_to_position", ExpireToPosition, JsonObject, AdminAccess.CONSUME
)
"""Raises Conflict for a position behind the last entry."""
ANALYZE_BACKLOG = Operation(
    "analyze_backlog", AnalyzeBacklog, JsonObject, AdminAccess.CONSUME, reads=True
)
"""Pulsar's AnalyzeSubscriptionBacklogResult."""
REPLICATED = Operation("replicated", OnSubscription, bool, AdminAccess.CONSUME, reads=True)
REPLICATE = Operation("replicate", Replicate, JsonObject, AdminAccess.CONSUME)
"""Stores the flag; subscriptions are not replicated yet."""
PREVIEW_CHANGE = Operation(
    "preview_change", PreviewChange, JsonObject, AdminAccess.CONSUME, reads=True
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
MOVE_CURSOR = Operation("move_cursor", MoveCursor, JsonObject, AdminAccess.CONSUME)
"""Change of the cursor exactly as it was previewed: later entries are not affected, and entries that were acknowledged
since remain so. The answer describes the change that was made:

* ``done``, ``lost``, ``again`` and both in messages, ``exact``.
* ``meanwhile``: entries of the change that were acknowledged since the preview.
* ``from``, ``to``, ``mark_delete``: read after the change.
* ``changed``: False when no entry remained to be changed, which is not recorded.
* ``undoable``; ``kept_until``: epoch milliseconds until which trimming keeps the skipped entries.
* Unless ``done``: ``why`` (``used``, ``moved``, ``trimmed``), ``reason``, ``from``: next entry now, and the ``entries``
  that differ."""
LAST_CHANGES = Operation("last_changes", OnTopic, list[JsonObject], AdminAccess.CONSUME, reads=True)
"""Last change by ``MOVE_CURSOR`` of each subscription that has one: ``subscription, id, at, by, change, lost, again,
lost_messages, again_messages, exact, undoable, kept_until, undoes``."""

# Messages: ``{"headers": {name: text}, "body": base64}``

PEEK = Operation("peek", Peek, JsonObject, AdminAccess.CONSUME, reads=True)
EXAMINE = Operation("examine", Examine, JsonObject, AdminAccess.CONSUME, reads=True)
LATEST_ENTRIES = Operation(
    "latest_entries", LatestEntries, JsonObject, AdminAccess.CONSUME, reads=True
)
"""Complete stored entries, newest first: ``{"entries": [[ledger, entry, base64]], "more": bool}``; ``more``: there may
be earlier entries. No subscription and no cache is affected."""
MESSAGE_BY_ID = Operation("message_by_id", MessageById, JsonObject, AdminAccess.CONSUME, reads=True)

# Brokers

DYNAMIC_SETTINGS = Operation(
    "dynamic_settings", NoArguments, JsonObject, AdminAccess.SUPERUSER, reads=True
)
"""``{"names": of settings that may change while brokers run, "values": the stored ones, as texts}``, with Pulsar's
names. Any broker answers."""
CHECK_QUOTAS = Operation("check_quotas", NoArguments, NoneType, AdminAccess.SUPERUSER)
"""Check of the backlog quotas of all loaded topics, and enforcement, which is also done periodically. Raises NotReady
after the check if some topics could not be checked."""
CHANGE_SETTING = Operation("change_setting", ChangeSetting, JsonObject, AdminAccess.SUPERUSER)
"""Durable change of a setting for all brokers, which is effective on this broker before the answer. Raises
PreconditionFailed for a setting that must not change while brokers run, and for an invalid value, Conflict when another
value than expected is stored."""
LIVE_SETTINGS = Operation(
    "live_settings", LiveSettings, list[JsonObject], AdminAccess.SUPERUSER, reads=True
)
"""Settings of this broker: ``{"name", "meaning", "allowed": allowed values, "choices": [texts], "default", "started":
value at its start, "in_force", "last_read": stored value that it last read, null for none, "refused": why it does not
use that, "would_be": value that would be effective, "refusal": why the given one would not}``. Values are texts."""
RUNTIME_SETTINGS = Operation(
    "runtime_settings", NoArguments, dict[str, str], AdminAccess.SUPERUSER, reads=True
)
"""Effective settings of the broker, by Pulsar's names, as texts."""
REPLICATION = Operation("replication", NoArguments, JsonObject, AdminAccess.SUPERUSER, reads=True)
"""Numbers of bookies that ledgers need: ``{"session_ms": number or null, "default": [ensemble, write quorum, ack
quorum], "topics": [[ensemble, write quorum, ack quorum, topics, namespaces]]}``. ``default`` has the broker's settings;
``topics`` counts the loaded persistent topics by effective policy. ``session_ms`` is the time for which the broker
keeps its topics while the metadata store is unreachable."""
LOAD_REPORT = Operation("load_report", NoArguments, JsonObject, AdminAccess.SUPERUSER, reads=True)
"""Current LocalBrokerData of the broker."""
TOPICS_STATS = Operation("topics_stats", TopicsPage, JsonObject, AdminAccess.SUPERUSER, reads=True)
"""Statistics of loaded topics: ``{"topics": {namespace: {bundle: {domain: {topic: stats}}}}, "next": start of the next
page or null}``, in the form of Pulsar's broker-stats."""
BROKER_METRICS = Operation(
    "broker_metrics", NoArguments, list[JsonObject], AdminAccess.SUPERUSER, reads=True
)
"""Pulsar's Metrics of the broker: ``[{"metrics": {name: number}, "dimensions": {name: text}}]``."""

# A broker

ROW_COLUMNS = (
    "producers", "consumers", "subscriptions", "msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out",
    "backlog", "storage_bytes", "backlog_messages", "backlog_estimated", "backlog_unmeasured", "oldest_at",
)  # fmt: skip
"""Numbers of a topic's row, in their order. ``backlog``: entries, summed over subscriptions, as what follows.
``backlog_messages``: messages in them. ``backlog_estimated``: of the entries those whose messages are a mean;
``backlog_unmeasured``: those of unknown size, which are in ``backlog_messages`` as one message each. ``oldest_at``:
when the first unacknowledged entry was published, ms; 0: nothing is unacknowledged, ``OLDEST_UNKNOWN``: not known."""
OLDEST_UNKNOWN = -1
TOPIC_ROWS = Operation("topic_rows", TopicRows, JsonObject, AdminAccess.SUPERUSER, reads=True)
"""Rows of the loaded topics: ``{"at": ms, "incarnation": text, "revision": number, "begun": number, "whole": bool,
"more": bool, "rows": [[name, *ROW_COLUMNS]], "gone": [name]}``. ``at`` is the time of the measurement; ``gone`` are
topics that are no longer loaded. ``whole``: a complete list begins here, and topics that are not named up to its end
are no longer loaded either. The next call has ``incarnation``, ``revision`` and ``begun`` of this answer. With ``more``
it is answered at once, otherwise after the broker has measured again, which it does once a second. Rates are whole
thousandths per second; null is unknown."""
SUBSCRIPTION_ROWS = Operation(
    "subscription_rows", TopicRows, JsonObject, AdminAccess.SUPERUSER, reads=True
)
"""Backlogs of the loaded topics and their causes, in the form of TOPIC_ROWS. A row is ``[topic, [subscription, backlog,
messages out per second in thousandths, lag], …]`` with the subscriptions that have a backlog or a message rate; a topic
without such subscriptions has no row. A backlog of null is unknown. ``lag`` is null or the fields of ``lag.Lag``."""
TOPICS_AT_REST = Operation(
    "topics_at_rest", TopicsAtRest, JsonObject, AdminAccess.SUPERUSER, reads=True
)
"""Stored figures of topics that no broker has loaded: ``{"at": ms, "rows": [[name, subscriptions, backlog,
storage_bytes]], "missing": [name]}``; null is unknown now. The topics are not loaded for it; any broker answers."""
TOPICS = Operation("topics", LoadedTopics, list[str], AdminAccess.CONSUME, reads=True)
"""Names of the loaded topics, sorted."""
OWNED_BUNDLES = Operation(
    "owned_bundles", NoArguments, list[str], AdminAccess.SUPERUSER, reads=True
)
"""Names ``tenant/namespace/0x…_0x…`` of the owned bundles, sorted."""
SPLIT_BUNDLE = Operation("split_bundle", SplitBundle, list[str], AdminAccess.SUPERUSER)
"""Ranges of the parts, or the bundle's own when the algorithm does not split it. Topics are served throughout. Raises
Conflict when the namespace no longer has the bundle."""
BUNDLE_CUTS = Operation("bundle_cuts", SplitBundle, list[int], AdminAccess.SUPERUSER, reads=True)
"""Hashes at which SPLIT_BUNDLE would split the bundle now, ascending; a bundle without an owner remains without."""
UNLOAD_BUNDLE = Operation("unload_bundle", OnBundle, NoneType, AdminAccess.SUPERUSER)
"""Release of a bundle after its topics were closed."""
HEALTH = Operation("health", NoArguments, str, AdminAccess.SUPERUSER, reads=True)
"""``ok`` when the broker holds its session and reached the store just now. Raises NotReady otherwise."""
