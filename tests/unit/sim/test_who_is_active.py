"""Who the simulator expects to be active, against what is known of Apache's brokers."""

import pytest

from engine.base.names import TopicName
from tests.sim.topics.workload import entitled

TOPIC = "persistent://public/default/t"


@pytest.mark.parametrize(("partition", "active"), [(0, "a"), (1, "b"), (2, "a")])
def test_of_a_partition_by_its_number(partition: int, active: str) -> None:
    members = [(0, "b"), (1, "0"), (0, "a")]
    assert entitled(members, TopicName.parse(f"{TOPIC}-partition-{partition}")) == active


def test_of_a_plain_topic_by_the_ring_among_the_best() -> None:
    members = [(1, "0"), *((0, f"c{i}") for i in range(8))]
    chosen = {entitled(members, TopicName.parse(f"{TOPIC}{i}")) for i in range(40)}
    assert len(chosen) > 3
    assert "0" not in chosen


def test_nobody_where_there_is_nobody() -> None:
    assert entitled([], TopicName.parse(TOPIC)) is None
