"""Operations on topics. Pure."""

from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from engine.admin.api.arguments import LONG_MAX, JsonObject, MessagePosition, OnTopic, within
from engine.admin.api.rights import ADMIN, LOOKUP_TOPIC
from engine.auth.actions import Action
from engine.auth.rights import Right
from engine.base.names import TopicName
from engine.rpc.operation import Operation
from engine.tenancy.geo.shadow_topics import source_of


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
    the topic. ``dry`` only checks whether the topic's use would prevent its deletion; it does not load the topic.
    """

    force: bool = False
    seen: Any = None
    dry: bool = False


@dataclass(frozen=True, slots=True)
class GrowElsewhere(OnTopic):
    """Growth of a partitioned topic to ``partitions`` in other clusters."""

    partitions: int


@dataclass(frozen=True, slots=True)
class MoveLedgers(OnTopic):
    """Moving of all closed ledgers before that of ``before`` to tiered storage."""

    before: MessagePosition


@dataclass(frozen=True, slots=True)
class TierQuestion(OnTopic):
    """Question where the ledgers of a topic are, and which would be moved with other thresholds than its own."""

    threshold_bytes: int | None = None
    threshold_s: int | None = None

    def __post_init__(self) -> None:
        for name in ("threshold_bytes", "threshold_s"):
            value = getattr(self, name)
            if value is not None:
                within(name, value, -1, LONG_MAX)


def _source(args: CreateTopic) -> tuple[TopicName, ...]:
    source = source_of(args.properties)
    return () if source is None else (source,)


SOURCE_ADMIN: Right[CreateTopic] = Right(Action.TENANT_ADMIN, TopicName, _source)
"""Right of those who make a shadow topic, in which all of its source can be read."""
CREATE_TOPIC = Operation("create_topic", CreateTopic, NoneType, (ADMIN, SOURCE_ADMIN))
"""Raises AlreadyExists, NotFound without the namespace, PreconditionFailed for a shadow topic that cannot be."""
DELETE_TOPIC = Operation("delete_topic", DeleteTopic, JsonObject, ADMIN)
"""Raises NotFound when missing, PreconditionFailed when in use and not forced, Conflict when more than was seen would
be lost; nothing is deleted then."""
FORGET_PARTITIONED = Operation("forget_partitioned", OnTopic, NoneType, ADMIN)
"""Deletion of the schemas, policies and permissions of a partitioned topic. Raises Conflict unless its record is marked
as deleted, PreconditionFailed while it has partitions."""
HOLDINGS = Operation("holdings", OnTopic, JsonObject, LOOKUP_TOPIC, reads=True)
"""Contents and clients of a topic: ``{"bytes", "entries": stored ones, "terminated", "last": its last message,
"producers": [{name, address}], "subscriptions": [{name, durable, entries, messages, exact, consumers: [{name,
address}]}], "unread": names of subscriptions that cannot be read now, "seen"}``. A subscription's ``entries`` are its
unacknowledged ones, ``messages`` the messages in them: null when their number cannot be determined, estimated unless
``exact``. ``seen`` is the argument of DELETE_TOPIC."""
TOPIC_PROPERTIES = Operation("topic_properties", OnTopic, dict[str, str], LOOKUP_TOPIC, reads=True)
CHANGE_PROPERTIES = Operation("change_properties", ChangeProperties, JsonObject, ADMIN)
"""Raises PreconditionFailed for a reserved name, or when all properties together exceed the limit, Conflict when the
topic does not have the expected properties."""
TERMINATE = Operation("terminate", OnTopic, JsonObject, ADMIN)
"""Termination of a topic, which then refuses publishing. ``last`` is the MessageId of the last message."""
UNLOAD = Operation("unload", OnTopic, NoneType, ADMIN)
"""Closing of a topic; its clients reconnect and load it again."""
TRIM = Operation("trim", OnTopic, NoneType, ADMIN)
"""Deletion of the ledgers that no subscription and no retention needs."""
TRUNCATE = Operation("truncate", OnTopic, NoneType, ADMIN)
"""Acknowledgement of all entries by every subscription, then deletion of all ledgers but the open one, also of those
that retention would keep."""
OFFLOAD = Operation("offload", MoveLedgers, NoneType, ADMIN)
"""Start of moving closed ledgers to tiered storage. Raises Conflict while ledgers are being moved, PreconditionFailed
without tiered storage."""
OFFLOAD_STATUS = Operation("offload_status", OnTopic, JsonObject, ADMIN, reads=True)
"""``{"status": "NOT_RUN" | "RUNNING" | "SUCCESS" | "ERROR", "lastError", "first": the first position that was not
moved of those asked for, null while that is not known}``."""
TIERS = Operation("tiers", TierQuestion, JsonObject, LOOKUP_TOPIC, reads=True)
"""Places of the ledgers of a topic: ``{"at", "policy": {"store", "threshold_bytes", "threshold_s", "deletion_lag_s",
"bookies_first"} or null without tiered storage, "bookies_price", "store_price": of a GB for a month, null without a
setting, "state": {"status" as OFFLOAD_STATUS, "error", "trouble": its kind, "retry_ms": of the next attempt or null,
"read_error": of the last read, "ledgers", "done_ledgers", "bytes", "done_bytes": progress}, "ledgers": [{"ledger_id",
"entries", "bytes", "closed_ms", "tier": "bookies" | "both" | "store", "due", "moved_ms"}], "due_ledgers", "due_bytes":
those that would be moved}``."""
COMPACT = Operation("compact", OnTopic, NoneType, ADMIN)
"""Start of a compaction. Raises Conflict while one is running."""
COMPACTION_STATUS = Operation("compaction_status", OnTopic, JsonObject, ADMIN, reads=True)
"""LongRunningProcessStatus: ``{"status": "NOT_RUN" | "RUNNING" | "SUCCESS" | "ERROR", "lastError"}``."""
PARTITIONS_TO_USE = Operation("partitions_to_use", OnTopic, int, LOOKUP_TOPIC)
"""Number of partitions for a client that is about to use the topic; 0 for a plain topic. A partitioned topic is created
where the namespace's policy requests it. Raises NotFound when the topic is missing and not created by its use."""
GROW_ELSEWHERE = Operation("grow_elsewhere", GrowElsewhere, NoneType, ADMIN)
"""Growth of a partitioned topic in the other clusters that it is replicated to, where it exists, with the subscriptions
there. Raises NotReady with the reason of each cluster that has another number of partitions afterwards."""
LOOKUP = Operation("lookup", OnTopic, JsonObject, LOOKUP_TOPIC, reads=True)
"""LookupData ``{brokerUrl, httpUrl, nativeUrl, brokerUrlSsl}`` of the owner, which is chosen now if there is none; with
``brokerUrlTls`` if it serves TLS."""
