"""The rates and sizes that a topic is held to, put together: of the broker, the topic and those who subscribe."""

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
from engine.broker.ports import MaxRate, TopicPolicies
from engine.broker.topics.limits import EncryptionRequired, MessageSize, is_system
from engine.broker.topics.publish import Publish, Stage, StagePlace
from engine.broker.topics.publish_rate import PublishRate

CONSUMERS_REMEMBERED = 1000
"""Of a topic: beyond, those are forgotten that came first."""


class BrokerRates:
    """Of all topics of a broker together, by its settings."""

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
        """The broker's settings may be others; topics must be told as well."""
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
    """What this broker may pass of a resource group: its share of the group's rates. ``hosts``: topics in the group."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.name = name
        self.published = CountedLimit(clock)
        self.publish = PublishRate(self.published, f"resource group {name}", StagePlace.GROUP_RATE)
        self.dispatched = CountedLimit(clock)
        self.hosts: dict[RatesHost, None] = {}

    def set(self, publish: MaxRate, dispatch: MaxRate) -> None:
        """These are its shares from now on."""
        before = self.published.limited, self.dispatched.limited
        self.published.set(publish)
        self.dispatched.set(dispatch)
        if before != (self.published.limited, self.dispatched.limited):
            for host in list(self.hosts):
                host.settings_changed()


class Groups:
    """The resource groups of the topics that a broker serves. ``on_new`` is called when there is one more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.by_name: dict[str, GroupRates] = {}
        self.on_new: Callable[[], None] = lambda: None

    def joined(self, name: str, host: "RatesHost") -> GroupRates:
        """The group that ``host`` is in from now on."""
        group = self.by_name.get(name)
        if group is None:
            group = self.by_name[name] = GroupRates(self._clock, name)
            self.on_new()
        group.hosts[host] = None
        return group


class RatesHost(Protocol):
    """What the rates need of their topic."""

    name: TopicName
    policies: TopicPolicies
    published: Traffic
    context: Context

    def arrange_stages(self) -> None: ...

    def settings_changed(self) -> None: ...

    def admitted(self, publish: Publish, by: Stage) -> None: ...


class TopicRates:
    """Of one topic. ``dispatch``: what all its subscriptions are under, from the widest."""

    __slots__ = (
        "_broker",
        "_dispatched",
        "_encryption",
        "_group",
        "_host",
        "_publish",
        "_published",
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
        self._size = MessageSize(host)
        self._dispatched = RateLimit(clock, self.published, RateLevel.TOPIC)
        self._group: GroupRates | None = None
        self.dispatch = self._over_dispatch()
        self._subscribed = SubscribeRate(clock)

    def published(self) -> tuple[float, float]:
        """Messages and bytes per second."""
        traffic = self._host.published
        return traffic.messages.per_second, traffic.bytes.per_second

    @property
    def publish_limited_times(self) -> int:
        """How often a connection was stopped for the topic's publish rate."""
        return self._publish.times

    def apply(self) -> None:
        """The topic's policies may be others: they act at once. What waited for a rate that is gone has passed."""
        policies = self._host.policies
        self._published.set(policies.publish_rate)
        self._dispatched.set(policies.dispatch_rate)
        self._subscribed.set(policies.subscribe_rate)
        self._join(policies.resource_group)
        self.dispatch = self._over_dispatch()
        self._host.arrange_stages()

    @property
    def wanted(self) -> list[Stage]:
        """The stages by which publishing is limited now."""
        policies = self._host.policies
        stages: list[Stage] = [*self.publish]
        if policies.encryption_required:
            stages.append(self._encryption)
        if policies.message_bytes_max:
            stages.append(self._size)
        return stages

    @property
    def publish(self) -> list[PublishRate]:
        """What all that is published to the topic is under, where it is limited."""
        broker, group = self._broker, self._group
        found = [self._publish] if self._published.limited else []
        if group is not None and group.published.limited:
            found.append(group.publish)
        if broker.limits_publishing and not is_system(self._host.name):
            found.append(broker.publish)
        return found

    def _over_dispatch(self) -> tuple[RateLimit, ...]:
        if not self._host.name.persistent or is_system(self._host.name):
            return ()
        of_group = () if self._group is None else (self._group.dispatched,)
        return (self._broker.dispatch, *of_group, self._dispatched)

    def _join(self, name: str) -> None:
        """Be in the resource group of this name, and leave the one before."""
        left = self._group
        if name == (left.name if left is not None else ""):
            return
        self._group = self._broker.groups.joined(name, self._host) if name else None
        if left is not None:
            left.publish.pass_on(self._host)
            left.hosts.pop(self._host, None)

    def check_subscribe(self, consumer: Consumer) -> None:
        """Whether it may subscribe now. Raises NotAllowed."""
        if not self._subscribed.admits(consumer):
            raise NotAllowed("Subscribe limited by subscribe rate limit per consumer.")

    def end(self) -> None:
        """The topic is served no more."""
        self._publish.end()
        if self._group is not None:
            self._group.hosts.pop(self._host, None)


class SubscribeRate:
    """How often the same consumer, told by its host, name and id, may subscribe to a topic."""

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
        """Counts it as one more if so."""
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
