"""Metric families: each name occurs once and is Pulsar's, and its type fits the name."""

from engine.broker.administration import metric_families as F

ALL = (
    *(F.TOPICS_COUNT, F.LATENCY_BUCKETS, F.LATENCY_OVERFLOW, F.SIZE_BUCKETS, F.SIZE_OVERFLOW),
    *(*F.TOPIC, *F.ONLY_TOPIC, *F.WRITTEN, *F.SUBSCRIPTION, *F.OUT),
    *(*F.THROTTLED, *F.CACHE, *F.MISSES, *F.COMPACTIONS),
    *(F.EVICTIONS, F.BROKER_EVICTIONS, F.IN_TOTAL, F.OUT_TOTAL, F.NAMESPACE_MISSES),
    *(*F.CONSUMER, *F.PRODUCER, *F.LEDGERS, *F.STORED, *F.COMPACTED, *F.REPLICATION),
)


def test_each_family_has_one_name_a_help_and_a_type_that_fits() -> None:
    assert len({family.name for family in ALL}) == len(ALL)
    for family in ALL:
        assert family.name.startswith("pulsar_")
        assert family.help.endswith(".")
        assert (family.kind == "counter") == family.name.endswith("_total"), family


def test_summed_families_come_first_and_belong_to_topics() -> None:
    assert F.TOPIC[: len(F.SUMMED)] == F.SUMMED


def test_ranges_are_named_as_pulsar_does() -> None:
    assert F.ranges((0.5, 1.0, 5.0)) == ["0.0_0.5", "0.5_1.0", "1.0_5.0"]
