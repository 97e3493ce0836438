"""How many producers, consumers and subscriptions a topic may have, how large messages and whether they must be
encrypted, and which policies bind it."""

from dataclasses import replace
from itertools import groupby
from typing import Protocol

from engine.base.names import TopicName
from engine.broker.errors import BrokerError, MetadataError, NotAllowed
from engine.broker.ports import NO_LIMIT, BacklogQuota, TopicPolicies
from engine.broker.topics.publish import Place, Publish, Stage
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
    place = Place.SIZE

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
    place = Place.ENCRYPTION

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
