"""What the data path needs of the broker's control side: ownership, namespaces, topic metadata. Protocols, values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Protocol

from engine.base.names import NamespaceName, TopicName
from engine.tenancy.settings import SUBSCRIPTION_TYPES
from engine.tenancy.strategy import Strategy


class TopicMode(IntEnum):
    """Which topics of a namespace are asked for (wire numbers)."""

    PERSISTENT = 0
    NON_PERSISTENT = 1
    ALL = 2


@dataclass(frozen=True, slots=True)
class LookupResult:
    """Where a topic is served. ``redirect``: ask that broker instead, passing on ``authoritative``."""

    broker_url: str
    broker_url_tls: str = ""
    authoritative: bool = True
    redirect: bool = False
    proxy_through_service_url: bool = False


class QuotaAction(StrEnum):
    """What happens while a subscription's backlog is beyond a quota."""

    HOLD = "producer_request_hold"
    REFUSE = "producer_exception"
    EVICT = "consumer_backlog_eviction"


@dataclass(frozen=True, slots=True)
class BacklogQuota:
    """``limit``: bytes of backlog or seconds of age of its oldest message; -1 is none."""

    limit: int = -1
    action: QuotaAction = QuotaAction.HOLD


@dataclass(frozen=True, slots=True)
class MaxRate:
    """What may pass in ``period_s`` seconds: ``messages`` and ``size`` bytes; 0 or less is no limit. ``relative``: that
    much more than is published."""

    messages: int = 0
    size: int = 0
    period_s: int = 1
    relative: bool = False


NO_LIMIT = MaxRate()


@dataclass(frozen=True, slots=True)
class InactiveTopics:
    """Whether a topic that nobody used for ``after_s`` seconds is deleted. ``when_caught_up``: also one with
    subscriptions, which have neither consumers nor a backlog."""

    delete: bool = False
    when_caught_up: bool = False
    after_s: int = 60


@dataclass(frozen=True, slots=True)
class TopicPolicies:
    """What the data path must know of a topic's policies in force; told again when they change.

    ``ensemble``, ``write_quorum``, ``ack_quorum``: replication of its ledgers.
    ``retention_minutes``, ``retention_mb``: keep acknowledged data that long and that much; -1 is for ever, 0 not.
    ``message_ttl_s``: what is older counts as acknowledged; 0 is never. Limits of 0 are none.
    ``schema_strategy``: what may follow the topic's schema; ``schema_auto_update``: whether clients may add versions;
    ``schema_enforced``: whether producers must have a schema once the topic has one. ``deduplication``: whether what a
    producer sends again is stored once; ``snapshot_interval_s``: of what is known of it, 0 is
    never.
    ``publish_rate``: of all its producers together; ``dispatch_rate``: of all its subscriptions together,
    ``subscription_rate``: of each, ``subscription_rates``: of those that have one of their own, by name.
    ``subscribe_rate``: how often the same consumer may come. ``message_bytes_max``: 0 is none.
    ``subscription_types``: those that may be, by Pulsar's names.
    ``compaction_threshold``: so many bytes published since the last compaction start the next; 0: none does.
    ``delays``: whether messages wait for their time; ``delay_tick_ms``: how exact it is; ``delay_max_ms``: how far
    ahead it may be when a message is published.
    ``unacked_per_consumer``, ``unacked_per_subscription``: messages out, where consumers share a subscription.
    ``encryption_required``: whether producers must encrypt what they send.
    ``resource_group``: whose rates it shares; empty for none.
    """

    ensemble: int = 1
    write_quorum: int = 1
    ack_quorum: int = 1
    retention_minutes: int = 0
    retention_mb: int = 0
    auto_subscription: bool = True
    message_ttl_s: int = 0
    max_producers: int = 0
    max_subscriptions: int = 0
    max_consumers: int = 0
    max_consumers_per_subscription: int = 0
    size_quota: BacklogQuota = BacklogQuota()
    age_quota: BacklogQuota = BacklogQuota()
    schema_strategy: Strategy = Strategy.FULL
    schema_auto_update: bool = True
    schema_enforced: bool = False
    deduplication: bool = False
    snapshot_interval_s: int = 120
    publish_rate: MaxRate = NO_LIMIT
    dispatch_rate: MaxRate = NO_LIMIT
    subscription_rate: MaxRate = NO_LIMIT
    subscription_rates: Mapping[str, MaxRate] = field(default_factory=dict)
    subscribe_rate: MaxRate = NO_LIMIT
    message_bytes_max: int = 0
    subscription_types: tuple[str, ...] = SUBSCRIPTION_TYPES
    compaction_threshold: int = 0
    encryption_required: bool = False
    inactive_topics: InactiveTopics = InactiveTopics()
    subscription_expiration_minutes: int = 0
    """Durable subscriptions without a consumer for longer are deleted; 0: never."""
    delays: bool = True
    delay_tick_ms: int = 1000
    delay_max_ms: int = 0
    unacked_per_consumer: int = 50_000
    unacked_per_subscription: int = 200_000
    resource_group: str = ""


class Ownership(Protocol):
    """Who serves a topic. Every method raises BrokerError."""

    async def lookup(self, topic: TopicName, *, authoritative: bool, listener: str) -> LookupResult:
        """The owner, chosen now when there is none. TopicNotFound without the namespace; cancel-safe."""
        ...

    async def resume(self, topic: TopicName) -> None:
        """Take the topic's bundle again when its node is left from an earlier life of this broker.

        That node sends clients here: refused, they would be sent here again. Cancel-safe; what cannot be found out now
        is left to ``check_owned``.
        """
        ...

    def check_owned(self, topic: TopicName) -> None:
        """Nothing when this broker owns the topic's bundle and may serve it now; else ServiceNotReady
        (``errors.not_served``, or a text with "is being unloaded")."""
        ...


class Namespaces(Protocol):
    """Namespaces and topics as metadata. Every method raises BrokerError; all are cancel-safe."""

    async def partitions(self, topic: TopicName, *, allow_create: bool) -> int:
        """Partitions of the topic, 0 when it is not partitioned. ``allow_create`` creates a missing topic when the
        default type is partitioned; without it a missing topic is TopicNotFound with empty text."""
        ...

    async def topics_of_namespace(self, namespace: NamespaceName, mode: TopicMode) -> list[str]:
        """Full names of those that are stored, partitions one by one, without partitioned parents and system topics; []
        without namespace. Non-persistent topics are known to the registry of their broker alone."""
        ...

    def watch_topics(
        self, namespace: NamespaceName, callback: Callable[[], None]
    ) -> Callable[[], None]:
        """Call ``callback`` whenever stored topics of the namespace may have come or gone; returns how to stop it."""
        ...

    async def ensure_topic(self, topic: TopicName, *, create: bool) -> None:
        """Nothing when the topic exists or may be created by opening it; else TopicNotFound ("Topic … does not
        exist"). ``create`` is the client's wish; the namespace's policy must agree."""
        ...

    async def admit(self, topic: TopicName) -> Callable[[], None]:
        """Count a topic that is about to be made as one of its namespace's, until what is returned is called: once,
        when it is stored or given up. Nothing for one that exists. Raises MetadataError when the namespace may hold no
        more, ServiceNotReady when the store fails."""
        ...

    async def confirm_plain(self, topic: TopicName) -> None:
        """Settle, before the first use of a topic that is no partition, that it is not a partitioned one. Raises
        TopicIsPartitioned, also TopicNotFound when its namespace is gone."""
        ...

    async def policies(self, topic: TopicName) -> TopicPolicies:
        """Policies in force for the topic."""
        ...


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """How this broker names itself. ``instance`` is different for every start of every broker of the cluster: it makes
    generated producer names unique."""

    cluster: str
    broker_id: str
    instance: int
    server_version: str = "Pulsar Server4.0.8"
