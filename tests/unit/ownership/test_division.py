"""The hashes at which a bundle is split."""

import pytest

from engine.base.errors import PreconditionFailed
from engine.base.names import HASH_TOP, BundleName, NamespaceName
from engine.ownership.division import (
    BY_FLOW,
    BY_TOPICS,
    EQUALLY,
    FLOW_MESSAGES_MAX,
    WHERE_ASKED,
    TopicLoad,
    check_algorithm,
    cuts,
)

NS = NamespaceName.parse("public/default")
FIRST = BundleName(NS, 0, 0x40000000)


def test_an_unknown_algorithm_is_refused_with_a_list_of_the_known_ones() -> None:
    assert check_algorithm("", []) == EQUALLY
    assert check_algorithm(BY_FLOW, []) == BY_FLOW
    with pytest.raises(PreconditionFailed, match="Unsupported namespace bundle split algorithm"):
        check_algorithm("bogus", [])
    with pytest.raises(PreconditionFailed, match="splitBoundaries must not be empty"):
        check_algorithm(WHERE_ASKED, [])


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 0x40000000, [0x20000000]), (0xC0000000, HASH_TOP, [0xDFFFFFFF]), (7, 8, [])],
)
def test_a_bundle_is_split_in_the_middle(low: int, high: int, expected: list[int]) -> None:
    assert cuts(BundleName(NS, low, high), EQUALLY, [], []) == expected


def test_requested_boundaries_inside_the_bundle_are_used() -> None:
    asked = [0, 0x40000000, 0x30000000, 0x10000000, 0x10000000, -5, 1 << 40]
    assert cuts(FIRST, WHERE_ASKED, [], asked) == [0x10000000, 0x30000000]
    assert cuts(FIRST, WHERE_ASKED, [], []) == []


def test_a_split_by_topics_leaves_half_of_them_on_each_side() -> None:
    hashes = [5, 100, 101, 5_000_000]
    (edge,) = cuts(FIRST, BY_TOPICS, [TopicLoad(topic_hash) for topic_hash in hashes], [])
    assert [topic_hash < edge for topic_hash in hashes] == [True, True, False, False]
    for too_few in ([], [TopicLoad(5)], [TopicLoad(5), TopicLoad(5)]):
        assert [edge for edge in cuts(FIRST, BY_TOPICS, too_few, []) if edge != 5] == []


def test_a_split_by_flow_halves_a_large_flow_and_refuses_a_small_one() -> None:
    quiet = [TopicLoad(topic_hash, messages=10.0) for topic_hash in (1, 2, 3)]
    assert cuts(FIRST, BY_FLOW, quiet, []) == []
    rate = FLOW_MESSAGES_MAX / 2
    busy = [TopicLoad(10, rate), TopicLoad(20, rate), TopicLoad(30, rate * 2), TopicLoad(40, 1.0)]
    (edge,) = cuts(FIRST, BY_FLOW, busy, [])
    assert 20 < edge <= 30
    assert cuts(FIRST, BY_FLOW, [TopicLoad(10, FLOW_MESSAGES_MAX * 9)], []) == []
