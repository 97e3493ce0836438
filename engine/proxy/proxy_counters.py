"""Numbers of the proxy since its start, as Apache's proxy counts them. Pure."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Connections, copied bytes and requests. The kinds of requests are KINDS."""

    opened: int = 0
    """Connections that were accepted."""
    reads: int = 0
    """Pieces of bytes that were copied, on connections that have ended."""
    copied_bytes: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    """Requests by kind."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Requests above the limit of those in flight, by kind."""
    refused_targets: int = 0
    """Connections whose target was no broker."""
    in_flight: int = 0
    """Requests that wait for brokers now."""


KINDS = ("lookup", "partitions_metadata", "get_topics_of_namespace", "get_schema")
