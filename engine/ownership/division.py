"""Algorithms that choose the edges at which a bundle is split. Pure.

The algorithms and their names are Pulsar's: in the middle, by the number of topics, by their load, or at requested
positions. Requested positions are used exactly; Apache Pulsar silently ignores those that do not lie between two topics
of the bundle.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from engine.base.errors import PreconditionFailed
from engine.base.names import BundleName

EQUALLY = "range_equally_divide"
BY_TOPICS = "topic_count_equally_divide"
WHERE_ASKED = "specified_positions_divide"
BY_FLOW = "flow_or_qps_equally_divide"
ALGORITHMS = (EQUALLY, BY_TOPICS, WHERE_ASKED, BY_FLOW)
FLOW_MESSAGES_MAX = 30_000 * 1.1
FLOW_BYTES_MAX = (100 << 20) * 1.1
"""Load per second above which a bundle is split by its load: Pulsar's defaults, with their tolerance."""


class TopicLoad(NamedTuple):
    """Hash of a topic in the bundle, and its messages and bytes per second, in and out together."""

    hash: int
    messages: float = 0.0
    bytes: float = 0.0


def check_algorithm(name: str, positions: Sequence[int]) -> str:
    """Return the algorithm, which is EQUALLY for an empty name.

    Raises PreconditionFailed for an unknown one, and for WHERE_ASKED without positions.
    """
    if name == WHERE_ASKED and not positions:
        raise PreconditionFailed(f"With {name} split algorithm, splitBoundaries must not be empty")
    if name and name not in ALGORITHMS:
        raise PreconditionFailed(
            "Unsupported namespace bundle split algorithm, supported algorithms are "
            f"[{', '.join(ALGORITHMS)}]"
        )
    return name or EQUALLY


def cuts(
    bundle: BundleName, algorithm: str, topics: Sequence[TopicLoad], positions: Sequence[int]
) -> list[int]:
    """Return the new edges inside ``bundle``, ascending; none when the algorithm does not split it."""
    if algorithm == WHERE_ASKED:
        edges = list(positions)
    elif algorithm == EQUALLY:
        edges = [bundle.lower + (bundle.upper - bundle.lower) // 2]
    else:
        by_hash = sorted(topics)
        half = len(by_hash) // 2 if algorithm == BY_TOPICS else _half_of_load(by_hash)
        edges = [_between(by_hash[half - 1].hash, by_hash[half].hash)] if half else []
    return sorted({edge for edge in edges if bundle.lower < edge < bundle.upper})


def _between(low: int, high: int) -> int:
    """Return an edge that separates a topic with the hash ``low`` from one with the hash ``high``."""
    return low + (high - low) // 2 if high - low > 1 else high


def _half_of_load(by_hash: Sequence[TopicLoad]) -> int:
    """Return the number of topics below the edge that divides the load most equally; 0 when the load is too small."""
    messages = sum(topic.messages for topic in by_hash)
    size = sum(topic.bytes for topic in by_hash)
    if len(by_hash) < 2 or (messages <= FLOW_MESSAGES_MAX and size <= FLOW_BYTES_MAX):
        return 0
    shares = [topic.messages / (messages or 1) + topic.bytes / (size or 1) for topic in by_hash]
    below = list(accumulate(shares))[:-1]
    return min(range(len(below)), key=lambda i: abs(below[i] - sum(shares) / 2)) + 1
