"""Where a bundle is cut in two or more. Pure.

The algorithms and their names are Pulsar's: in the middle, by the number of topics, by what flows, or where asked.
Where asked is where asked; Apache's passes over, without a word, what does not lie between two topics of the bundle.
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
"""What may flow through a bundle per second before it is cut by its flow: Pulsar's defaults, with their tolerance."""


class TopicLoad(NamedTuple):
    """A topic of the bundle by its hash, and what flows through it per second, in and out."""

    hash: int
    messages: float = 0.0
    bytes: float = 0.0


def check_algorithm(name: str, positions: Sequence[int]) -> str:
    """``name``, the default for an empty one. Raises PreconditionFailed, also for one without its positions."""
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
    """New edges inside ``bundle``, ascending; none when there is no place where the algorithm would cut it."""
    if algorithm == WHERE_ASKED:
        wanted = list(positions)
    elif algorithm == EQUALLY:
        wanted = [bundle.lower + (bundle.upper - bundle.lower) // 2]
    else:
        by_hash = sorted(topics)
        half = len(by_hash) // 2 if algorithm == BY_TOPICS else _where_flow_halves(by_hash)
        wanted = [_between(by_hash[half - 1].hash, by_hash[half].hash)] if half else []
    return sorted({edge for edge in wanted if bundle.lower < edge < bundle.upper})


def _between(low: int, high: int) -> int:
    """An edge that leaves a topic of the hash ``low`` below it, and one of ``high`` above."""
    return low + (high - low) // 2 if high - low > 1 else high


def _where_flow_halves(by_hash: Sequence[TopicLoad]) -> int:
    """How many topics are below the edge that parts what flows most equally; 0 when it is too little to part."""
    messages = sum(topic.messages for topic in by_hash)
    size = sum(topic.bytes for topic in by_hash)
    if len(by_hash) < 2 or (messages <= FLOW_MESSAGES_MAX and size <= FLOW_BYTES_MAX):
        return 0
    shares = [topic.messages / (messages or 1) + topic.bytes / (size or 1) for topic in by_hash]
    below = list(accumulate(shares))[:-1]
    return min(range(len(below)), key=lambda i: abs(below[i] - sum(shares) / 2)) + 1
