"""The ``/metrics`` page of a broker, in Prometheus' text format under Pulsar's family names and labels.

The page is made of live objects on request: nothing is counted twice, and an unknown value has no sample. First each
topic is read once, then the families are written one after the other, with pauses for the event loop in between.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from engine.auth.authentication import Outcomes
from engine.base.ids import EARLIEST
from engine.base.measures.durations import Durations
from engine.base.metrics import described, labels_of
from engine.broker.administration import metric_families as F
from engine.broker.administration.geo.replication_metrics import ReplicationRows
from engine.broker.administration.metric_families import Family
from engine.broker.administration.reports import (
    backlog_bytes,
    backlog_without_delayed,
    last_consumed_ms,
    rate_out,
)
from engine.broker.administration.transaction_metrics import transaction_families
from engine.broker.connection.lookups import LookupCommands
from engine.broker.connection.sessions import Sessions
from engine.broker.context import SnapshotCounters
from engine.broker.control.written import LATENCIES_MS, MINUTE_S, SIZES, Minute
from engine.broker.ports import BrokerIdentity
from engine.broker.topics.lifecycle.topic_counters import Totals
from engine.broker.topics.rates import Groups
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic
from engine.broker.transactions.coordinator.coordinators import Coordinators
from engine.ownership.load.report import LoadReport

TOPICS_A_TURN = 50
LINES_A_TURN = 2_000

Number = float | None
Row = tuple[str, Sequence[Number]]
"""Labels as written between braces, and the values of several families in their order; None for unknown."""


class Levels(NamedTuple):
    """Levels that have samples of their own, besides the broker and (without ``topics``) namespaces."""

    topics: bool = True
    consumers: bool = False
    producers: bool = False


class LoadMetrics(NamedTuple):
    """Numbers of load balance: the present load, and what this broker had moved as the leader, since its start."""

    load: LoadReport
    bundles_moved: int
    brokers_relieved: int
    bundles_split: int


async def metrics_page(
    registry: TopicRegistry,
    sessions: Sessions,
    identity: BrokerIdentity,
    refused: Mapping[str, int],
    outcomes: Outcomes,
    levels: Levels,
    stores: Mapping[str, bool],
    balance: LoadMetrics | None = None,
    process: str = "",
    coordinators: Coordinators | None = None,
    offloader: Iterable[bytes] = (),
) -> AsyncIterator[bytes]:
    """Yield all families of this broker, in pieces.

    ``refused``: connections above the cap, by port. ``outcomes``: of the authentication of clients. ``stores``: whether
    each metadata store answers. ``balance``: numbers of load balance. ``process``: families of the process.
    ``coordinators``: those of transactions; None where these are not enabled. ``offloader``: families of tiered
    storage. Cancel-safe.
    """
    yield process.encode()
    yield b"".join(_broker(registry, sessions, identity, refused))
    yield b"".join(_authentication(outcomes, identity.cluster))
    answering = [
        (labels_of(cluster=identity.cluster, store=name), int(up)) for name, up in stores.items()
    ]
    text = "1 while the session with the metadata store is proven by recent answers."
    yield _described(Family("magnetar_metadata_store_connected", "gauge", text), answering)
    if balance is not None:
        yield b"".join(_balance(identity, balance))
    rows = _Rows(identity.cluster, levels, sessions.now_s)
    topics, rows.totals = registry.counters.counted()
    for start in range(0, len(topics), TOPICS_A_TURN):
        rows.add(topics[start : start + TOPICS_A_TURN])
        await asyncio.sleep(0)
    for piece in rows.written():
        yield piece
        await asyncio.sleep(0)
    for piece in offloader:
        yield piece
    if coordinators is not None:
        for piece in transaction_families(coordinators, identity.cluster):
            yield piece


def _described(family: Family, samples: Iterable[tuple[str, Number]]) -> bytes:
    return described(family.name, family.kind, family.help, samples).encode()


def _columns(families: Sequence[Family], rows: Sequence[Row]) -> Iterator[bytes]:
    """Yield each family with a sample of each row."""
    for index, family in enumerate(families):
        name = family.name
        yield _described(family, ())
        for start in range(0, len(rows), LINES_A_TURN):
            lines = [
                f"{name}{{{labels}}} {values[index]}"
                for labels, values in rows[start : start + LINES_A_TURN]
                if values[index] is not None
            ]
            yield "\n".join([*lines, ""]).encode() if lines else b""


def _balance(identity: BrokerIdentity, balance: LoadMetrics) -> Iterator[bytes]:
    def about(metric: str) -> str:
        return labels_of(cluster=identity.cluster, broker=identity.broker_id, metric=metric)

    load = balance.load
    for name, text, usage in (
        ("cpu", "Percentage of time in which the event loop was busy.", load.cpu),
        ("bandwidth_in", "Percentage of the network's speed that is received.", load.bandwidth_in),
        ("bandwidth_out", "Percentage of the network's speed that is sent.", load.bandwidth_out),
    ):
        share = None if usage is None else usage.share * 100.0
        yield _described(F.gauge(f"lb_{name}_usage", text), [(about("loadBalancing"), share)])
    moved = about("bundleUnloading")
    text = "Bundles that this broker had moved as the leader, since its start."
    yield _described(F.counter("lb_unload_bundle_total", text), [(moved, balance.bundles_moved)])
    text = "Bundles of this broker that were split for their load, since its start."
    split = about("bundlesSplit")
    yield _described(F.counter("lb_bundles_split_total", text), [(split, balance.bundles_split)])
    text = "Brokers that this broker had bundles moved from as the leader, cycle by cycle."
    yield _described(F.counter("lb_unload_broker_total", text), [(moved, balance.brokers_relieved)])


def _authentication(outcomes: Outcomes, cluster: str) -> Iterator[bytes]:
    succeeded = [
        (labels_of(cluster=cluster, provider_name=name, auth_method=method), number)
        for (name, method), number in outcomes.succeeded.items()
    ]
    failed = [
        (labels_of(cluster=cluster, provider_name=name, auth_method=method, reason=kind), number)
        for (name, method, kind), number in outcomes.failed.items()
    ]
    text = "Clients whose credentials were accepted, by provider."
    yield _described(F.counter("authentication_success_total", text), succeeded)
    text = "Clients whose credentials were refused, by provider and kind of reason."
    yield _described(F.counter("authentication_failures_total", text), failed)
    text = "Tokens that were refused because they had expired."
    yield _described(
        F.counter("expired_token_total", text), [(labels_of(cluster=cluster), outcomes.expired)]
    )
    text = "1 while a changed file of keys or users cannot be used, and its former contents serve."
    unusable = [
        (labels_of(cluster=cluster, setting=file.setting), int(file.is_unusable))
        for file in outcomes.files
    ]
    yield _described(Family("magnetar_secret_file_unusable", "gauge", text), unusable)


def _broker(
    registry: TopicRegistry,
    sessions: Sessions,
    identity: BrokerIdentity,
    refused: Mapping[str, int],
) -> Iterator[bytes]:
    cluster = labels_of(cluster=identity.cluster)
    version = labels_of(cluster=identity.cluster, version=identity.server_version)
    yield _described(F.gauge("version_info", "Version of this broker; always 1."), [(version, 1)])

    def about(metric: str) -> str:
        return labels_of(cluster=identity.cluster, broker=identity.broker_id, metric=metric)

    connection = about("broker_connection")
    for name, text, value in (
        ("active_connections", "Connections of clients.", sessions.count),
        ("connection_created_total_count", "Connections since the start.", sessions.accepted),
        (
            "connection_closed_total_count",
            "Client connections that ended.",
            sessions.accepted - sessions.count,
        ),
        (
            "connection_create_success_count",
            "Client connections that were accepted.",
            sessions.connected,
        ),
        (
            "connection_create_fail_count",
            "Client connections that ended before they were accepted.",
            sessions.failed,
        ),
    ):
        yield _described(F.gauge(name, text), [(connection, value)])
    over = [(labels_of(cluster=identity.cluster, port=port), n) for port, n in refused.items()]
    text = "Connections refused above the cap, by port."
    yield _described(Family("magnetar_connections_refused_total", "counter", text), over)
    unauthorized = [
        (labels_of(cluster=identity.cluster, command=command), number)
        for command, number in sessions.refused_commands.items()
    ]
    text = "Commands that clients had no right to, by type."
    yield _described(Family("magnetar_commands_refused_total", "counter", text), unauthorized)
    loading = "Topics that are being loaded."
    yield _described(
        F.gauge("broker_topic_load_pending_requests", loading), [(cluster, registry.loading)]
    )
    loads = registry.load_times
    failed = "Topics that could not be loaded, since the start."
    yield _described(F.counter("topic_load_failed_total", failed), [(cluster, loads.failed)])
    about_loads = about("pulsar_topic_load_times")
    yield _described(F.gauge("topic_load_failed_count", failed), [(about_loads, loads.failed)])
    yield _summary(F.TOPIC_LOADS, cluster, loads)
    latest = {F.LOAD_QUANTILES[quantile]: at_s for quantile, at_s in loads.quantiles_s().items()}
    mean_s = loads.mean_s()
    for name, at_s in (latest | ({} if mean_s is None else {"mean": mean_s})).items():
        text = f"Milliseconds of loading a topic, of the latest: {name}."
        yield _described(F.gauge(f"topic_load_time_{name}_ms", text), [(about_loads, at_s * 1000)])
    yield from _lookups(sessions.lookups, cluster)
    held = "Connections that are not read now because of their rate or their unconfirmed bytes."
    yield _described(F.gauge("broker_throttled_connections", held), [(cluster, sessions.throttled)])
    unsent = "Bytes for clients that their connections have not accepted yet."
    yield _described(
        F.gauge("broker_pending_bytes_to_dispatch", unsent), [(cluster, sessions.pending_bytes)]
    )
    cache = registry.cache
    kept = (cache.bytes, cache.entries, cache.inserted, cache.evicted, cache.evictions)
    yield from _columns(F.CACHE, [(cluster, kept)])
    yield from _groups(registry.groups, identity.cluster)
    yield from _snapshots(registry.snapshots, cluster)


def _snapshots(snapshots: SnapshotCounters, cluster: str) -> Iterator[bytes]:
    """Yield the families of replicated subscriptions."""
    name, text = "replicated_subscriptions", "Snapshots for replicated subscriptions"
    pending = F.gauge(f"{name}_pending_snapshots", f"{text} that are being made.")
    yield _described(pending, [(cluster, snapshots.pending)])
    timed_out = F.counter(f"{name}_timedout_snapshots_total", f"{text} that were given up.")
    yield _described(timed_out, [(cluster, snapshots.timed_out)])
    family = Family(f"pulsar_{name}_snapshot_ms", "summary", f"Milliseconds of {text.lower()}.")
    yield _described(family, ())
    yield f"{family.name}_count{{{cluster}}} {snapshots.count}\n".encode()
    yield f"{family.name}_sum{{{cluster}}} {snapshots.ms}\n".encode()


def _groups(groups: Groups, cluster: str) -> Iterator[bytes]:
    """Yield the usage of each resource group, and this broker's share."""
    limits = [
        (labels_of(cluster=cluster, ResourceGroup=group.name, MonitoringClass=kind), limit)
        for group in groups.by_name.values()
        for kind, limit in (("Publish", group.published), ("Dispatch", group.dispatched))
        if limit.limited
    ]
    yield from _columns(F.GROUP_USED, [(labels, limit.passed) for labels, limit in limits])
    shares = [(labels, limit.rate) for labels, limit in limits]
    quotas = [(labels, (rate.messages or None, rate.size or None)) for labels, rate in shares]
    yield from _columns(F.GROUP_QUOTAS, quotas)


def _lookups(lookups: LookupCommands, cluster: str) -> Iterator[bytes]:
    times = lookups.times
    yield _summary(F.LOOKUPS, cluster, times)
    for name, text, value in (
        ("answers", "Lookups whose topic this broker serves.", times.count - lookups.redirects),
        ("redirects", "Lookups that were redirected to another broker.", lookups.redirects),
        ("failures", "Lookups that were refused.", times.failed),
    ):
        yield _described(F.counter(f"broker_lookup_{name}_total", text), [(cluster, value)])
    waiting = "Lookups that are not answered yet."
    yield _described(
        F.gauge("broker_lookup_pending_requests", waiting), [(cluster, lookups.pending)]
    )


def _summary(family: Family, labels: str, durations: Durations) -> bytes:
    """Return quantiles of the latest durations and sums since the start, in milliseconds."""
    name, lines = family.name, [_described(family, ())]
    for quantile, at_s in durations.quantiles_s().items():
        lines.append(f'{name}{{{labels},quantile="{quantile}"}} {at_s * 1000}\n'.encode())
    lines.append(f"{name}_count{{{labels}}} {durations.count}\n".encode())
    lines.append(f"{name}_sum{{{labels}}} {durations.total_s * 1000}\n".encode())
    return b"".join(lines)


class _Rows:
    """Rows of all topics, read once."""

    def __init__(self, cluster: str, levels: Levels, now_s: float) -> None:
        self._cluster = cluster
        self._levels = levels
        self._now_s = now_s
        self._ledgers = 0
        self._per_namespace: dict[str, _Sums] = {}
        self._topics: list[Row] = []
        self._written: list[Row] = []
        self._compacted: list[Row] = []
        self._transactional: list[Row] = []
        self._compactions: list[Row] = []
        self._evictions: list[tuple[str, Number]] = []
        self._throttled: list[Row] = []
        self.totals = Totals()
        """Totals since the start, of the topics that were read and of those unloaded before."""
        self._subscriptions: list[Row] = []
        self._outs: list[Row] = []
        self._consumers: list[Row] = []
        self._producers: list[Row] = []
        self._replication = ReplicationRows(cluster, topics=levels.topics)

    def add(self, topics: Sequence[Topic]) -> None:
        for topic in topics:
            self.totals = self.totals.plus(topic)
            if not topic.closing:
                self._add_topic(topic)

    def _add_topic(self, topic: Topic) -> None:
        namespace = str(topic.name.namespace)
        sums = self._per_namespace.get(namespace)
        if sums is None:
            sums = self._per_namespace[namespace] = _Sums()
        values = _topic_values(topic)
        written = topic.written
        minute = None if written is None else written.last_minute(self._now_s)
        sums.add(values, minute, topic.policies.storage.write_quorum)
        sums.misses += topic.fetched.messages.per_second
        sums.missed_bytes += topic.fetched.bytes.per_second
        self._ledgers += topic.name.persistent
        self._replication.add(topic)
        if not self._levels.topics:
            return
        labels = labels_of(cluster=self._cluster, namespace=namespace, topic=topic.name.full)
        self._topics.append((labels, (*values, *_only_topic_values(topic))))
        if minute is not None:
            self._written.append((labels, _written_values(minute)))
        compacted = _compacted_values(topic)
        if compacted is not None:
            self._compacted.append((labels, compacted))
        compaction = topic.compaction
        if compaction.succeeded or compaction.failed:
            counts = compaction.succeeded, compaction.failed, compaction.removed_total
            self._compactions.append((labels, counts))
        if topic.transactions is not None:
            known = topic.transactions.counts
            self._transactional.append((labels, (known.ongoing, known.committed, known.aborted)))
        self._evictions += _evicted(
            labels, topic.quotas.evicted_for_size, topic.quotas.evicted_for_age
        )
        now_ms = topic.context.clock.wall_ms()
        for subscription in topic.subscriptions.values():
            self._add_subscription(labels, subscription, now_ms)
        for producer in topic.producers.values() if self._levels.producers else ():
            about = labels_of(producer_name=producer.name, producer_id=str(producer.producer_id))
            traffic = producer.published
            rates = traffic.messages.per_second, traffic.bytes.per_second, traffic.average_size
            self._producers.append((f"{labels},{about}", rates))

    def _add_subscription(self, topic: str, subscription: Subscription, now_ms: int) -> None:
        labels = f"{topic},{labels_of(subscription=subscription.name)}"
        self._subscriptions.append((labels, _subscription_values(subscription, now_ms)))
        self._outs.append((labels, subscription.counters.total_out))
        stops = subscription.dispatch.throttled
        for level in dict.fromkeys(level for level, _ in stops):
            by = f'{labels},reason="{level.value.lower()}"'
            self._throttled.append((by, (stops[level, False], stops[level, True])))
        if not self._levels.consumers:
            return
        for consumer in subscription.consumers:
            about = labels_of(consumer_name=consumer.name, consumer_id=str(consumer.consumer_id))
            values = (
                consumer.redelivered.per_second,
                consumer.unacked,
                int(consumer.blocked),
                consumer.out.messages.per_second,
                consumer.out.bytes.per_second,
                consumer.acked.per_second,
                consumer.permits,
            )
            self._consumers.append((f"{labels},{about}", values))
            totals = consumer.out.messages.total, consumer.out.bytes.total
            self._outs.append((f"{labels},{about}", totals))

    def written(self) -> Iterator[bytes]:
        """Yield all families, one after the other."""
        spaces = {
            labels_of(cluster=self._cluster, namespace=name): sums
            for name, sums in self._per_namespace.items()
        }
        yield _described(F.TOPICS_COUNT, [(labels, sums.topics) for labels, sums in spaces.items()])
        if self._levels.topics:
            yield from _columns((*F.TOPIC, *F.ONLY_TOPIC), self._topics)
            yield from _columns(F.WRITTEN, self._written)
            yield from _columns(F.COMPACTED, self._compacted)
            yield from _columns(F.COMPACTIONS, self._compactions)
            yield from _columns(F.TRANSACTIONAL, self._transactional)
            yield _described(F.EVICTIONS, self._evictions)
            yield from _columns(F.SUBSCRIPTION, self._subscriptions)
            yield from _columns(F.THROTTLED, self._throttled)
            yield from _columns(F.OUT, self._outs)
        else:
            yield from _columns(F.TOPIC, [(labels, sums.values) for labels, sums in spaces.items()])
        yield from _columns(F.REPLICATION, self._replication.rows)
        if self._levels.topics and self._levels.consumers:
            yield from _columns(F.CONSUMER, self._consumers)
        if self._levels.topics and self._levels.producers:
            yield from _columns(F.PRODUCER, self._producers)
        yield from _ledgers(spaces)
        cluster = labels_of(cluster=self._cluster)
        every = list(self._per_namespace.values())
        topics = sum(sums.topics for sums in every)
        yield _described(F.gauge("broker_topics_count", F.TOPICS_COUNT.help), [(cluster, topics)])
        for index, family in enumerate(F.SUMMED):
            name = family.name.replace("pulsar_", "broker_", 1)
            total = sum(sums.values[index] for sums in every)
            yield _described(F.gauge(name, f"{family.help} Of all topics."), [(cluster, total)])
        misses = [(labels, sums.misses) for labels, sums in spaces.items()]
        yield _described(F.NAMESPACE_MISSES, misses)
        entries = sum(sums.misses for sums in every)
        size = sum(sums.missed_bytes for sums in every)
        yield from _columns(F.MISSES, [(cluster, (entries, size, entries))])
        totals = self.totals
        yield _described(
            F.BROKER_EVICTIONS, _evicted(cluster, totals.evicted_for_size, totals.evicted_for_age)
        )
        for counted, label, own, system in (
            (F.IN_TOTAL, "system_topic", totals.bytes_in, totals.system_in),
            (F.OUT_TOTAL, "system_subscription", totals.bytes_out, totals.system_out),
        ):
            samples = [(f'{cluster},{label}="false"', own), (f'{cluster},{label}="true"', system)]
            yield _described(counted, samples)
        entries_s = sum(sums.entries for sums in every) / MINUTE_S
        writing = f"{F.WRITTEN[0].help} Of all topics."
        yield _described(F.gauge("broker_storage_write_rate", writing), [(cluster, entries_s)])
        text = "Managed ledgers that are open, one for each persistent topic."
        yield _described(F.gauge("ml_count", text), [(cluster, self._ledgers)])


def _evicted(labels: str, for_size: int, for_age: int) -> list[tuple[str, Number]]:
    return [(f'{labels},quota_type="size"', for_size), (f'{labels},quota_type="time"', for_age)]


def _ledgers(spaces: Mapping[str, "_Sums"]) -> Iterator[bytes]:
    known = [(labels, sums) for labels, sums in spaces.items() if sums.wrote]
    yield from _columns(F.LEDGERS, [(labels, sums.written()) for labels, sums in known])
    yield from _columns(F.STORED, [(labels, sums.stored()) for labels, sums in spaces.items()])
    latencies = [(labels, sums.latencies) for labels, sums in known]
    yield from _buckets(F.LATENCY_BUCKETS, F.LATENCY_OVERFLOW, LATENCIES_MS, latencies)
    sizes = [(labels, sums.sizes) for labels, sums in known]
    yield from _buckets(F.SIZE_BUCKETS, F.SIZE_OVERFLOW, SIZES, sizes)


def _buckets(
    family: Family,
    overflow: Family,
    bounds: tuple[float, ...],
    counts: Sequence[tuple[str, Sequence[int]]],
) -> Iterator[bytes]:
    samples = [
        (f'{labels},quantile="{name}"', count / MINUTE_S)
        for labels, of_bucket in counts
        for name, count in zip(F.ranges(bounds), of_bucket, strict=False)
    ]
    yield _described(family, samples)
    yield _described(overflow, [(labels, of_bucket[-1] / MINUTE_S) for labels, of_bucket in counts])


class _Sums:
    """Sums over the topics of one namespace."""

    def __init__(self) -> None:
        self.topics = 0
        self.values: list[float] = [0] * len(F.TOPIC)
        self.wrote = False
        """True once a topic has a whole minute of stored entries."""
        self.latencies = [0] * (len(LATENCIES_MS) + 1)
        self.sizes = [0] * (len(SIZES) + 1)
        self.entries = self._bytes = self._replicated = 0
        self.misses = self.missed_bytes = 0.0

    def add(self, values: Sequence[float], minute: Minute | None, replicas: int) -> None:
        self.topics += 1
        sums = self.values
        for index, value in enumerate(values):
            sums[index] += value
        if minute is None:
            return
        self.wrote = True
        if minute.entries:
            self.entries += minute.entries
            self._bytes += minute.bytes
            self._replicated += minute.bytes * replicas
            self.latencies = [a + b for a, b in zip(self.latencies, minute.latencies, strict=True)]
            self.sizes = [a + b for a, b in zip(self.sizes, minute.sizes, strict=True)]

    def stored(self) -> Sequence[float]:
        """Return the values of the STORED families."""
        names = [family.name for family in F.TOPIC]
        size, backlog = (names.index(f"pulsar_{name}") for name in ("storage_size", "msg_backlog"))
        return self.values[size], self.values[backlog]

    def written(self) -> Sequence[float]:
        """Return the values of the LEDGERS families."""
        rates = (self.entries, self._bytes, self._replicated)
        return (*(value / MINUTE_S for value in rates), self.entries)


def _topic_values(topic: Topic) -> Sequence[float]:
    """Return the values of the TOPIC families."""
    subscriptions = topic.subscriptions.values()
    consumers = 0
    messages_out = bytes_out = 0.0
    backlog = delayed_bytes = 0
    for subscription in subscriptions:
        delayed_bytes += subscription.dispatch.state.delayed_bytes
        consumers += len(subscription.consumers)
        messages, size = rate_out(subscription)
        messages_out += messages
        bytes_out += size
        backlog += subscription.cursor.backlog_entries()
    unread = topic.subscriptions.unread
    if unread:  # a cursor that cannot be read now may have acknowledged nothing
        backlog += len(unread) * topic.log.stats().entries
    published = topic.published
    size = topic.log.bytes_behind(EARLIEST)
    return (
        len(subscriptions) + len(unread.keys() - topic.subscriptions.keys()),
        len(topic.producers),
        consumers,
        published.messages.per_second,
        messages_out,
        published.bytes.per_second,
        bytes_out,
        size * topic.policies.storage.write_quorum,
        size,
        backlog,
        published.messages.total,
        published.bytes.total,
        backlog_bytes(topic),
        delayed_bytes,
        topic.log.offloaded_bytes,
        topic.fetched.messages.per_second,
    )


def _only_topic_values(topic: Topic) -> Sequence[Number]:
    """Return the values of the ONLY_TOPIC families."""
    oldest, policies = topic.quotas.oldest, topic.policies
    age_ms = None if oldest is None else topic.context.clock.wall_ms() - oldest.publish_ms
    return (
        topic.published.average_size,
        policies.backlog.size_quota.limit,
        policies.backlog.age_quota.limit,
        None if age_ms is None else max(age_ms / 1000, 0.0),
        topic.rates.publish_limited_times,
    )


def _compacted_values(topic: Topic) -> Sequence[Number] | None:
    """Return the values of the COMPACTED families; None without an open compacted ledger."""
    ledger, compaction = topic.compaction.at_hand, topic.compaction
    if ledger is None:
        return None
    return ledger.entries, ledger.reader.length, compaction.duration_ms or None


def _written_values(minute: Minute) -> Sequence[float]:
    """Return the values of the WRITTEN families."""
    return (
        minute.entries / MINUTE_S,
        *minute.latencies,
        minute.entries,
        round(minute.latency_s * 1e6),
        *minute.sizes,
        minute.entries,
        minute.bytes,
    )


def _age_s(subscription: Subscription, now_ms: int) -> float | None:
    oldest_ms = subscription.oldest.publish_ms()
    if not oldest_ms:
        return oldest_ms
    return max(now_ms - oldest_ms, 0) / 1000


def _subscription_values(subscription: Subscription, now_ms: int) -> Sequence[Number]:
    """Return the values of the SUBSCRIPTION families."""
    state, consumers = subscription.dispatch.state, subscription.consumers
    messages_out, bytes_out = rate_out(subscription)
    return (
        subscription.cursor.backlog_entries(),
        backlog_without_delayed(subscription),
        _age_s(subscription, now_ms),
        state.delayed,
        state.delayed_bytes,
        state.replaying,
        int(state.blocked),
        len(consumers),
        sum(consumer.unacked for consumer in consumers),
        messages_out,
        bytes_out,
        sum((consumer.redelivered.per_second for consumer in consumers), 0.0),
        sum((consumer.acked.per_second for consumer in consumers), 0.0),
        subscription.counters.expired.per_second,
        subscription.counters.expired.total,
        subscription.counters.dropped.per_second,
        subscription.counters.expired_ms,
        subscription.counters.flow_ms,
        last_consumed_ms(subscription),
        subscription.counters.acked_ms,
        subscription.counters.advanced_ms,
    )
