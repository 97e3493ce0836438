"""The policies in force of a topic, in groups by the part of the data path that acts upon them. Pure.

A field names the row of the table of policies that it is from, and how the row's effective value becomes the field's;
``engine.broker.control.effective_policies`` fills the fields by that. Limits of 0 are none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from engine.offload.bucket import FILES, GOOGLE, NO_BUCKET, S3, Bucket, driver_of
from engine.offload.offload_policy import OffloadPolicy
from engine.offload.settings import folder_of
from engine.tenancy.policies.values import OFFLOAD_DRIVER, OFFLOAD_PRIORITY, WHEN_CAUGHT_UP
from engine.tenancy.settings import SUBSCRIPTION_TYPES
from engine.tenancy.strategy import Strategy

Value = TypeVar("Value")
DELETION_LAG_S = 14_400.0
"""Deletion lag of Pulsar, for topics whose policies name a storage without one."""
ROW = "row"
"""Key in a field's metadata: the name of its row, and the function that converts the row's value."""


def _same(value: Any) -> Any:
    return value


def from_row(name: str, default: Value, convert: Callable[[Any], Value] = _same) -> Value:
    """Return a dataclass field that is filled from the row ``name`` of the table of policies."""
    return field(default=default, metadata={ROW: (name, convert)})


def off_below_0(number: int) -> int:
    """Return ``number``, and 0 (off) for a negative one.

    Stored documents are not validated as requests of administrators are. A negative age would delete messages or
    subscriptions at once.
    """
    return max(number, 0)


def _part(name: str, convert: Callable[[Any], Value] = _same) -> Callable[[Any], Value]:
    """Return a conversion that takes the part ``name`` of a row's value."""
    return lambda value: convert(value[name])


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


def _quota(limit: str) -> Callable[[Mapping[str, Any]], BacklogQuota]:
    return lambda value: BacklogQuota(value[limit], QuotaAction(value["policy"]))


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


def _max_rate(messages: int, size: int, period_s: int = 1, relative: bool = False) -> MaxRate:
    """Return a limit; NO_LIMIT when neither number is above 0. A period below a second counts as one, as in Pulsar."""
    if messages <= 0 and size <= 0:
        return NO_LIMIT
    return MaxRate(max(messages, 0), max(size, 0), max(period_s, 1), relative)


def dispatch_rate(value: Mapping[str, Any]) -> MaxRate:
    """Convert Pulsar's DispatchRate."""
    return _max_rate(
        value["dispatchThrottlingRateInMsg"],
        value["dispatchThrottlingRateInByte"],
        value["ratePeriodInSecond"],
        value["relativeToPublishRate"],
    )


def _publish_rate(value: Mapping[str, Any]) -> MaxRate:
    return _max_rate(value["publishThrottlingRateInMsg"], value["publishThrottlingRateInByte"])


def _subscribe_rate(value: Mapping[str, Any]) -> MaxRate:
    return _max_rate(value["subscribeThrottlingRatePerConsumer"], 0, value["ratePeriodInSecond"])


@dataclass(frozen=True, slots=True)
class InactiveTopics:
    """Policy that deletes a topic which was unused for ``after_s`` seconds.

    ``when_caught_up``: subscriptions without consumers and without a backlog do not count as use.
    """

    delete: bool = False
    when_caught_up: bool = False
    after_s: int = 60


def _inactive_topics(value: Mapping[str, Any]) -> InactiveTopics:
    return InactiveTopics(
        value["deleteWhileInactive"],
        value["inactiveTopicDeleteMode"] == WHEN_CAUGHT_UP,
        value["maxInactiveDurationSeconds"],
    )


@dataclass(frozen=True, slots=True)
class StoragePolicies:
    """Replication, retention and compaction of what is stored."""

    ensemble: int = from_row("persistence", 1, _part("bookkeeperEnsemble"))
    write_quorum: int = from_row("persistence", 1, _part("bookkeeperWriteQuorum"))
    ack_quorum: int = from_row("persistence", 1, _part("bookkeeperAckQuorum"))
    retention_minutes: int = from_row("retention", 0, _part("retentionTimeInMinutes"))
    """Time for which acknowledged data is kept; -1 is no limit."""
    retention_mb: int = from_row("retention", 0, _part("retentionSizeInMB"))
    """MiB of acknowledged data that are kept; -1 is no limit."""
    compaction_threshold: int = from_row("compactionThreshold", 0, off_below_0)
    """Bytes published since the last compaction that start the next one; 0 is never."""


@dataclass(frozen=True, slots=True)
class BacklogPolicies:
    """Age and size of unacknowledged messages."""

    message_ttl_s: int = from_row("messageTTL", 0, off_below_0)
    """Age from which messages count as acknowledged; 0 is never."""
    size_quota: BacklogQuota = from_row(
        "backlogQuota.destination_storage", BacklogQuota(), _quota("limitSize")
    )
    age_quota: BacklogQuota = from_row(
        "backlogQuota.message_age", BacklogQuota(), _quota("limitTime")
    )


def _delay_max_ms(value: Mapping[str, Any]) -> int:
    return off_below_0(value["maxDeliveryDelayInMillis"]) if value["active"] else 0


@dataclass(frozen=True, slots=True)
class PublishPolicies:
    """Conditions for producers and their messages."""

    max_producers: int = from_row("maxProducersPerTopic", 0)
    message_bytes_max: int = from_row("maxMessageSize", 0, off_below_0)
    """Size of the largest message or batch."""
    encryption_required: bool = from_row("encryptionRequired", False)
    """Producers must encrypt messages."""
    delay_max_ms: int = from_row("delayedDelivery", 0, _delay_max_ms)
    """Greatest delay of a message when it is published; 0 also when delivery times are not respected."""


@dataclass(frozen=True, slots=True)
class RatePolicies:
    """Limits of rates."""

    publish: MaxRate = from_row("publishRate", NO_LIMIT, _publish_rate)
    """Rate of all producers together."""
    dispatch: MaxRate = from_row("dispatchRate", NO_LIMIT, dispatch_rate)
    """Rate of all subscriptions together."""
    subscription: MaxRate = from_row("subscriptionDispatchRate", NO_LIMIT, dispatch_rate)
    """Rate of each subscription."""
    replicator: MaxRate = from_row("replicatorDispatchRate", NO_LIMIT, dispatch_rate)
    """Rate to each other cluster."""
    subscribe: MaxRate = from_row("subscribeRate", NO_LIMIT, _subscribe_rate)
    """Rate of subscribes of one consumer."""
    by_subscription: Mapping[str, MaxRate] = field(default_factory=dict)
    """Subscriptions' own rates, by name."""
    resource_group: str = ""
    """Group whose rates the topic shares; empty for none."""


@dataclass(frozen=True, slots=True)
class DispatchPolicies:
    """Delays, and limits of unacknowledged messages of Shared and Key_Shared subscriptions."""

    unacked_per_consumer: int = from_row("maxUnackedMessagesPerConsumer", 50_000)
    unacked_per_subscription: int = from_row("maxUnackedMessagesPerSubscription", 200_000)
    delays: bool = from_row("delayedDelivery", True, _part("active"))
    """Delivery times are respected."""
    delay_tick_ms: int = from_row("delayedDelivery", 1000, _part("tickTime", off_below_0))
    """Precision of delivery times."""


@dataclass(frozen=True, slots=True)
class SubscriptionPolicies:
    """Number, types, creation and expiry of subscriptions."""

    auto_create: bool = from_row(
        "autoSubscriptionCreation", True, _part("allowAutoSubscriptionCreation")
    )
    """A missing subscription is created when a consumer uses it."""
    types: tuple[str, ...] = from_row("subscriptionTypesEnabled", SUBSCRIPTION_TYPES, tuple)
    """Permitted types, by Pulsar's names."""
    max_subscriptions: int = from_row("maxSubscriptionsPerTopic", 0)
    max_consumers: int = from_row("maxConsumersPerTopic", 0)
    max_consumers_per_subscription: int = from_row("maxConsumersPerSubscription", 0)
    expiration_minutes: int = from_row("subscriptionExpirationTime", 0, off_below_0)
    """Minutes without a consumer after which a durable subscription is deleted; 0 is never."""


@dataclass(frozen=True, slots=True)
class DeduplicationPolicies:
    """Deduplication of messages that a producer sends again."""

    enabled: bool = from_row("deduplication", False)
    snapshot_interval_s: int = from_row("deduplicationSnapshotInterval", 120, off_below_0)
    """Seconds between snapshots of its state; 0 is never."""


class ChosenStorage(NamedTuple):
    """Tiered storage that a namespace or topic chose. Numbers are None where it says nothing; the name of the bucket is
    empty where that of the broker is meant."""

    bucket: Bucket
    threshold_bytes: int | None = None
    threshold_s: int | None = None
    deletion_lag_ms: int | None = None
    bookies_first: bool | None = None


def _chosen_storage(value: Mapping[str, Any] | None) -> ChosenStorage | None:
    if value is None or not value.get(OFFLOAD_DRIVER):
        return None
    driver = driver_of(value[OFFLOAD_DRIVER])
    prefix = {S3: "s3ManagedLedgerOffload", GOOGLE: "gcsManagedLedgerOffload"}.get(driver, "")

    def part(name: str) -> str:
        # The names of one driver prevail over those that are of all, as in Pulsar.
        own = value.get(prefix + name) if prefix else None
        return own or value.get("managedLedgerOffload" + name) or ""

    if driver == FILES:
        bucket = Bucket(FILES, folder_of(value.get("fileSystemURI") or ""))
    else:
        bucket = Bucket(driver, part("Bucket"), part("Region"), part("ServiceEndpoint"))
    priority = value.get(OFFLOAD_PRIORITY)
    return ChosenStorage(
        bucket,
        value.get("managedLedgerOffloadThresholdInBytes"),
        value.get("managedLedgerOffloadThresholdInSeconds"),
        value.get("managedLedgerOffloadDeletionLagInMillis"),
        None if priority is None else priority == "BOOKKEEPER_FIRST",
    )


@dataclass(frozen=True, slots=True)
class OffloadRows:
    """Tiered storage of the topic. The numbers are the namespace's, for topics that have none of their own."""

    chosen: ChosenStorage | None = from_row("offloadPolicies", None, _chosen_storage)
    threshold_bytes: int = from_row("offloadThreshold", -1)
    threshold_s: int = from_row("offloadThresholdInSeconds", -1)
    deletion_lag_ms: int | None = from_row("offloadDeletionLagMs", None)

    def policy(self, unset: OffloadPolicy | None) -> OffloadPolicy | None:
        """Return the policy in force, where ``unset`` is that of the broker's settings."""
        chosen = self.chosen
        if chosen is None and unset is None:
            return None
        own = chosen or ChosenStorage(unset.bucket if unset is not None else NO_BUCKET)
        base = unset or OffloadPolicy(own.bucket, deletion_lag_s=DELETION_LAG_S)
        bucket = _permitted(own.bucket, base.bucket if unset is not None else NO_BUCKET)
        if bucket is None:
            return None
        threshold_bytes = _first(
            own.threshold_bytes, _set(self.threshold_bytes), base.threshold_bytes
        )
        threshold_s = _first(own.threshold_s, _set(self.threshold_s), base.threshold_s)
        lag_ms = _first(own.deletion_lag_ms, self.deletion_lag_ms, 1000 * base.deletion_lag_s)
        return OffloadPolicy(
            bucket,
            int(threshold_bytes),
            float(threshold_s),
            lag_ms / 1000 if lag_ms >= 0 else -1.0,
            base.bookies_first if own.bookies_first is None else own.bookies_first,
        )


def _permitted(chosen: Bucket, broker: Bucket) -> Bucket | None:
    """Return the bucket that a policy may use; None for none.

    A tenant's administrator writes the policy, and the broker's files, addresses and credentials are not the tenant's:
    the folder of FILES and a service's endpoint are those of the broker's settings.
    """
    same = chosen.driver == broker.driver
    if chosen.driver == FILES or not chosen.name:
        return broker if same and broker.name else None
    return chosen._replace(endpoint=broker.endpoint if same else "")


def _set(number: int) -> int | None:
    return number if number >= 0 else None


def _first(*numbers: float | None) -> float:
    """Return the first number that is not None."""
    return next(number for number in numbers if number is not None)


@dataclass(frozen=True, slots=True)
class SchemaPolicies:
    """Changes of the topic's schema."""

    strategy: Strategy = from_row("schemaCompatibilityStrategy", Strategy.FULL, Strategy)
    """Compatibility of a new version."""
    auto_update: bool = from_row("isAllowAutoUpdateSchema", True)
    """Clients may add versions."""
    enforced: bool = from_row("schemaValidationEnforced", False)
    """Producers must have a schema once the topic has one."""


@dataclass(frozen=True, slots=True)
class TopicPolicies:
    """The policies in force of a topic that the data path needs; applied again when they change."""

    storage: StoragePolicies = StoragePolicies()
    backlog: BacklogPolicies = BacklogPolicies()
    publish: PublishPolicies = PublishPolicies()
    rates: RatePolicies = RatePolicies()
    dispatch: DispatchPolicies = DispatchPolicies()
    subscriptions: SubscriptionPolicies = SubscriptionPolicies()
    deduplication: DeduplicationPolicies = DeduplicationPolicies()
    schema: SchemaPolicies = SchemaPolicies()
    offload: OffloadRows = OffloadRows()
    clusters: tuple[str, ...] = from_row("replication", (), tuple)
    """Clusters that hold the topic, this one included; empty where that is not stated."""
    shadows: tuple[str, ...] = from_row("shadowTopics", (), tuple)
    """Shadow topics to which the topic's end is stated."""
    inactive_topics: InactiveTopics = from_row(
        "inactiveTopicPolicies", InactiveTopics(), _inactive_topics
    )

    def other_clusters(self, here: str) -> list[str]:
        """Return the clusters that a topic of the cluster ``here`` is sent to, sorted.

        None without ``here`` in the list, which an administrator cannot set.
        """
        return sorted({*self.clusters} - {here}) if here in self.clusters else []
