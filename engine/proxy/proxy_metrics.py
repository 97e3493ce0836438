"""The ``/metrics`` page of the proxy, in Prometheus' text format under the names of Apache's proxy."""

from collections.abc import AsyncIterator, Iterator

from engine.auth.authentication import Outcomes
from engine.base.metrics import described, labels_of
from engine.proxy.proxy_counters import KINDS, Counters

REQUESTS = {
    "lookup": "topic lookup requests",
    "partitions_metadata": "partitions metadata requests",
    "get_topics_of_namespace": "getTopics requests",
    "get_schema": "getSchema requests",
}


async def metrics_page(
    counters: Counters,
    active: int,
    refused: int,
    reads: int,
    copied_bytes: int,
    brokers: int,
    outcomes: Outcomes,
    cluster: str,
    process: str = "",
) -> AsyncIterator[bytes]:
    """Yield the page. ``refused``: connections above a limit. ``reads`` and ``copied_bytes`` are those of connections
    that are open as well. ``brokers``: number of known brokers. ``process``: families of the process."""
    numbers: list[tuple[str, str, str, float]] = [
        ("pulsar_proxy_active_connections", "gauge", "Connections of clients.", active),
        (
            "pulsar_proxy_new_connections",
            "counter",
            "Connections since the start.",
            counters.opened,
        ),
        (
            "pulsar_proxy_rejected_connections",
            "counter",
            "Connections above a limit since the start.",
            refused,
        ),
        ("pulsar_proxy_binary_ops", "counter", "Pieces of bytes that were copied.", reads),
        ("pulsar_proxy_binary_bytes", "counter", "Bytes that were copied.", copied_bytes),
        ("magnetar_proxy_known_brokers", "gauge", "Brokers that clients can reach.", brokers),
        (
            "magnetar_proxy_refused_targets",
            "counter",
            "Connections whose target is no broker.",
            counters.refused_targets,
        ),
        (
            "magnetar_proxy_requests_in_flight",
            "gauge",
            "Requests that wait for brokers.",
            counters.in_flight,
        ),
    ]
    for kind in KINDS:
        text = f"{REQUESTS[kind]}."
        name = f"pulsar_proxy_{kind}_requests"
        numbers.append((name, "counter", f"Number of {text}", counters.requests[kind]))
        name = f"pulsar_proxy_rejected_{kind}_requests"
        numbers.append((name, "counter", f"Number of refused {text}", counters.rejected[kind]))
    parts = []
    for name, form, text, value in numbers:
        full = f"{name}_total" if form == "counter" else name
        parts.append(described(full, form, text, [(labels_of(cluster=cluster), value)]))
    yield "".join([process, *parts, *_sign_ins(outcomes, cluster)]).encode()


def _sign_ins(outcomes: Outcomes, cluster: str) -> Iterator[str]:
    yield described(
        "pulsar_authentication_success_total",
        "counter",
        "Clients whose credentials were accepted, by provider.",
        [
            (labels_of(cluster=cluster, provider_name=name, auth_method=method), number)
            for (name, method), number in outcomes.succeeded.items()
        ],
    )
    yield described(
        "pulsar_authentication_failures_total",
        "counter",
        "Clients whose credentials were refused, by provider and kind of reason.",
        [
            (
                labels_of(cluster=cluster, provider_name=name, auth_method=method, reason=reason),
                number,
            )
            for (name, method, reason), number in outcomes.failed.items()
        ],
    )
