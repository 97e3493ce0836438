"""What the data path needs of the broker's control side: ownership, namespaces, topic metadata. Protocols, values."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Protocol

from engine.base.names import NamespaceName, TopicName
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
class TopicPolicies:
    """What the data path must know of a topic's policies in force; told again when they change.

    ``ensemble``, ``write_quorum``, ``ack_quorum``: replication of its ledgers.
    ``retention_minutes``, ``retention_mb``: keep acknowledged data that long and that much; -1 is for ever, 0 not.
    ``message_ttl_s``: what is older counts as acknowledged; 0 is never. Limits of 0 are none.
    ``schema_strategy``: what may follow the topic's schema; ``schema_auto_update``: whether clients may add versions;
    ``schema_enforced``: whether producers must have a schema once the topic has one.
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

    async def ensure_topic(self, topic: TopicName, *, create: bool) -> None:
        """Nothing when the topic exists or may be created by opening it; else TopicNotFound ("Topic … does not
        exist"). ``create`` is the client's wish; the namespace's policy must agree."""
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
