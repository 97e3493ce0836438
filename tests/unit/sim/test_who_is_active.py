"""The active consumer that the simulator expects, compared with the choice of Apache's brokers."""

import pytest

from engine.base.names import TopicName
from tests.sim.topics.workload import entitled

TOPIC = "persistent://public/default/t"


@pytest.mark.parametrize(("partition", "active"), [(0, "a"), (1, "b"), (2, "a")])
def test_the_number_of_a_partition_selects_its_active_consumer(partition: int, active: str) -> None:
    members = [(0, "b"), (1, "0"), (0, "a")]
    assert entitled(members, TopicName.parse(f"{TOPIC}-partition-{partition}")) == active


def test_a_hash_ring_of_the_best_level_selects_the_active_consumer() -> None:
    members = [(1, "0"), *((0, f"c{i}") for i in range(8))]
    chosen = {entitled(members, TopicName.parse(f"{TOPIC}{i}")) for i in range(40)}
    assert len(chosen) > 3
    assert "0" not in chosen


def test_no_consumer_is_active_where_none_is_attached() -> None:
    assert entitled([], TopicName.parse(TOPIC)) is None
