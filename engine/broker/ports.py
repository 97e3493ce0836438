"""Interface of the data path to the broker's control side: ownership, namespaces, policies. Protocols and values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Protocol

from engine.base.names import NamespaceName, TopicName
from engine.tenancy.settings import SUBSCRIPTION_TYPES
from engine.tenancy.strategy import Strategy


class TopicMode(IntEnum):
    """Kinds of topics that a client requests of a namespace (numbers of the wire)."""

    PERSISTENT = 0
    NON_PERSISTENT = 1
    ALL = 2


@dataclass(frozen=True, slots=True)
class LookupResult:
    """Address of the broker that serves a topic. ``redirect``: repeat the lookup there, with ``authoritative``."""

    broker_url: str
    broker_url_tls: str = ""
    authoritative: bool = True
    redirect: bool = False
    proxy_through_service_url: bool = False


class QuotaAction(StrEnum):
    """Actions while a subscription's backlog exceeds a quota."""

    HOLD = "producer_request_hold"
    REFUSE = "producer_exception"
    EVICT = "consumer_backlog_eviction"


@dataclass(frozen=True, slots=True)
class BacklogQuota:
    """A limit of the backlog in bytes, or of the age of its oldest message in seconds; -1 is none."""

    limit: int = -1
    action: QuotaAction = QuotaAction.HOLD


@dataclass(frozen=True, slots=True)
class MaxRate:
    """A rate of ``messages`` and of ``size`` bytes in ``period_s`` seconds; 0 or less is no limit.

    ``relative``: the rate is added to the rate at which messages are published.
    """

    messages: int = 0
    size: int = 0
    period_s: int = 1
    relative: bool = False


NO_LIMIT = MaxRate()


@dataclass(frozen=True, slots=True)
class InactiveTopics:
    """Policy that deletes a topic which was unused for ``after_s`` seconds.

    ``when_caught_up``: subscriptions without consumers and without a backlog do not count as use.
    """

    delete: bool = False
    when_caught_up: bool = False
    after_s: int = 60


@dataclass(frozen=True, slots=True)
class TopicPolicies:
    """The policies in force of a topic that the data path needs; applied again when they change. Limits of 0 are none.

    ``ensemble``, ``write_quorum``, ``ack_quorum``: replication of its ledgers.
    ``retention_minutes``, ``retention_mb``: time and size of acknowledged data that is kept; -1 is no limit.
    ``message_ttl_s``: age from which messages count as acknowledged; 0 is never.
    ``schema_strategy``: compatibility of a new schema version; ``schema_auto_update``: clients may add versions;
    ``schema_enforced``: producers must have a schema once the topic has one.
    ``deduplication``: messages that a producer sends again are stored once; ``snapshot_interval_s``: seconds between
    snapshots of its state, 0 is never.
    ``publish_rate``: of all its producers together; ``dispatch_rate``: of all its subscriptions together;
    ``subscription_rate``: of each subscription; ``subscription_rates``: own rates of subscriptions, by name.
    ``subscribe_rate``: of subscribes of one consumer. ``message_bytes_max``: largest message or batch.
    ``subscription_types``: permitted types, by Pulsar's names.
    ``compaction_threshold``: bytes published since the last compaction that start the next one; 0 is never.
    ``delays``: delivery times are respected; ``delay_tick_ms``: their precision; ``delay_max_ms``: greatest delay of a
    message when it is published.
    ``unacked_per_consumer``, ``unacked_per_subscription``: unacknowledged messages, of Shared and Key_Shared.
    ``encryption_required``: producers must encrypt messages.
    ``resource_group``: group whose rates the topic shares; empty for none.
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
    """Minutes without a consumer after which a durable subscription is deleted; 0 is never."""
    delays: bool = True
    delay_tick_ms: int = 1000
    delay_max_ms: int = 0
    unacked_per_consumer: int = 50_000
    unacked_per_subscription: int = 200_000
    resource_group: str = ""


class Ownership(Protocol):
    """Ownership of topics by brokers. Every method raises BrokerError."""

    async def lookup(self, topic: TopicName, *, authoritative: bool, listener: str) -> LookupResult:
        """Return the topic's owner, which is chosen when there is none. Cancel-safe.

        Raises TopicNotFound when the namespace does not exist.
        """
        ...

    async def resume(self, topic: TopicName) -> None:
        """Own the topic's bundle again when its record is left from an earlier run of this broker.

        That record directs clients here: when refused, they would be directed here again. Cancel-safe. When the record
        cannot be read now, ``check_owned`` decides.
        """
        ...

    def check_owned(self, topic: TopicName) -> None:
        """Raise ServiceNotReady unless this broker owns the topic's bundle and may serve it now.

        The error is ``errors.not_served`` or has a text with "is being unloaded".
        """
        ...


class Namespaces(Protocol):
    """Namespaces and topics as metadata. Every method raises BrokerError; all are cancel-safe."""

    async def partitions(self, topic: TopicName, *, allow_create: bool) -> int:
        """Return the number of the topic's partitions, 0 when it is not partitioned.

        With ``allow_create`` a missing topic is created when the default type is partitioned; without it TopicNotFound
        with an empty text is raised.
        """
        ...

    async def topics_of_namespace(self, namespace: NamespaceName, mode: TopicMode) -> list[str]:
        """Return the full names of stored topics and partitions, without partitioned topics and system topics.

        The list is empty when the namespace does not exist. Loaded non-persistent topics are known only to the registry
        of their broker.
        """
        ...

    def watch_topics(
        self, namespace: NamespaceName, callback: Callable[[], None]
    ) -> Callable[[], None]:
        """Call ``callback`` whenever topics of the namespace may have been created or deleted.

        Return a function that ends this.
        """
        ...

    async def ensure_topic(self, topic: TopicName, *, create: bool) -> None:
        """Raise TopicNotFound ("Topic … does not exist") unless the topic exists or may be created by opening it.

        ``create``: the client permits the creation, which the namespace's policy must permit as well.
        """
        ...

    async def admit(self, topic: TopicName) -> Callable[[], None]:
        """Count a topic that is about to be created among those of its namespace, unless it exists.

        Return a function that ends the counting; it is called once, when the topic is stored or its creation failed.
        Raises MetadataError when the namespace's limit is reached, ServiceNotReady when the store fails.
        """
        ...

    async def confirm_plain(self, topic: TopicName) -> None:
        """Ensure, before the first use of a topic that is no partition, that no partitioned topic has its name.

        Raises TopicIsPartitioned, and TopicNotFound when the namespace does not exist.
        """
        ...

    async def policies(self, topic: TopicName) -> TopicPolicies:
        """Return the policies in force for the topic."""
        ...


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """Names of this broker.

    ``instance`` differs for every start of every broker of the cluster, which makes generated producer names unique.
    """

    cluster: str
    broker_id: str
    instance: int
    server_version: str = "Pulsar Server4.0.8"
