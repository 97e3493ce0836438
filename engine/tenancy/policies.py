"""The table of policies: what each is called, where it is stored, what it may be, what holds where none is set. Pure.

A row is all that REST routes, effective values and the console's forms need; what acts on a policy reads its effective
value (``in_force``). Names and JSON forms are Apache Pulsar's 4.0.8.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from engine.base.errors import InvalidField, InvalidRequest, NotBuilt, PreconditionFailed
from engine.metadata.records import Document
from engine.tenancy.forms import LONG_MAX, Choice, Decimal, Fields, Flag, Form, Whole, kind_of
from engine.tenancy.settings import PolicySettings
from engine.tenancy.strategy import Strategy

QUORUM_MAX = 5
PARTITIONED, PLAIN = "partitioned", "non-partitioned"
QUOTA_ACTIONS = ("producer_request_hold", "producer_exception", "consumer_backlog_eviction")


class Level(StrEnum):
    """Where a value was set; the last one that has it wins."""

    BROKER = "broker"
    NAMESPACE = "namespace"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class Policy:
    """One row. ``key``: path in a namespace's stored Policies; ``topic_key``: in a topic's, empty without that level.

    ``name`` and ``topic_name`` are the routes' segments. ``only``: values that this version can act upon, empty for
    all. ``unset``, ``topic_unset``: what reading the namespace's or topic's answers when nothing is set. ``settings``:
    the broker's, for readers.
    ``nothing``: what a namespace may have stored for it that says nothing.
    """

    name: str
    title: str
    meaning: str
    key: tuple[str, ...]
    form: Form
    default: Callable[[PolicySettings], Any]
    settings: tuple[str, ...] = ()
    topic_name: str = ""
    topic_key: tuple[str, ...] = ()
    check: Callable[[Any], None] | None = None
    only: tuple[Any, ...] = ()
    unset: Any = None
    topic_unset: Any = None
    nothing: tuple[Any, ...] = ()

    def read(self, given: Any) -> Any:
        """What is stored of a caller's value. Raises InvalidRequest or PreconditionFailed for what it may not be,
        NotBuilt for what is not built."""
        value = self.form.read(self.name, given)
        if self.check is not None:
            self.check(value)
        if self.only and value not in self.only:
            raise NotBuilt(f"{self.name}: {json.dumps(value)} is not built yet")
        return value

    def says(self, level: Level, document: Mapping[str, Any]) -> Any:
        """What the document of that level says, None when it says nothing."""
        path = self.stored_at(level)
        value = find(document, path) if path else None
        return None if level is Level.NAMESPACE and value in self.nothing else value

    def stored_at(self, level: Level) -> tuple[str, ...]:
        """The path in the document of that level."""
        return self.topic_key if level is Level.TOPIC else self.key


class InForce(NamedTuple):
    """A policy's value where it acts, and the level it comes from."""

    value: Any
    level: Level


def find(document: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at ``path``; None when there is none."""
    value: Any = document
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def put(document: Document, path: tuple[str, ...], value: Any) -> None:
    """Store ``value`` at ``path``; None removes it."""
    for name in path[:-1]:
        document[name] = inner = dict(document.get(name) or {})
        document = inner
    if value is None:
        document.pop(path[-1], None)
    else:
        document[path[-1]] = value


def in_force(
    settings: PolicySettings, namespace: Mapping[str, Any], topic: Mapping[str, Any]
) -> dict[str, InForce]:
    """Every policy's value by name: the topic's, else the namespace's, else the broker's."""
    found: dict[str, InForce] = {}
    for policy in POLICIES:
        default = policy.default(settings)
        found[policy.name] = InForce(default, Level.BROKER)
        for level, document in ((Level.TOPIC, topic), (Level.NAMESPACE, namespace)):
            value = policy.says(level, document)
            if value is not None:
                found[policy.name] = InForce(completed(default, value), level)
                break
    return found


def completed(default: Any, value: Any) -> Any:
    """``value`` as it acts: older versions stored fewer fields of a record, which are then the default's."""
    return {**default, **value} if isinstance(default, dict) else value


def fits(quota: Mapping[str, Any] | None, retention: Mapping[str, Any] | None) -> bool:
    """Whether a size quota leaves retention its say: what is retained must be able to grow beyond the quota."""
    if not quota or not retention:
        return True
    minutes, megabytes = retention["retentionTimeInMinutes"], retention["retentionSizeInMB"]
    if minutes <= 0 or megabytes <= 0:
        return True
    return bool(quota["limitSize"] < megabytes << 20 and quota["limitTime"] < minutes * 60)


def _check_retention(value: Document) -> None:
    minutes, megabytes = value["retentionTimeInMinutes"], value["retentionSizeInMB"]
    if (minutes == 0) != (megabytes == 0):
        raise InvalidRequest(
            "Invalid retention policy: a zero limit needs the other to be zero as well; -1 is no limit",
        )


def _check_persistence(value: Document) -> None:
    ensemble, write, ack = (
        value[f"bookkeeper{name}"] for name in ("Ensemble", "WriteQuorum", "AckQuorum")
    )
    if not ensemble >= write >= ack:
        raise InvalidRequest(
            f"Bookkeeper Ensemble ({ensemble}) >= WriteQuorum ({write}) >= AckQuorum ({ack})"
        )


def _check_creation(value: Document) -> None:
    refusal = "Invalid configuration for autoTopicCreationOverride. the detail is "
    partitions = value.get("defaultNumPartitions")
    kind = value["topicType"]
    if kind not in (PARTITIONED, PLAIN):
        raise PreconditionFailed(f"{refusal}Unknown topic type [{kind}]")
    if kind == PARTITIONED and not partitions:
        raise PreconditionFailed(
            f"{refusal}[defaultNumPartitions] must be 1 or more when the type is partitioned."
        )
    if kind == PLAIN and partitions:
        raise PreconditionFailed(
            f"{refusal}[defaultNumPartitions] is not allowed when the type is non-partitioned."
        )


class _Text:
    """Any text; checked with the rest of its record."""

    def read(self, name: str, given: Any) -> str:
        if not isinstance(given, str):
            raise InvalidField(name, f"expected a text, got {kind_of(given)}")
        return given

    def schema(self) -> Document:
        return {"type": "string", "enum": [PLAIN, PARTITIONED]}


class _Quota:
    """A backlog quota; ``limit`` is the old name of ``limitSize`` and is written beside it."""

    def __init__(self, limit: str) -> None:
        self._shown = limit
        self._form = Fields(
            {
                "limitSize": Whole("bytes", low=-1, high=LONG_MAX),
                "limitTime": Whole("seconds", low=-1),
                "policy": Choice(QUOTA_ACTIONS),
            },
            {"limitSize": -1, "limitTime": -1},
        )

    def read(self, name: str, given: Any) -> Document:
        if isinstance(given, dict) and "limitSize" not in given and "limit" in given:
            given = {**given, "limitSize": given["limit"]}
        value = self._form.read(name, given)
        return {"limit": value["limitSize"], **value}

    def schema(self) -> Document:
        whole = self._form.schema()
        return {
            **whole,
            "fields": [f for f in whole["fields"] if f["name"] in (self._shown, "policy")],
        }


def _quota_default(settings: PolicySettings) -> Document:
    size = settings.backlog_quota_default_limit_bytes
    return {
        "limit": size,
        "limitSize": size,
        "limitTime": settings.backlog_quota_default_limit_second,
        "policy": settings.backlog_quota_default_retention_policy,
    }


def _count(title: str, meaning: str, name: str, key: str, setting: str, **more: Any) -> Policy:
    """A limit of which 0 is none."""
    return Policy(
        name,
        title,
        f"{meaning}; 0 is no limit",
        (key,),
        Whole("", refusal=more.pop("refusal", "")),
        lambda settings: getattr(settings, setting),
        (setting,),
        **more,
    )


POLICIES: tuple[Policy, ...] = (
    Policy(
        "messageTTL",
        "Message TTL",
        "Messages older than this count as acknowledged; 0 is never",
        ("message_ttl_in_seconds",),
        Whole("seconds", refusal="Invalid value for message TTL, message TTL must >= 0"),
        lambda settings: settings.ttl_duration_default_in_seconds,
        ("ttl_duration_default_in_seconds",),
        topic_name="messageTTL",
        topic_key=("messageTTLInSeconds",),
    ),
    Policy(
        "retention",
        "Retention",
        "How long and how much is kept after it was acknowledged; -1 is without limit, 0 and 0 nothing",
        ("retention_policies",),
        Fields(
            {
                "retentionTimeInMinutes": Whole(
                    "minutes",
                    -1,
                    refusal="Invalid retention policy: time limit must be >= -1",
                    kind=InvalidRequest,
                ),
                "retentionSizeInMB": Whole(
                    "MiB",
                    -1,
                    refusal="Invalid retention policy: size limit must be >= -1",
                    kind=InvalidRequest,
                ),
            },
            {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0},
        ),
        lambda settings: {
            "retentionTimeInMinutes": settings.default_retention_time_in_minutes,
            "retentionSizeInMB": settings.default_retention_size_in_mb,
        },
        ("default_retention_time_in_minutes", "default_retention_size_in_mb"),
        topic_name="retention",
        topic_key=("retentionPolicies",),
        check=_check_retention,
    ),
    Policy(
        "backlogQuota.destination_storage",
        "Backlog quota: size",
        "What happens while a subscription's unacknowledged messages take more than this; -1 is no limit",
        ("backlog_quota_map", "destination_storage"),
        _Quota("limitSize"),
        _quota_default,
        ("backlog_quota_default_limit_bytes", "backlog_quota_default_retention_policy"),
        topic_name="backlogQuota.destination_storage",
        topic_key=("backLogQuotaMap", "destination_storage"),
    ),
    Policy(
        "backlogQuota.message_age",
        "Backlog quota: age",
        "What happens while a subscription's oldest unacknowledged message is older than this; -1 is no limit",
        ("backlog_quota_map", "message_age"),
        _Quota("limitTime"),
        _quota_default,
        ("backlog_quota_default_limit_second", "backlog_quota_default_retention_policy"),
        topic_name="backlogQuota.message_age",
        topic_key=("backLogQuotaMap", "message_age"),
    ),
    _count(
        "Producers of a topic",
        "How many producers a topic may have",
        "maxProducersPerTopic",
        "max_producers_per_topic",
        "max_producers_per_topic",
        topic_name="maxProducers",
        topic_key=("maxProducerPerTopic",),
    ),
    _count(
        "Consumers of a topic",
        "How many consumers a topic's subscriptions may have together",
        "maxConsumersPerTopic",
        "max_consumers_per_topic",
        "max_consumers_per_topic",
        topic_name="maxConsumers",
        topic_key=("maxConsumerPerTopic",),
    ),
    _count(
        "Consumers of a subscription",
        "How many consumers a subscription may have",
        "maxConsumersPerSubscription",
        "max_consumers_per_subscription",
        "max_consumers_per_subscription",
        topic_name="maxConsumersPerSubscription",
        topic_key=("maxConsumersPerSubscription",),
    ),
    _count(
        "Subscriptions of a topic",
        "How many subscriptions a topic may have",
        "maxSubscriptionsPerTopic",
        "max_subscriptions_per_topic",
        "max_subscriptions_per_topic",
        topic_name="maxSubscriptionsPerTopic",
        topic_key=("maxSubscriptionsPerTopic",),
    ),
    _count(
        "Topics of a namespace",
        "How many topics and partitions a namespace may have",
        "maxTopicsPerNamespace",
        "max_topics_per_namespace",
        "max_topics_per_namespace",
        unset=0,
    ),
    Policy(
        "persistence",
        "Replication of ledgers",
        "On how many bookies a topic's new ledgers lie, and how many of them confirm a message",
        ("persistence",),
        Fields(
            {
                name: Whole(
                    "bookies",
                    1,
                    QUORUM_MAX,
                    refusal=f"{name} must be from 1 to {QUORUM_MAX}",
                    kind=InvalidRequest,
                )
                for name in ("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum")
            }
            | {"managedLedgerMaxMarkDeleteRate": Decimal("acknowledgements stored per second")},
            {"managedLedgerMaxMarkDeleteRate": 0.0},
        ),
        lambda settings: {
            "bookkeeperEnsemble": settings.managed_ledger_default_ensemble_size,
            "bookkeeperWriteQuorum": settings.managed_ledger_default_write_quorum,
            "bookkeeperAckQuorum": settings.managed_ledger_default_ack_quorum,
            "managedLedgerMaxMarkDeleteRate": 0.0,
        },
        (
            "managed_ledger_default_ensemble_size",
            "managed_ledger_default_write_quorum",
            "managed_ledger_default_ack_quorum",
        ),
        topic_name="persistence",
        topic_key=("persistence",),
        check=_check_persistence,
    ),
    Policy(
        "autoTopicCreation",
        "Topics made by clients",
        "Whether a client that names a missing topic makes it, and of which kind",
        ("autoTopicCreationOverride",),
        Fields(
            {
                "allowAutoTopicCreation": Flag(),
                "topicType": _Text(),
                "defaultNumPartitions": Whole("partitions", 0, 10_000),
            },
            {
                "allowAutoTopicCreation": False,
                "topicType": PLAIN,
                "defaultNumPartitions": None,
            },
        ),
        lambda settings: {
            "allowAutoTopicCreation": settings.allow_auto_topic_creation,
            "topicType": settings.allow_auto_topic_creation_type,
            "defaultNumPartitions": settings.default_num_partitions,
        },
        (
            "allow_auto_topic_creation",
            "allow_auto_topic_creation_type",
            "default_num_partitions",
        ),
        check=_check_creation,
    ),
    Policy(
        "autoSubscriptionCreation",
        "Subscriptions made by clients",
        "Whether a consumer that names a missing subscription makes it",
        ("autoSubscriptionCreationOverride",),
        Fields({"allowAutoSubscriptionCreation": Flag()}, {"allowAutoSubscriptionCreation": False}),
        lambda settings: {
            "allowAutoSubscriptionCreation": settings.allow_auto_subscription_creation
        },
        ("allow_auto_subscription_creation",),
        topic_name="autoSubscriptionCreation",
        topic_key=("autoSubscriptionCreationOverride",),
    ),
    Policy(
        "deduplication",
        "Deduplication",
        "Whether a message that a producer sent twice is stored once",
        ("deduplicationEnabled",),
        Flag(),
        lambda settings: False,
        topic_name="deduplicationEnabled",
        topic_key=("deduplicationEnabled",),
        only=(False,),
    ),
    Policy(
        "schemaCompatibilityStrategy",
        "Schema compatibility",
        "What may follow a topic's schema; the transitive ones look at all versions",
        ("schema_compatibility_strategy",),
        Choice(tuple(strategy.value for strategy in Strategy)),
        lambda settings: settings.schema_compatibility_strategy,
        ("schema_compatibility_strategy",),
        topic_name="schemaCompatibilityStrategy",
        topic_key=("schemaCompatibilityStrategy",),
        unset=Strategy.UNDEFINED.value,
        nothing=(Strategy.UNDEFINED.value,),
    ),
    Policy(
        "isAllowAutoUpdateSchema",
        "Schemas from clients",
        "Whether clients may add versions to a topic's schema, or administrators alone",
        ("is_allow_auto_update_schema",),
        Flag(),
        lambda settings: settings.is_allow_auto_update_schema_enabled,
        ("is_allow_auto_update_schema_enabled",),
        unset=True,
    ),
    Policy(
        "schemaValidationEnforced",
        "Schema required",
        "Whether producers must have a schema where the topic has one",
        ("schema_validation_enforced",),
        Flag(),
        lambda settings: settings.is_schema_validation_enforced,
        ("is_schema_validation_enforced",),
        topic_name="schemaValidationEnforced",
        topic_key=("schemaValidationEnforced",),
        unset=False,
        topic_unset=False,
        nothing=(False,),
    ),
)
BY_NAME = {policy.name: policy for policy in POLICIES}
SIZE_QUOTA = BY_NAME["backlogQuota.destination_storage"]
AGE_QUOTA = BY_NAME["backlogQuota.message_age"]
RETENTION = BY_NAME["retention"]
