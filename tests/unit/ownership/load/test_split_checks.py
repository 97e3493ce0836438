"""Bundles are split by Pulsar's thresholds, after several checks, and not where a split cannot help."""

from engine.base.names import BundleName, NamespaceName
from engine.ownership.division import TopicLoad
from engine.ownership.load.report import BundleLoad
from engine.ownership.load.split_checks import (
    PARTITIONS,
    Overload,
    SplitChecks,
    SplitLimits,
    obstacle,
)

NAMESPACE = NamespaceName.parse("t/n")
BUNDLE, OTHER = BundleName(NAMESPACE, 0, 100), BundleName(NAMESPACE, 100, 200)
LIMITS = SplitLimits(topics=10, sessions=20, messages=100.0, bytes=1000.0, bundles=8)
SMALL = BundleLoad(topics=10, producers=10, consumers=10, rate_in=50.0, rate_out=50.0)


def due(load: BundleLoad, checks: int = 3, bundle: BundleName = BUNDLE) -> list[Overload]:
    """Return the bundles that are due in the last of ``checks`` checks."""
    memory = SplitChecks()
    return [memory.due({bundle: load}, LIMITS) for _ in range(checks)][-1]


def test_each_threshold_counts() -> None:
    assert due(SMALL) == []
    for load in (
        SMALL._replace(topics=11),
        SMALL._replace(consumers=11),
        SMALL._replace(rate_out=51.0),
        SMALL._replace(bytes_in=600.0, bytes_out=401.0),
    ):
        (overload,) = due(load)
        assert overload.bundle == BUNDLE
        assert len(overload.measures) == 1


def test_a_bundle_must_be_above_in_checks_in_a_row() -> None:
    memory, large = SplitChecks(), SMALL._replace(topics=11)
    seen = [large, large, SMALL, large, large, large, large]
    dues = [bool(memory.due({BUNDLE: load, OTHER: SMALL}, LIMITS)) for load in seen]
    assert dues == [False, False, False, False, False, True, True]


def test_bundles_of_brokers_themselves_are_not_split() -> None:
    for namespace in ("pulsar/system", "pulsar/cluster/broker:8080"):
        bundle = BundleName(NamespaceName.parse(namespace), 0, 100)
        assert due(SMALL._replace(topics=11), bundle=bundle) == []


def overload(measure: str, value: float, limit: float, hot: str = "") -> Overload:
    return Overload(BUNDLE, {measure: (value, limit)}, hot)


def test_a_hot_topic_needs_partitions_and_no_split() -> None:
    hot = "persistent://t/n/hot"
    topics = [TopicLoad(1, 140.0), TopicLoad(2, 10.0)]
    skip = obstacle(overload("messages/s", 150.0, 100.0, hot), topics, 2, LIMITS)
    assert skip is not None
    assert skip.reason.endswith(f"no split helps against {hot}: {PARTITIONS}")
    # The others are above the limit together: without the hot topic they are to be split.
    assert (
        obstacle(
            overload("messages/s", 250.0, 100.0, hot),
            [TopicLoad(1, 140.0), TopicLoad(2, 110.0)],
            2,
            LIMITS,
        )
        is None
    )
    assert obstacle(overload("topics", 11, 10, hot), topics, 2, LIMITS) is None


def test_a_hot_topic_is_also_known_by_its_bytes() -> None:
    topics = [TopicLoad(1, 1.0, 2000.0), TopicLoad(2, 99.0, 1.0)]
    assert obstacle(overload("bytes/s", 2001.0, 1000.0), topics, 2, LIMITS) is not None
    both = Overload(BUNDLE, {"bytes/s": (2001.0, 1000.0), "messages/s": (150.0, 100.0)}, "")
    assert obstacle(both, topics, 2, LIMITS) is None  # no topic alone is above both


def test_a_bundle_of_one_topic_is_not_split() -> None:
    skip = obstacle(overload("sessions", 21, 20, "t"), [TopicLoad(1)], 2, LIMITS)
    assert skip is not None
    assert PARTITIONS in skip.reason


def test_a_namespace_has_a_bounded_number_of_bundles() -> None:
    topics = [TopicLoad(1), TopicLoad(2)]
    assert obstacle(overload("topics", 11, 10), topics, 7, LIMITS) is None
    skip = obstacle(overload("topics", 11, 10), topics, 8, LIMITS)
    assert skip is not None
    assert "has 8 bundles, at most 8" in skip.reason
