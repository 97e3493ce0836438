"""How many producers, consumers and subscriptions a topic may have, how large messages may be, how late they may be
delivered and whether they must be encrypted, and which policies bind it."""

from dataclasses import replace
from itertools import groupby
from typing import Protocol

from engine.base.names import TopicName
from engine.broker.context import Context
from engine.broker.dispatch.facts import facts_of
from engine.broker.errors import BrokerError, MetadataError, NotAllowed
from engine.broker.ports import NO_LIMIT, BacklogQuota, TopicPolicies
from engine.broker.topics.publish import Publish, Stage, StagePlace
from engine.tenancy.settings import SUBSCRIPTION_TYPES
from engine.tenancy.topics import SYSTEM_PREFIX
from engine.wire.kernels import is_encrypted


class LimitedHost(Protocol):
    """What limits need of their topic."""

    policies: TopicPolicies

    def admitted(self, publish: Publish, by: Stage) -> None: ...


def reached(limit: int, count: int) -> bool:
    """Whether ``count`` leaves no room for one more; a ``limit`` of 0 is none. What is there already may stay."""
    return 0 < limit <= count


def is_system(name: TopicName) -> bool:
    """Whether it is one of the cluster's own."""
    return name.local.startswith(SYSTEM_PREFIX)


def binding(name: TopicName, policies: TopicPolicies) -> TopicPolicies:
    """What holds for the topic ``name``: the cluster's own topics are bound by no limit, lifetime or quota; where
    nothing is kept nothing can be too old or too much, and subscriptions are not counted, as in Pulsar."""
    system = is_system(name)
    if not system and name.persistent:
        return policies
    kept = replace(
        policies,
        message_ttl_s=0,
        max_subscriptions=0,
        size_quota=BacklogQuota(),
        age_quota=BacklogQuota(),
        deduplication=False,
        dispatch_rate=NO_LIMIT,
        subscription_rate=NO_LIMIT,
        subscription_rates={},
        compaction_threshold=policies.compaction_threshold if name.persistent else 0,
    )
    if not system:
        return kept
    return replace(
        kept,
        max_producers=0,
        max_consumers=0,
        max_consumers_per_subscription=0,
        publish_rate=NO_LIMIT,
        subscribe_rate=NO_LIMIT,
        message_bytes_max=0,
        encryption_required=False,
        subscription_types=SUBSCRIPTION_TYPES,
        resource_group="",
    )


class MessageSize:
    """A stage of a topic that takes only messages and batches up to a size, chunks but for themselves, as Pulsar."""

    __slots__ = ("_host",)
    place = StagePlace.SIZE

    def __init__(self, host: LimitedHost) -> None:
        self._host = host

    def admit(self, publish: Publish) -> bool:
        most = self._host.policies.message_bytes_max
        spans = publish.run.spans
        if publish.run.size <= most or publish.chunk:
            return True
        fits = [spans[2 * i + 1] - spans[2 * i] <= most for i in range(publish.run.count)]
        return _sorted(self._host, self, publish, fits, NotAllowed("Exceed maximum message size"))

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        pass

    def failed(self, publish: Publish, start: int) -> None:
        pass


class EncryptionRequired:
    """A stage of a topic that takes only what is encrypted: producers say that they do it, nothing else holds them to
    it."""

    __slots__ = ("_host",)
    place = StagePlace.ENCRYPTION

    def __init__(self, host: LimitedHost) -> None:
        self._host = host

    def admit(self, publish: Publish) -> bool:
        buf, spans = publish.run.buf, publish.run.spans
        fits = [is_encrypted(buf, spans[2 * i], spans[2 * i + 1]) for i in range(publish.run.count)]
        return _sorted(self._host, self, publish, fits, MetadataError("Messages must be encrypted"))

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        pass

    def failed(self, publish: Publish, start: int) -> None:
        pass


class DelayLimitHost(Protocol):
    """What the limit of delays needs of its topic."""

    policies: TopicPolicies
    context: Context

    def arrange_stages(self) -> None: ...

    def admitted(self, publish: Publish, by: Stage) -> None: ...


class DelayLimit:
    """A stage of a topic that refuses messages that are to be delivered too far ahead, while there is a limit."""

    __slots__ = ("_host", "_max_ms")
    place = StagePlace.DELAY

    def __init__(self, host: DelayLimitHost) -> None:
        self._host = host
        self._max_ms = 0

    def apply(self) -> None:
        """The topic's policies may be others."""
        policies = self._host.policies
        self._max_ms = policies.delay_max_ms if policies.delays else 0
        self._host.arrange_stages()

    @property
    def wanted(self) -> list[Stage]:
        """The stages that it is now."""
        return [self] if self._max_ms else []

    def admit(self, publish: Publish) -> bool:
        special = facts_of(publish.run).special
        if not special:
            return True
        latest_ms = self._host.context.clock.wall_ms() + self._max_ms
        late = {i for i, facts in special.items() if facts.deliver_at_ms > latest_ms}
        if not late:
            return True
        owners = publish.owners or [publish.producer] * publish.run.count
        for (_, refused), those in groupby(
            range(publish.run.count), lambda i: (owners[i], i in late)
        ):
            part = publish.part(list(those))
            if refused:
                text = f"Exceeds max allowed delivery delay of {self._max_ms} milliseconds"
                part.refuse(NotAllowed(text))
            else:
                self._host.admitted(part, self)
        return False

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        pass

    def failed(self, publish: Publish, start: int) -> None:
        pass


def _sorted(
    host: LimitedHost, stage: Stage, publish: Publish, fits: list[bool], refusal: BrokerError
) -> bool:
    """Whether all entries fit; if not, those that do go on, in their order, and the others are refused."""
    if all(fits):
        return True
    for fit, those in groupby(range(publish.run.count), fits.__getitem__):
        part = publish.part(list(those))
        if fit:
            host.admitted(part, stage)
        else:
            part.refuse(refusal)
    return False
