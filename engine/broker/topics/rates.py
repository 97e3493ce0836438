"""Rates and sizes that limit a topic: those of the broker, of its resource group, of the topic and of subscribing."""

from collections.abc import Callable
from typing import Protocol

from engine.base.clock import Clock
from engine.base.names import TopicName
from engine.broker.context import Context
from engine.broker.control.counters import Traffic
from engine.broker.control.rate_limit import (
    NO_RATE,
    CountedLimit,
    RateLevel,
    RateLimit,
    TokenBucket,
)
from engine.broker.dispatch.consumer import Consumer
from engine.broker.errors import NotAllowed
from engine.broker.policies import (
    MaxRate,
    PublishPolicies,
    RatePolicies,
)
from engine.broker.topics.limits import EncryptionRequired, MessageSize, is_system
from engine.broker.topics.publish import Publish, Stage, StagePlace
from engine.broker.topics.publish_rate import PublishRate

CONSUMERS_REMEMBERED = 1000
"""Number of consumers per topic whose subscribe rate is remembered; beyond it the first one is forgotten."""


class BrokerRates:
    """The rates of all topics of a broker together, from its settings."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._published = RateLimit(context.clock)
        self.publish = PublishRate(self._published, "the broker", StagePlace.BROKER_RATE)
        self.dispatch = RateLimit(context.clock)
        self.groups = Groups(context.clock)
        self.apply()

    @property
    def limits_publishing(self) -> bool:
        return self._published.limited

    def apply(self) -> None:
        """Apply the broker's settings, which may have changed; the caller calls ``Topic.settings_changed`` as well."""
        settings = self._context.settings
        self._published.set(
            MaxRate(
                settings.broker_publisher_throttling_max_message_rate,
                settings.broker_publisher_throttling_max_byte_rate,
            )
        )
        self.dispatch.set(
            MaxRate(
                settings.dispatch_throttling_rate_in_msg, settings.dispatch_throttling_rate_in_byte
            )
        )


class GroupRates:
    """The share of this broker in a resource group's rates. ``hosts`` are the topics in the group."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.name = name
        self.published = CountedLimit(clock)
        self.publish = PublishRate(self.published, f"resource group {name}", StagePlace.GROUP_RATE)
        self.dispatched = CountedLimit(clock)
        self.hosts: dict[RatesHost, None] = {}

    def set(self, publish: MaxRate, dispatch: MaxRate) -> None:
        """Set the shares of this broker."""
        before = self.published.limited, self.dispatched.limited
        self.published.set(publish)
        self.dispatched.set(dispatch)
        # The stages of the topics differ only when a limit appears or disappears, not when its value changes.
        if before != (self.published.limited, self.dispatched.limited):
            for host in list(self.hosts):
                host.settings_changed()


class Groups:
    """The resource groups of the topics that a broker serves. ``on_new`` is called when a group is added."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.by_name: dict[str, GroupRates] = {}
        self.on_new: Callable[[], None] = lambda: None

    def join(self, name: str, host: "RatesHost") -> GroupRates:
        """Add ``host`` to the group ``name`` and return the group."""
        group = self.by_name.get(name)
        if group is None:
            group = self.by_name[name] = GroupRates(self._clock, name)
            self.on_new()
        group.hosts[host] = None
        return group


class RatesHost(Protocol):
    """Parts of a topic that its rates use."""

    name: TopicName
    published: Traffic
    context: Context

    def arrange_stages(self) -> None: ...

    def settings_changed(self) -> None: ...

    def admitted(self, publish: Publish, by: Stage) -> None: ...


class TopicRates:
    """The rates of one topic. ``dispatch`` has those that limit all its subscriptions, the broker's first."""

    __slots__ = (
        "_broker",
        "_dispatched",
        "_encryption",
        "_group",
        "_host",
        "_publish",
        "_published",
        "_requires_encryption",
        "_size",
        "_subscribed",
        "dispatch",
    )

    def __init__(self, host: RatesHost, broker: BrokerRates) -> None:
        self._host = host
        self._broker = broker
        clock = host.context.clock
        self._published = RateLimit(clock)
        self._publish = PublishRate(self._published, host.name.full, StagePlace.TOPIC_RATE)
        self._encryption = EncryptionRequired(host)
        self._requires_encryption = False
        self._size = MessageSize(host)
        self._dispatched = RateLimit(clock, self.published, RateLevel.TOPIC)
        self._group: GroupRates | None = None
        self.dispatch = self._dispatch_limits()
        self._subscribed = SubscribeRate(clock)

    def published(self) -> tuple[float, float]:
        """Messages and bytes per second."""
        traffic = self._host.published
        return traffic.messages.per_second, traffic.bytes.per_second

    @property
    def publish_limited_times(self) -> int:
        """Number of times that a connection was stopped for the topic's publish rate."""
        return self._publish.times

    def apply(self, rates: RatePolicies, publish: PublishPolicies) -> None:
        """Apply the topic's policies, which may have changed. Runs waiting for a removed rate pass within the call."""
        self._published.set(rates.publish)
        self._dispatched.set(rates.dispatch)
        self._subscribed.set(rates.subscribe)
        self._size.bytes_max = publish.message_bytes_max
        self._requires_encryption = publish.encryption_required
        self._change_group(rates.resource_group)
        self.dispatch = self._dispatch_limits()
        self._host.arrange_stages()

    @property
    def wanted(self) -> list[Stage]:
        """Stages that limit publishing now."""
        stages: list[Stage] = [*self.publish]
        if self._requires_encryption:
            stages.append(self._encryption)
        if self._size.bytes_max:
            stages.append(self._size)
        return stages

    @property
    def publish(self) -> list[PublishRate]:
        """Publish rates that limit the topic now: its own, its resource group's and the broker's."""
        broker, group = self._broker, self._group
        rates = [self._publish] if self._published.limited else []
        if group is not None and group.published.limited:
            rates.append(group.publish)
        if broker.limits_publishing and not is_system(self._host.name):
            rates.append(broker.publish)
        return rates

    def _dispatch_limits(self) -> tuple[RateLimit, ...]:
        if not self._host.name.persistent or is_system(self._host.name):
            return ()
        of_group = () if self._group is None else (self._group.dispatched,)
        return (self._broker.dispatch, *of_group, self._dispatched)

    def _change_group(self, name: str) -> None:
        """Move the topic to the resource group ``name``, or to none when it is empty."""
        before = self._group
        if name == (before.name if before is not None else ""):
            return
        self._group = self._broker.groups.join(name, self._host) if name else None
        if before is not None:
            before.publish.pass_on(self._host)
            before.hosts.pop(self._host, None)

    def check_subscribe(self, consumer: Consumer) -> None:
        """Count a subscribe of ``consumer``, or raise NotAllowed when it exceeds the rate."""
        if not self._subscribed.admits(consumer):
            raise NotAllowed("Subscribe limited by subscribe rate limit per consumer.")

    def end(self) -> None:
        """Release what waits for the topic's rates: it is no longer served."""
        self._publish.end()
        if self._group is not None:
            self._group.hosts.pop(self._host, None)


class SubscribeRate:
    """Limit of how often one consumer, identified by host, name and id, may subscribe to a topic."""

    __slots__ = ("_clock", "_known", "_rate")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rate = NO_RATE
        self._known: dict[tuple[str, str, int], TokenBucket] = {}

    def set(self, rate: MaxRate) -> None:
        if rate != self._rate:
            self._rate = rate
            self._known.clear()

    def admits(self, consumer: Consumer) -> bool:
        """Return whether ``consumer`` may subscribe now, and count it if so."""
        rate = self._rate
        if rate.messages <= 0:
            return True
        now_s = self._clock.monotonic_s()
        key = (consumer.outlet.address.rpartition(":")[0], consumer.name, consumer.consumer_id)
        bucket = self._known.get(key)
        if bucket is None:
            if len(self._known) >= CONSUMERS_REMEMBERED:
                del self._known[next(iter(self._known))]
            bucket = self._known[key] = TokenBucket(rate.messages, rate.period_s, now_s)
        if bucket.left(now_s) < 1:
            return False
        bucket.take(1)
        return True
