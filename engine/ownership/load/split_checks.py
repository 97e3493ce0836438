"""Decision which bundles their owner should split, by Pulsar's four thresholds, and why others should not be. Pure.

A bundle is due when it is above a threshold in several checks in a row. A split does not help against one topic that is
above the threshold of messages or of bytes alone: that topic needs partitions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.base.names import BundleName
from engine.ownership.division import TopicLoad
from engine.ownership.load.planned import MoveSkip
from engine.ownership.load.policies import is_movable
from engine.ownership.load.report import BundleLoad

MESSAGES, BYTES = "messages/s", "bytes/s"
PARTITIONS = "give the topic partitions"


@dataclass(frozen=True, slots=True)
class SplitLimits:
    """Thresholds of a bundle, with Pulsar's defaults; ``bundles`` bounds those of a namespace."""

    topics: int = 1_000
    sessions: int = 1_000
    messages: float = 30_000.0
    bytes: float = 100.0 * (1 << 20)
    bundles: int = 128
    hits: int = 3
    """Checks in a row that must find a bundle above a threshold."""
    splits_max: int = 10
    """Splits in one check."""


class Overload(NamedTuple):
    """A bundle above thresholds, by the measure: its value and the threshold."""

    bundle: BundleName
    measures: Mapping[str, tuple[float, float]]
    hot_topic: str

    @property
    def reason(self) -> str:
        """The measures in words."""
        return ", ".join(
            f"{value:.0f} {measure}, at most {limit:.0f}"
            for measure, (value, limit) in self.measures.items()
        )


class SplitChecks:
    """Memory of the checks of one broker's bundles."""

    def __init__(self) -> None:
        self._hits: dict[BundleName, int] = {}

    def due(self, loads: Mapping[BundleName, BundleLoad], limits: SplitLimits) -> list[Overload]:
        """Count a check of all bundles; return those that are due, the ones with most traffic first."""
        overloads = [
            overload
            for bundle, load in loads.items()
            if is_movable(bundle) and (overload := _overload(bundle, load, limits)) is not None
        ]
        self._hits = {
            overload.bundle: self._hits.get(overload.bundle, 0) + 1 for overload in overloads
        }
        return [overload for overload in overloads if self._hits[overload.bundle] >= limits.hits]


def _overload(bundle: BundleName, load: BundleLoad, limits: SplitLimits) -> Overload | None:
    measures = {
        "topics": (load.topics, limits.topics),
        "sessions": (load.producers + load.consumers, limits.sessions),
        MESSAGES: (load.messages, limits.messages),
        BYTES: (load.bytes, limits.bytes),
    }
    above = {
        measure: (float(value), float(limit))
        for measure, (value, limit) in measures.items()
        if value > limit
    }
    return Overload(bundle, above, load.hot_topic) if above else None


def obstacle(
    overload: Overload, topics: Sequence[TopicLoad], bundles: int, limits: SplitLimits
) -> MoveSkip | None:
    """Return why a bundle that is due is not split; None when it should be.

    ``topics``: loads of its loaded topics. ``bundles``: number of bundles of the namespace.
    """
    subject, hot = str(overload.bundle), overload.hot_topic or "its only topic"
    if len(topics) < 2:
        reason = f"{overload.reason}; no split helps against {hot}: {PARTITIONS}"
        return MoveSkip(subject, reason, "one topic")
    if all(
        measure in (MESSAGES, BYTES) and _is_of_one_topic(measure, value, limit, topics)
        for measure, (value, limit) in overload.measures.items()
    ):
        hot = overload.hot_topic or "one topic"
        reason = f"{overload.reason}; no split helps against {hot}: {PARTITIONS}"
        return MoveSkip(subject, reason, f"hot topic {hot}")
    if bundles >= limits.bundles:
        reason = f"{overload.reason}; the namespace has {bundles} bundles, at most {limits.bundles}"
        return MoveSkip(subject, reason, "bundles of the namespace")
    return None


def _is_of_one_topic(measure: str, value: float, limit: float, topics: Sequence[TopicLoad]) -> bool:
    """Return whether one topic alone is above the limit and all the others together are not."""
    hottest = max(topic.messages if measure == MESSAGES else topic.bytes for topic in topics)
    return hottest > limit and value - hottest <= limit
