"""Limits of a topic: which policies apply to it, counts of clients, and stages that refuse messages.

The stages check the size of messages, their delivery delay, and whether they are encrypted or markers.
"""

from dataclasses import replace
from itertools import groupby
from typing import Protocol

from engine.base.names import FUNCTION_STATE_PREFIX, SYSTEM_PREFIX, TopicName
from engine.broker.context import Context
from engine.broker.dispatch.facts import DELIVERY, MARKER, facts_of
from engine.broker.errors import BrokerError, MetadataError, NotAllowed
from engine.broker.policies import (
    NO_LIMIT,
    BacklogPolicies,
    PublishPolicies,
    RatePolicies,
    TopicPolicies,
)
from engine.broker.topics.publish import Publish, Stage, StagePlace
from engine.broker.transactions.buffer.snapshots import TOPICS
from engine.tenancy.change_events import LOCAL_NAME as CHANGE_EVENTS
from engine.tenancy.settings import SUBSCRIPTION_TYPES
from engine.wire.kernels import is_encrypted

SNAPSHOTS_BYTES = 1 << 20
"""Bytes of snapshots of transactions from which they are compacted where no policy says otherwise: only the last one of
each topic is ever read."""


class LimitedHost(Protocol):
    """Parts of a topic that its limits use."""

    def admitted(self, publish: Publish, by: Stage) -> None: ...


def reached(limit: int, count: int) -> bool:
    """Return whether one more than ``count`` would exceed ``limit``; a limit of 0 is none.

    A limit that is lowered below the count only refuses new clients.
    """
    return 0 < limit <= count


def is_system(name: TopicName) -> bool:
    """Return whether the topic belongs to the cluster itself."""
    own = name.local.startswith(SYSTEM_PREFIX)
    return own and not name.local.startswith(FUNCTION_STATE_PREFIX)


def binding(name: TopicName, policies: TopicPolicies, *, shadow: bool = False) -> TopicPolicies:
    """Return the policies that apply to the topic ``name``, which may be a ``shadow`` topic.

    System topics have no limit, lifetime or quota; those with snapshots of transactions are always compacted. Of system
    topics other clusters receive the log of policies alone: positions and ids of transactions are of one cluster.
    Non-persistent topics store nothing, so policies about stored messages do not apply, and their subscriptions are not
    counted, as in Pulsar. What a shadow topic stores and who publishes it is decided by its source's policies.
    """
    if shadow:
        return replace(
            policies,
            storage=replace(policies.storage, compaction_threshold=0),
            backlog=BacklogPolicies(message_ttl_s=policies.backlog.message_ttl_s),
            publish=PublishPolicies(),
            deduplication=replace(policies.deduplication, enabled=False),
            clusters=(),
            shadows=(),
        )
    system = is_system(name)
    if not system and name.persistent:
        return policies
    storage, rates = policies.storage, policies.rates
    if name.local in TOPICS:
        threshold = storage.compaction_threshold or SNAPSHOTS_BYTES
        storage = replace(storage, compaction_threshold=threshold)
    without_storage = replace(
        policies,
        storage=storage if name.persistent else replace(storage, compaction_threshold=0),
        backlog=BacklogPolicies(),
        rates=replace(rates, dispatch=NO_LIMIT, subscription=NO_LIMIT, by_subscription={}),
        subscriptions=replace(policies.subscriptions, max_subscriptions=0),
        deduplication=replace(policies.deduplication, enabled=False),
    )
    if not system:
        return without_storage
    return replace(
        without_storage,
        clusters=policies.clusters if name.partitioned.local == CHANGE_EVENTS else (),
        publish=replace(
            policies.publish, max_producers=0, message_bytes_max=0, encryption_required=False
        ),
        rates=RatePolicies(),
        subscriptions=replace(
            without_storage.subscriptions,
            max_consumers=0,
            max_consumers_per_subscription=0,
            types=SUBSCRIPTION_TYPES,
        ),
    )


class MessageSize:
    """A stage that accepts messages and batches up to ``bytes_max``. Chunks are not checked, as in Pulsar, and neither
    is what another cluster has accepted: one refused message would stop all that follow it."""

    __slots__ = ("_host", "bytes_max")
    place = StagePlace.SIZE

    def __init__(self, host: LimitedHost) -> None:
        self._host = host
        self.bytes_max = 0

    def admit(self, publish: Publish) -> bool:
        bytes_max = self.bytes_max
        spans = publish.run.spans
        if publish.run.size <= bytes_max or publish.chunk or publish.producer.origin:
            return True
        fits = [spans[2 * i + 1] - spans[2 * i] <= bytes_max for i in range(publish.run.count)]
        return admit_fitting(
            self._host, self, publish, fits, NotAllowed("Exceed maximum message size")
        )

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        pass

    def failed(self, publish: Publish, start: int) -> None:
        pass


class EncryptionRequired:
    """A stage that accepts only encrypted messages: a producer's declaration that it encrypts is not binding."""

    __slots__ = ("_host",)
    place = StagePlace.ENCRYPTION

    def __init__(self, host: LimitedHost) -> None:
        self._host = host

    def admit(self, publish: Publish) -> bool:
        buf, spans = publish.run.buf, publish.run.spans
        fits = [is_encrypted(buf, spans[2 * i], spans[2 * i + 1]) for i in range(publish.run.count)]
        return admit_fitting(
            self._host, self, publish, fits, MetadataError("Messages must be encrypted")
        )

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        pass

    def failed(self, publish: Publish, start: int) -> None:
        pass


class MarkersRefused:
    """A stage of a topic that other clusters have, too: it refuses markers of clients. Brokers write them for brokers,
    and one could move any subscription here or there (G4)."""

    __slots__ = ("_host",)
    place = StagePlace.MARKER

    def __init__(self, host: LimitedHost) -> None:
        self._host = host

    def admit(self, publish: Publish) -> bool:
        if publish.producer.origin:
            return True
        markers = facts_of(publish.run, MARKER).markers
        if not markers:
            return True
        fits = [i not in markers for i in range(publish.run.count)]
        refusal = NotAllowed("Only brokers write markers")
        return admit_fitting(self._host, self, publish, fits, refusal)

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        pass

    def failed(self, publish: Publish, start: int) -> None:
        pass


class DelayLimitHost(Protocol):
    """Parts of a topic that the limit of delays uses."""

    context: Context

    def arrange_stages(self) -> None: ...

    def admitted(self, publish: Publish, by: Stage) -> None: ...


class DelayLimit:
    """A stage that refuses messages whose delivery time is too far ahead, while a limit is set."""

    __slots__ = ("_host", "_max_ms")
    place = StagePlace.DELAY

    def __init__(self, host: DelayLimitHost) -> None:
        self._host = host
        self._max_ms = 0

    def apply(self, policies: PublishPolicies) -> None:
        """Apply the limit of the topic's policies, which may have changed."""
        self._max_ms = policies.delay_max_ms
        self._host.arrange_stages()

    @property
    def wanted(self) -> list[Stage]:
        """The limit itself as the only stage while it is set, else none."""
        return [self] if self._max_ms else []

    def admit(self, publish: Publish) -> bool:
        special = facts_of(publish.run, DELIVERY).special
        if not special:
            return True
        latest_ms = self._host.context.clock.wall_ms() + self._max_ms
        late = {i for i, facts in special.items() if facts.deliver_at_ms > latest_ms}
        if not late:
            return True
        owners = publish.owners or [publish.producer] * publish.run.count
        for (_, refused), indexes in groupby(
            range(publish.run.count), lambda i: (owners[i], i in late)
        ):
            part = publish.part(list(indexes))
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


def admit_fitting(
    host: LimitedHost, stage: Stage, publish: Publish, fits: list[bool], refusal: BrokerError
) -> bool:
    """Return whether all entries fit; if not, pass on those that do, in order, and refuse the others.

    What a replicator sent behind the first refused one is dropped, because it sends that again (G1).
    """
    if all(fits):
        return True
    for fit, indexes in groupby(range(publish.run.count), fits.__getitem__):
        part = publish.part(list(indexes))
        if publish.producer.origin and publish.producer.closed:
            part.drop()
        elif fit:
            host.admitted(part, stage)
        else:
            part.refuse(refusal)
    return False
