"""Administrative operations that a broker runs on the topics it owns, each declared once. Pure.

Answers are JSON values in the shapes of Pulsar's Admin REST API unless said otherwise; 64-bit ids are JSON numbers.
What is refused raises a Refusal with Pulsar's text. A call that was cancelled or had no answer may or may not have
happened.
"""

from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Literal

from engine.admin.operation import AdminAccess, Operation
from engine.base.ids import Position
from engine.base.names import NamespaceName, TopicName, check_subscription

JsonObject = dict[str, Any]
"""As the answer of an operation that changes something ``{"before": …}``: what was there until then, for the audit log;
of one that moves a cursor its mark-delete position, with ``"after"``."""
LONG_MAX = (1 << 63) - 1
COUNT_MAX = 1 << 31
TOPICS_AT_REST_MAX = 100
SCHEMA_PAGE_MAX = 100
STORED_SCHEMAS_MAX = 8
LATEST_MESSAGES_MAX = 1_000
LATEST_BYTES_MAX = 8 << 20
CHANGE_ID_MAX = 64
PREVIEW_AGE_MAX_S = 600
"""A preview is confirmed within this time, or not at all."""
CursorChange = Literal["skip-all", "skip", "reset", "undo"]


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
class ChangeSetting:
    """``name`` is Pulsar's; without ``value`` the broker's own setting holds again. With ``checked``, only while
    ``expected`` is stored."""

    name: str
    value: str | None = None
    checked: bool = False
    expected: Any = None


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """All settings that may change, or with ``name`` this one, as it would be if ``value`` were stored; without
    ``value``, if nothing were."""

    name: str = ""
    value: str | None = None


@dataclass(frozen=True, slots=True)
class TopicsPage:
    """Topics after the one named ``after``, by name."""

    after: str = ""


@dataclass(frozen=True, slots=True)
class OnTopic:
    """``topic`` is no partitioned parent."""

    topic: TopicName


@dataclass(frozen=True, slots=True)
class CreateTopic(OnTopic):
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChangeProperties(OnTopic):
    """Set ``properties`` beside those that the topic has, and remove those called ``removed``. With ``expected`` only
    while these are all that it has."""

    properties: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    expected: dict[str, str] | None = None

    @property
    def changes(self) -> dict[str, str | None]:
        """New values by name; None for those to be removed."""
        return {**self.properties, **dict.fromkeys(self.removed)}


@dataclass(frozen=True, slots=True)
class DeleteTopic(OnTopic):
    """``force`` disconnects producers and consumers and deletes subscriptions. ``seen``: as HOLDINGS answered it;
    nothing is deleted when more would be lost by now, or somebody else uses the topic. ``dry``: only whether."""

    force: bool = False
    seen: Any = None
    dry: bool = False


@dataclass(frozen=True, slots=True)
class SetTopicPolicy(OnTopic):
    """``name`` of the table of policies, ``value`` as ``Policy.read`` gave it; None removes it. With ``checked``, only
    while ``expected`` is stored. With ``subscription`` that of this one, of policies that each may have of its own.
    ``everywhere``: what the topic has in all clusters, not in this one."""

    name: str
    value: Any = None
    checked: bool = False
    expected: Any = None
    subscription: str = ""
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class PolicyEffect(OnTopic):
    """``name`` of a policy that ``takes``, ``value``: all of it, as it would be in force. ``at_ms``: as if it were
    then, not now (epoch milliseconds). ``measured``: messages are counted, not entries alone."""

    name: str
    value: Any
    at_ms: int | None = None
    measured: bool = True


@dataclass(frozen=True, slots=True)
class GivenSchema(OnTopic):
    """A schema as REST has it: ``kind`` by name, ``definition`` as text, of KEY_VALUE a JSON object of both parts."""

    kind: str
    definition: str = ""
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OneSchema(OnTopic):
    """None for ``number``: the newest version."""

    number: int | None = None


@dataclass(frozen=True, slots=True)
class RegisterSchema(GivenSchema):
    """``expected``: number of the newest version, -1 without any; when it is another by now, nothing is registered."""

    expected: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteSchema(OnTopic):
    """``force`` removes all versions with their ledgers; without, messages by them stay readable, and with ``expected``
    nothing is deleted when the newest version has another number."""

    force: bool = False
    expected: int | None = None

    def __post_init__(self) -> None:
        if self.force and self.expected is not None:
            raise ValueError("expected: not with force")


@dataclass(frozen=True, slots=True)
class SchemaPage(OnTopic):
    """The last ``limit`` (1 to ``SCHEMA_PAGE_MAX``) versions, of those before number ``before`` when it is given."""

    limit: int
    before: int | None = None

    def __post_init__(self) -> None:
        _within("limit", self.limit, 1, SCHEMA_PAGE_MAX)


@dataclass(frozen=True, slots=True)
class StoredSchemas(OnTopic):
    """Versions by number, at most ``STORED_SCHEMAS_MAX``."""

    numbers: list[int]

    def __post_init__(self) -> None:
        _within("length of numbers", len(self.numbers), 1, STORED_SCHEMAS_MAX)


@dataclass(frozen=True, slots=True)
class TopicStats(OnTopic):
    """Flags as of Pulsar's stats route, and ours: ``schema_versions`` of producers and consumers."""

    precise_backlog: bool = False
    subscription_backlog_size: bool = True
    earliest_time_in_backlog: bool = False
    exclude_publishers: bool = False
    exclude_consumers: bool = False
    schema_versions: bool = False


@dataclass(frozen=True, slots=True)
class InternalStats(OnTopic):
    """``metadata`` adds each ledger's metadata."""

    metadata: bool = False


@dataclass(frozen=True, slots=True)
class LoadedTopics:
    """Topics loaded on a broker, all or of one namespace."""

    namespace: NamespaceName | None = None


@dataclass(frozen=True, slots=True)
class TopicRows:
    """What changed since an earlier answer; without one, and for one of another life of the broker: everything."""

    incarnation: str = ""
    revision: int = 0
    begun: int = 0

    def __post_init__(self) -> None:
        _within("revision", self.revision, 0, LONG_MAX)
        _within("begun", self.begun, 0, LONG_MAX)

    @classmethod
    def after(cls, answer: JsonObject) -> "TopicRows":
        """The next question to who gave this answer. Raises KeyError, TypeError, ValueError for one of another form."""
        return cls(str(answer["incarnation"]), int(answer["revision"]), int(answer["begun"]))


@dataclass(frozen=True, slots=True)
class TopicsAtRest:
    """Persistent topics, no partitioned parents, at most ``TOPICS_AT_REST_MAX``."""

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
    """``position``: where it starts; None is latest."""

    position: MessagePosition | None = None
    properties: dict[str, str] = field(default_factory=dict)
    replicated: bool = False


@dataclass(frozen=True, slots=True)
class SubscriptionProperties(OnSubscription):
    """All that the subscription has then."""

    properties: dict[str, str]


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
class ExpireToPosition(OnSubscription):
    """Acknowledge everything up to and including ``position``, with ``excluded`` up to the entry behind it."""

    position: MessagePosition


@dataclass(frozen=True, slots=True)
class AnalyzeBacklog(OnSubscription):
    """From ``position`` on; None: from the first unacknowledged entry on."""

    position: MessagePosition | None = None


@dataclass(frozen=True, slots=True)
class Replicate(OnSubscription):
    """Whether the subscription's state is to be copied to other clusters."""

    replicated: bool


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
    """The last entries, of those before ``before`` when it is given, that hold ``messages`` (1 to
    ``LATEST_MESSAGES_MAX``) in at most ``bytes_max`` (to ``LATEST_BYTES_MAX``) bytes; one at least."""

    messages: int
    bytes_max: int
    before: MessagePosition | None = None

    def __post_init__(self) -> None:
        _within("messages", self.messages, 1, LATEST_MESSAGES_MAX)
        _within("bytes_max", self.bytes_max, 1, LATEST_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class MessageIdByTime(OnTopic):
    """First message published at or after ``timestamp_ms``."""

    timestamp_ms: int

    def __post_init__(self) -> None:
        _within("timestamp_ms", self.timestamp_ms, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class PreviewChange(OnSubscription):
    """What a change of the cursor would do, without doing it; arguments as of the change itself. ``undo``: id of the
    change to be taken back."""

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
    """A previewed change. ``id``: chosen by who confirms it, at most ``CHANGE_ID_MAX`` characters; one that was used on
    the subscription in the last ``PREVIEW_AGE_MAX_S`` seconds is refused. ``base``, ``target``, and how many entries
    and messages are ``lost`` and due ``again``: as the preview answered. ``undoes``: id of the change taken back."""

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
    """``bundle``: ``0x00000000_0x40000000`` of ``namespace``; None: every bundle owned here."""

    namespace: NamespaceName
    bundle: str | None = None


@dataclass(frozen=True, slots=True)
class OwnPolicy(OnBundle):
    """``name`` of the table of policies."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class SplitBundle(OnBundle):
    """``bundle`` must be given. ``algorithm`` by Pulsar's name, empty for the default; ``positions``: hashes to cut at,
    for the algorithm that asks for them. ``unload``: its parts are given up afterwards."""

    algorithm: str = ""
    positions: list[int] = field(default_factory=list)
    unload: bool = False

    def __post_init__(self) -> None:
        if not self.bundle:
            raise ValueError("bundle: missing")


@dataclass(frozen=True, slots=True)
class BacklogSize(OnTopic):
    """Behind ``position``."""

    position: MessagePosition


# Topics

CREATE_TOPIC = Operation("create_topic", CreateTopic, NoneType, AdminAccess.TENANT)
"""AlreadyExists, or NotFound without its namespace."""
DELETE_TOPIC = Operation("delete_topic", DeleteTopic, JsonObject, AdminAccess.TENANT)
"""NotFound when missing, PreconditionFailed when in use and not forced, Conflict when more than was seen would be
lost: nothing was deleted then."""
FORGET_PARTITIONED = Operation("forget_partitioned", OnTopic, NoneType, AdminAccess.TENANT)
"""Delete the schemas, policies and permissions of a partitioned topic. Conflict unless its record is marked as deleted,
PreconditionFailed while it has partitions."""
HOLDINGS = Operation("holdings", OnTopic, JsonObject, AdminAccess.LOOKUP, reads=True)
"""What a topic holds, and who uses it: ``{"bytes", "entries": stored ones, "terminated", "last": its last message,
"producers": [{name, address}], "subscriptions": [{name, durable, entries, messages, exact, consumers: [{name,
address}]}], "unread": names of subscriptions that cannot be read now, "seen"}``. Of a subscription ``entries`` are
those that it has not acknowledged, ``messages`` those in them: null when storage does not tell, estimated unless
``exact``. ``seen``: for DELETE_TOPIC."""
TOPIC_PROPERTIES = Operation(
    "topic_properties", OnTopic, dict[str, str], AdminAccess.LOOKUP, reads=True
)
CHANGE_PROPERTIES = Operation("change_properties", ChangeProperties, JsonObject, AdminAccess.TENANT)
"""PreconditionFailed for a name that is reserved, or when all together are too many bytes; Conflict when others than
expected are there."""
TOPIC_STATS = Operation("topic_stats", TopicStats, JsonObject, AdminAccess.LOOKUP, reads=True)
"""Pulsar's TopicStats."""
INTERNAL_STATS = Operation(
    "internal_stats", InternalStats, JsonObject, AdminAccess.LOOKUP, reads=True
)
"""Pulsar's PersistentTopicInternalStats."""
INTERNAL_INFO = Operation("internal_info", OnTopic, JsonObject, AdminAccess.LOOKUP, reads=True)
"""Pulsar's ManagedLedgerInfo: ledgers and cursors as stored. The topic is not loaded, and any broker answers."""
LAST_MESSAGE_ID = Operation("last_message_id", OnTopic, JsonObject, AdminAccess.CONSUME, reads=True)
"""MessageId; entryId -1 of the open ledger when the topic is empty."""
MESSAGE_ID_BY_TIME = Operation(
    "message_id_by_time", MessageIdByTime, JsonObject, AdminAccess.CONSUME, reads=True
)
"""MessageId: ``{ledgerId, entryId, partitionIndex}``."""
BACKLOG_SIZE = Operation("backlog_size", BacklogSize, int, AdminAccess.CONSUME, reads=True)
"""Bytes stored behind a position, of all when its ledger is none of the topic's; estimated from the entries' mean."""
TERMINATE = Operation("terminate", OnTopic, JsonObject, AdminAccess.TENANT)
"""Refuses publishing from now on. ``last``: MessageId of the last message."""
UNLOAD = Operation("unload", OnTopic, NoneType, AdminAccess.TENANT)
"""Close the topic; clients reconnect and load it again."""
TRIM = Operation("trim", OnTopic, NoneType, AdminAccess.TENANT)
"""Delete ledgers that no subscription or retention needs."""
TRUNCATE = Operation("truncate", OnTopic, NoneType, AdminAccess.TENANT)
"""Acknowledge all of every subscription, then delete all ledgers but the open one, whatever retention says."""
COMPACT = Operation("compact", OnTopic, NoneType, AdminAccess.TENANT)
"""Begins it. Conflict while one is under way."""
COMPACTION_STATUS = Operation(
    "compaction_status", OnTopic, JsonObject, AdminAccess.TENANT, reads=True
)
"""LongRunningProcessStatus: ``{"status": "NOT_RUN" | "RUNNING" | "SUCCESS" | "ERROR", "lastError"}``."""
PARTITIONS_TO_USE = Operation("partitions_to_use", OnTopic, int, AdminAccess.LOOKUP)
"""Of a topic that somebody is about to use, 0 of a plain one; a partitioned topic is made where the namespace says so.
NotFound when there is none and none is made by its use."""
LOOKUP = Operation("lookup", OnTopic, JsonObject, AdminAccess.LOOKUP, reads=True)
"""Owner, chosen now when there is none: LookupData ``{brokerUrl, httpUrl, nativeUrl, brokerUrlSsl}``."""

TOPIC_POLICIES = Operation("topic_policies", OnTopic, JsonObject, AdminAccess.LOOKUP, reads=True)
"""By name of each policy that topics have: ``{"value": in force, "level": which says so, "own": the topic's or null,
"everywhere": what it has in all clusters or null, "inherited", "inherited_level": what would be in force without the
topic's}``, with ``"subscriptions"`` and ``"subscriptions_everywhere"`` those of subscriptions by name, where they may
have their own. ``topic`` is no partition; it need not exist."""
SET_TOPIC_POLICY = Operation("set_topic_policy", SetTopicPolicy, JsonObject, AdminAccess.TENANT)
"""Durable before it answers. Conflict when another value than expected is stored, PreconditionFailed for a retention
that the size quota does not leave room for, and the reverse."""

POLICY_EFFECT = Operation("policy_effect", PolicyEffect, JsonObject, AdminAccess.LOOKUP, reads=True)
"""What would go of a topic: ``{"bytes": stored ones that would be deleted, "deleted": the topic itself, once nobody
used it for all of the time, "subscriptions": [{name, deleted, entries, messages, exact}] of those that would lose
entries or go, "producers": how many would be sent away, "unknown": subscriptions of which nothing is known, with the
reason, "within_s": when brokers will have acted on the policy at the latest}``. ``messages``: null when they are not
measured or storage does not tell, estimated unless ``exact``."""
TOPICS_WITH_POLICY = Operation(
    "topics_with_policy", OwnPolicy, JsonObject, AdminAccess.LOOKUP, reads=True
)
"""Topics of a namespace that have a value of their own, here or in all clusters, by full name, a partitioned one once.
Any broker answers."""

# Schemas: of a topic and of all its partitions. The topic need not exist, the bundle's owner answers.

SCHEMA = Operation("schema", OneSchema, JsonObject, AdminAccess.LOOKUP, reads=True)
"""A version since the last deletion as GetSchemaResponse. Raises NotFound."""
SCHEMAS = Operation("schemas", OnTopic, list[JsonObject], AdminAccess.LOOKUP, reads=True)
"""All versions since the last deletion as GetSchemaResponse, oldest first."""
SCHEMA_METADATA = Operation("schema_metadata", OnTopic, JsonObject, AdminAccess.LOOKUP, reads=True)
"""Where each version lies, as SchemaMetadata; empty when there is none."""
SCHEMA_PAGE = Operation("schema_page", SchemaPage, JsonObject, AdminAccess.LOOKUP, reads=True)
"""Of the versions since the last deletion: ``{"total", "newest": number of the newest, -1 without any, "versions":
[{"version", "type", "timestamp", "size": bytes of the definition} or {"version", "reason": why it cannot be read}]}``,
newest first."""
STORED_SCHEMAS = Operation(
    "stored_schemas", StoredSchemas, list[JsonObject], AdminAccess.LOOKUP, reads=True
)
"""Each of the versions, also from before a deletion: ``{"version", "type", "timestamp", "data": the definition's bytes
in base64, "properties"}``, or ``{"version", "reason"}`` for one that is not there or cannot be read."""
REGISTER_SCHEMA = Operation("register_schema", RegisterSchema, JsonObject, AdminAccess.TENANT)
"""``version``: the one that it is, a new one if it may follow the others. Conflict when not, naming the field that
breaks, or when others came than were expected; Unprocessable for a definition that is none; NotFound without the
namespace."""
CHECK_SCHEMA = Operation("check_schema", GivenSchema, JsonObject, AdminAccess.LOOKUP, reads=True)
"""``compatibility`` and ``schemaCompatibilityStrategy`` as IsCompatibilityResponse, and ``reason`` when it is not."""
FIND_SCHEMA = Operation("find_schema", GivenSchema, int, AdminAccess.LOOKUP, reads=True)
"""The version that it is; -1 when it is not registered."""
DELETE_SCHEMA = Operation("delete_schema", DeleteSchema, JsonObject, AdminAccess.TENANT)
"""``version``: the number of the one that says so; -1 when nothing is left to say. Conflict when others came than
expected."""

# Namespaces

NAMESPACE_POLICIES = Operation(
    "namespace_policies", OnBundle, JsonObject, AdminAccess.LOOKUP, reads=True
)
"""As TOPIC_POLICIES, of all policies; ``own`` is the namespace's, and ``default`` what holds without it: the broker's.
Any broker answers."""

# Subscriptions

SUBSCRIPTIONS = Operation("subscriptions", OnTopic, list[str], AdminAccess.CONSUME, reads=True)
"""Names, sorted."""
DURABLE_SUBSCRIPTIONS = Operation(
    "durable_subscriptions", OnTopic, dict[str, dict[str, str]], AdminAccess.CONSUME, reads=True
)
"""Properties by name of all that outlive the broker; NotReady while one of them cannot be read."""
CREATE_SUBSCRIPTION = Operation(
    "create_subscription", CreateSubscription, NoneType, AdminAccess.CONSUME
)
"""AlreadyExists; creates the topic where auto-creation is allowed, else NotFound."""
DELETE_SUBSCRIPTION = Operation(
    "delete_subscription", DeleteSubscription, NoneType, AdminAccess.CONSUME
)
"""NotFound when missing, PreconditionFailed with consumers connected and not forced."""
SUBSCRIPTION_PROPERTIES = Operation(
    "subscription_properties", OnSubscription, dict[str, str], AdminAccess.CONSUME, reads=True
)
SET_SUBSCRIPTION_PROPERTIES = Operation(
    "set_subscription_properties", SubscriptionProperties, JsonObject, AdminAccess.CONSUME
)
"""Replaces them; those of a subscription that is not durable last as long as it does."""
SKIP_MESSAGES = Operation("skip_messages", Skip, JsonObject, AdminAccess.CONSUME)
CLEAR_BACKLOG = Operation("clear_backlog", OnSubscription, JsonObject, AdminAccess.CONSUME)
RESET_CURSOR = Operation("reset_cursor", ResetCursor, JsonObject, AdminAccess.CONSUME)
"""Consumers are disconnected and come back at the new place."""
EXPIRE_MESSAGES = Operation("expire_messages", ExpireMessages, JsonObject, AdminAccess.CONSUME)
EXPIRE_TO_POSITION = Operation(
    "expire_to_position", ExpireToPosition, JsonObject, AdminAccess.CONSUME
)
"""Conflict for a position behind the last entry."""
ANALYZE_BACKLOG = Operation(
    "analyze_backlog", AnalyzeBacklog, JsonObject, AdminAccess.CONSUME, reads=True
)
"""Pulsar's AnalyzeSubscriptionBacklogResult."""
REPLICATED = Operation("replicated", OnSubscription, bool, AdminAccess.CONSUME, reads=True)
REPLICATE = Operation("replicate", Replicate, JsonObject, AdminAccess.CONSUME)
"""Keeps the wish; there is nobody who does it."""
PREVIEW_CHANGE = Operation(
    "preview_change", PreviewChange, JsonObject, AdminAccess.CONSUME, reads=True
)
"""``lost``, ``again``: entries that would count as acknowledged without having been, and that would be due again;
``lost_messages``, ``again_messages``: of them, null when storage does not tell, estimated unless ``exact``. ``from``,
``to``: next entry before and after, ``holes``: entries between them that are acknowledged already, ``delayed``:
messages affected that are not due yet, ``first``, ``last``: ``{id, publish_time, key}`` of the affected,
``consumers``: ``[{name, address}]``, ``undoable``, ``kept_ms``: how long after it trimming keeps what it passes.
``base``, ``target``: for ``MOVE_CURSOR``. Of an undo ``gone``: entries that were trimmed, ``moved``: entries that
somebody else set back since. Conflict for an undo of what is not the last change, or was too large to be kept."""
MOVE_CURSOR = Operation("move_cursor", MoveCursor, JsonObject, AdminAccess.CONSUME)
"""Exactly what was previewed: nothing that came later is touched, what was acknowledged since stays so. The answer is
counted from what was done: ``done``, ``lost``, ``again`` and both in messages, ``exact``, ``meanwhile``: entries of
the change that were acknowledged since, ``from``, ``to``, ``mark_delete``: read afterwards, ``changed``: False when
nothing was left to do, which is not recorded, ``undoable``, ``kept_until``: milliseconds since the epoch, until then
trimming keeps what it passed. Or, not ``done``: ``why`` (``used``, ``moved``, ``trimmed``), ``reason``, ``from``: next
entry now, and ``entries`` that differ. ``dry``: only whether it would be done."""
LAST_CHANGES = Operation("last_changes", OnTopic, list[JsonObject], AdminAccess.CONSUME, reads=True)
"""Of each subscription that was changed by ``MOVE_CURSOR`` the last: ``subscription, id, at, by, change, lost, again,
lost_messages, again_messages, exact, undoable, kept_until, undoes``."""

# Messages: ``{"headers": {name: text}, "body": base64}``

PEEK = Operation("peek", Peek, JsonObject, AdminAccess.CONSUME, reads=True)
EXAMINE = Operation("examine", Examine, JsonObject, AdminAccess.CONSUME, reads=True)
LATEST_ENTRIES = Operation(
    "latest_entries", LatestEntries, JsonObject, AdminAccess.CONSUME, reads=True
)
"""Whole entries as they are stored, newest first: ``{"entries": [[ledger, entry, base64]], "more": bool}``; ``more``:
there may be others before the last of them. No subscription and no cache knows of it."""
MESSAGE_BY_ID = Operation("message_by_id", MessageById, JsonObject, AdminAccess.CONSUME, reads=True)

# Brokers

DYNAMIC_SETTINGS = Operation(
    "dynamic_settings", NoArguments, JsonObject, AdminAccess.SUPERUSER, reads=True
)
"""``{"names": of settings that may change while brokers run, "values": those that were changed, as texts}``; any broker
answers. Names are Pulsar's."""
CHECK_QUOTAS = Operation("check_quotas", NoArguments, NoneType, AdminAccess.SUPERUSER)
"""Look at the backlog quotas of all topics loaded here, and act by them, as every so often is done by itself. NotReady,
when all were looked at, if some could not be judged."""
CHANGE_SETTING = Operation("change_setting", ChangeSetting, JsonObject, AdminAccess.SUPERUSER)
"""For all brokers, durable; it acts here when this answers. PreconditionFailed for a setting that must not change while
brokers run, and for a value that it may not have; Conflict when another value than expected is stored."""
LIVE_SETTINGS = Operation(
    "live_settings", LiveSettings, list[JsonObject], AdminAccess.SUPERUSER, reads=True
)
"""What this broker makes of each: ``{"name", "meaning", "allowed": what it may be, "choices": [texts], "default",
"started": what the broker was started with, "in_force", "heard": what was stored when it last looked, null for nothing,
"refused": why it does not act by that, "would_be": what would be in force, "refusal": why it would not}``. Values are
texts."""
RUNTIME_SETTINGS = Operation(
    "runtime_settings", NoArguments, dict[str, str], AdminAccess.SUPERUSER, reads=True
)
"""What is in force there, by Pulsar's names, as texts."""
REPLICATION = Operation("replication", NoArguments, JsonObject, AdminAccess.SUPERUSER, reads=True)
"""How many bookies ledgers need: ``{"session_ms": number or null, "default": [ensemble, write quorum, ack quorum],
"topics": [[ensemble, write quorum, ack quorum, topics, namespaces]]}``. ``default``: of the broker's settings;
``topics``: how many of the persistent topics loaded there have which in force. ``session_ms``: how long the broker
keeps its topics while it does not reach the metadata store."""
LOAD_REPORT = Operation("load_report", NoArguments, JsonObject, AdminAccess.SUPERUSER, reads=True)
"""LocalBrokerData of the broker as it is now."""
TOPICS_STATS = Operation("topics_stats", TopicsPage, JsonObject, AdminAccess.SUPERUSER, reads=True)
"""Of topics loaded there ``{"topics": {namespace: {bundle: {domain: {topic: stats}}}}, "next": where to go on or
null}``, stats as of Pulsar's broker-stats."""
BROKER_METRICS = Operation(
    "broker_metrics", NoArguments, list[JsonObject], AdminAccess.SUPERUSER, reads=True
)
"""Pulsar's Metrics of the broker: ``[{"metrics": {name: number}, "dimensions": {name: text}}]``."""

# A broker

ROW_COLUMNS = (
    "producers", "consumers", "subscriptions", "msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out",
    "backlog", "storage_bytes",
)  # fmt: skip
"""Numbers of a topic's row, in their order."""
TOPIC_ROWS = Operation("topic_rows", TopicRows, JsonObject, AdminAccess.SUPERUSER, reads=True)
"""Of the topics loaded there: ``{"at": ms, "incarnation": text, "revision": number, "begun": number, "whole": bool,
"more": bool, "rows": [[name, *ROW_COLUMNS]], "gone": [name]}``. ``at``: when the broker counted; ``gone``: no longer
loaded. ``whole``: a list of everything begins here, and what is not named up to its end is gone, too. Ask for
the next answer with ``incarnation``, ``revision`` and ``begun`` of this one: with ``more`` it is there, otherwise it
comes when the broker has counted again, which it does once a second. Rates are whole thousandths per second; null: not
known."""
SUBSCRIPTION_ROWS = Operation(
    "subscription_rows", TopicRows, JsonObject, AdminAccess.SUPERUSER, reads=True
)
"""What is behind, and why, of the topics loaded there, told as TOPIC_ROWS tells: a row is ``[topic, [subscription,
backlog, messages out per second in thousandths, lag], …]`` with the subscriptions that have a backlog, or from which
something flows; a topic without any has no row. Backlog null: not known. ``lag`` is null or the fields of
``lag.Lag``."""
TOPICS_AT_REST = Operation(
    "topics_at_rest", TopicsAtRest, JsonObject, AdminAccess.SUPERUSER, reads=True
)
"""What is stored of topics that nobody has loaded, which are not loaded for it; any broker answers: ``{"at": ms,
"rows": [[name, subscriptions, backlog, storage_bytes]], "missing": [name]}``. null: not known now."""
TOPICS = Operation("topics", LoadedTopics, list[str], AdminAccess.CONSUME, reads=True)
"""Names of topics loaded there, sorted."""
OWNED_BUNDLES = Operation(
    "owned_bundles", NoArguments, list[str], AdminAccess.SUPERUSER, reads=True
)
"""``tenant/namespace/0x…_0x…``, sorted."""
SPLIT_BUNDLE = Operation("split_bundle", SplitBundle, list[str], AdminAccess.SUPERUSER)
"""Ranges of its parts, or its own where the algorithm finds nothing to cut at. Topics are served all the while.
Conflict when it is none of the namespace's bundles any more."""
BUNDLE_CUTS = Operation("bundle_cuts", SplitBundle, list[int], AdminAccess.SUPERUSER, reads=True)
"""Where SPLIT_BUNDLE would cut it now, ascending; nothing is done, and a bundle without an owner stays without."""
UNLOAD_BUNDLE = Operation("unload_bundle", OnBundle, NoneType, AdminAccess.SUPERUSER)
"""Close the topics of the bundle and give up its ownership."""
HEALTH = Operation("health", NoArguments, str, AdminAccess.SUPERUSER, reads=True)
"""``ok`` when the broker holds its session and could reach the store just now; else NotReady."""
