"""The ``/metrics`` page of a broker, in Prometheus' text format under Pulsar's family names and labels.

Written straight from live objects when asked for: nothing is counted twice and no sample objects are kept.
"""

from collections.abc import Callable, Iterable, Mapping

from engine.broker.administration.reports import (
    backlog_bytes,
    backlog_without_delayed,
    last_consumed_ms,
    rate_out,
    total_out,
)
from engine.broker.connection.sessions import Sessions
from engine.broker.ports import BrokerIdentity
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from engine.managed.stats import ManagedLedgerStats

Sample = tuple[str, float]
"""Labels as written between braces, and the value."""


def metrics_page(
    registry: TopicRegistry,
    sessions: Sessions,
    identity: BrokerIdentity,
    refused: Mapping[str, int],
) -> bytes:
    """All families of this broker. ``refused``: connections above the cap, by port."""
    page = _Page()
    cluster = _labels(cluster=identity.cluster)
    page.add(
        "pulsar_version_info",
        [(_labels(cluster=identity.cluster, version=identity.server_version), 1)],
    )
    connection = _labels(
        cluster=identity.cluster, broker=identity.broker_id, metric="broker_connection"
    )
    page.add("pulsar_active_connections", [(connection, sessions.count)])
    page.add("pulsar_connection_created_total_count", [(connection, sessions.accepted)])
    page.add(
        "pulsar_connection_closed_total_count", [(connection, sessions.accepted - sessions.count)]
    )
    over = [(_labels(cluster=identity.cluster, port=port), n) for port, n in refused.items()]
    page.add("magnetar_connections_refused_total", over, "counter")
    page.add("pulsar_topic_load_failed_total", [(cluster, registry.load_failures)], "counter")
    _topics(page, registry, identity.cluster)
    return page.text()


class _Page:
    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, family: str, samples: Iterable[Sample], kind: str = "gauge") -> None:
        self._lines.append(f"# TYPE {family} {kind}")
        self._lines.extend(
            f"{family}{{{labels}}} {value:g}"
            if isinstance(value, float)
            else (f"{family}{{{labels}}} {value}")
            for labels, value in samples
        )

    def text(self) -> bytes:
        return ("\n".join(self._lines) + "\n").encode()


def _labels(**pairs: str) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _topics(page: _Page, registry: TopicRegistry, cluster: str) -> None:
    topics = registry.topics()
    labels = [
        _labels(cluster=cluster, namespace=str(topic.name.namespace), topic=topic.name.full)
        for topic in topics
    ]
    ledgers = [topic.log.stats() for topic in topics]
    subscriptions = [list(topic.subscriptions.values()) for topic in topics]
    outs = [[rate_out(each) for each in of_topic] for of_topic in subscriptions]

    def gauge(family: str, values: Iterable[float]) -> list[float]:
        found = list(values)
        page.add(family, zip(labels, found, strict=True))
        return found

    per_namespace: dict[str, int] = {}
    for topic in topics:
        name = str(topic.name.namespace)
        per_namespace[name] = per_namespace.get(name, 0) + 1
    page.add(
        "pulsar_topics_count",
        [(_labels(cluster=cluster, namespace=name), n) for name, n in per_namespace.items()],
    )
    totals = {
        "subscriptions_count": gauge(
            "pulsar_subscriptions_count", (len(t.subscription_names) for t in topics)
        ),
        "producers_count": gauge("pulsar_producers_count", (len(t.producers) for t in topics)),
        "consumers_count": gauge(
            "pulsar_consumers_count",
            (sum(len(each.consumers) for each in of_topic) for of_topic in subscriptions),
        ),
        "rate_in": gauge("pulsar_rate_in", (t.published.messages.per_second for t in topics)),
        "rate_out": gauge("pulsar_rate_out", (sum((m for m, _ in o), 0.0) for o in outs)),
        "throughput_in": gauge(
            "pulsar_throughput_in", (t.published.bytes.per_second for t in topics)
        ),
        "throughput_out": gauge(
            "pulsar_throughput_out", (sum((b for _, b in o), 0.0) for o in outs)
        ),
        "storage_size": gauge("pulsar_storage_size", (ledger.size for ledger in ledgers)),
        "msg_backlog": gauge("pulsar_msg_backlog", map(_backlog, topics, ledgers)),
    }
    gauge("pulsar_in_messages_total", (topic.published.messages.total for topic in topics))
    gauge("pulsar_in_bytes_total", (topic.published.bytes.total for topic in topics))
    gauge("pulsar_average_msg_size", (topic.published.average_size for topic in topics))
    gauge("pulsar_storage_backlog_size", map(backlog_bytes, topics))
    gauge("pulsar_storage_backlog_quota_limit", (t.policies.size_quota.limit for t in topics))
    gauge("pulsar_storage_backlog_quota_limit_time", (t.policies.age_quota.limit for t in topics))
    broker = _labels(cluster=cluster)
    page.add("pulsar_broker_topics_count", [(broker, len(topics))])
    for family, values in totals.items():
        page.add(f"pulsar_broker_{family}", [(broker, sum(values))])
    _subscriptions(page, registry, cluster)


def _backlog(topic: Topic, ledger: ManagedLedgerStats) -> int:
    """Of all subscriptions; one that cannot be read now may have acknowledged nothing, as in the topic's statistics."""
    known = sum(each.cursor.backlog_entries() for each in topic.subscriptions.values())
    return known + len(topic.unread) * ledger.entries


def _subscriptions(page: _Page, registry: TopicRegistry, cluster: str) -> None:
    found = [
        (
            _labels(
                cluster=cluster,
                namespace=str(topic.name.namespace),
                topic=topic.name.full,
                subscription=subscription.name,
            ),
            subscription,
        )
        for topic in registry.topics()
        for subscription in topic.subscriptions.values()
    ]

    def gauge(family: str, value: Callable[..., float]) -> None:
        page.add(family, [(labels, value(subscription)) for labels, subscription in found])

    gauge("pulsar_subscription_back_log", lambda s: s.cursor.backlog_entries())
    gauge("pulsar_subscription_back_log_no_delayed", backlog_without_delayed)
    gauge("pulsar_subscription_delayed", lambda s: s.state.delayed)
    gauge("pulsar_subscription_in_replay", lambda s: s.state.replaying)
    gauge("pulsar_subscription_blocked_on_unacked_messages", lambda s: int(s.state.blocked))
    gauge("pulsar_subscription_consumers_count", lambda s: len(s.consumers))
    gauge("pulsar_subscription_unacked_messages", lambda s: sum(c.unacked for c in s.consumers))
    gauge("pulsar_subscription_msg_rate_out", lambda s: rate_out(s)[0])
    gauge("pulsar_subscription_msg_throughput_out", lambda s: rate_out(s)[1])
    gauge(
        "pulsar_subscription_msg_rate_redeliver",
        lambda s: sum((c.redelivered.per_second for c in s.consumers), 0.0),
    )
    gauge(
        "pulsar_subscription_msg_ack_rate",
        lambda s: sum((c.acked.per_second for c in s.consumers), 0.0),
    )
    gauge("pulsar_subscription_msg_rate_expired", lambda s: s.expired.per_second)
    gauge("pulsar_subscription_total_msg_expired", lambda s: s.expired.total)
    gauge("pulsar_subscription_msg_drop_rate", lambda s: s.dropped.per_second)
    gauge("pulsar_subscription_last_consumed_flow_timestamp", lambda s: s.flow_ms)
    gauge("pulsar_subscription_last_consumed_timestamp", last_consumed_ms)
    gauge("pulsar_subscription_last_acked_timestamp", lambda s: s.acked_ms)
    gauge("pulsar_subscription_last_mark_delete_advanced_timestamp", lambda s: s.advanced_ms)
    gauge("pulsar_out_messages_total", lambda s: total_out(s)[0])
    gauge("pulsar_out_bytes_total", lambda s: total_out(s)[1])
