"""Partitions are chosen as Pulsar's Java client chooses them."""

from collections import Counter

import pytest

from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Hashing, PartitionChoice, Routing, key_hash

JAVA, MURMUR = Hashing.JAVA_STRING, Hashing.MURMUR3


@pytest.mark.parametrize(
    ("hashing", "key", "expected"),
    [
        (MURMUR, "k1", 2110152746),
        (MURMUR, "key1", 462881061),
        (MURMUR, "key01", 39696932),
        (JAVA, "keykeykeykeykey1", 434058482),
        (JAVA, "keykeykey2", 42978643),
        (JAVA, "", 0),
        (JAVA, "a", 97),
        (JAVA, "hello", 99162322),
        (JAVA, "polygenelubricants", 0),
        (JAVA, "\U0001f600", 55357 * 31 + 56832),
    ],
)
def test_known_hashes(hashing: Hashing, key: str, expected: int) -> None:
    assert key_hash(hashing, key) == expected


def message(key: str | None = None) -> OutgoingMessage:
    return OutgoingMessage(b"", key=key)


@pytest.mark.parametrize("routing", Routing)
def test_a_key_keeps_its_partition(routing: Routing) -> None:
    choice = PartitionChoice(routing, JAVA, 3, 0)
    assert [choice.of(message("hello"), 7, now) for now in range(5)] == [99162322 % 7] * 5


def test_one_partition_for_messages_without_a_key_also_when_the_topic_grows() -> None:
    choice = PartitionChoice(Routing.SINGLE, JAVA, 2, 0)
    assert [choice.of(message(), count, 0) for count in (4, 4, 8)] == [2, 2, 2]


def test_by_turns() -> None:
    choice = PartitionChoice(Routing.ROUND_ROBIN, JAVA, 2, 0)
    assert [choice.of(message(), 3, 0) for _ in range(5)] == [2, 0, 1, 2, 0]


def test_a_batching_producer_stays_for_ten_delays() -> None:
    choice = PartitionChoice(Routing.ROUND_ROBIN, JAVA, 0, 10)
    counts = Counter(choice.of(message(), 3, now) for now in range(300))
    assert counts == {0: 100, 1: 100, 2: 100}
    assert {choice.of(message(), 3, now) for now in range(100)} == {0}
