"""Where a bundle is cut."""

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


def test_an_unknown_algorithm_is_refused_by_all_that_there_are() -> None:
    assert check_algorithm("", []) == EQUALLY
    assert check_algorithm(BY_FLOW, []) == BY_FLOW
    with pytest.raises(PreconditionFailed, match="Unsupported namespace bundle split algorithm"):
        check_algorithm("bogus", [])
    with pytest.raises(PreconditionFailed, match="splitBoundaries must not be empty"):
        check_algorithm(WHERE_ASKED, [])


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [(0, 0x40000000, [0x20000000]), (0xC0000000, HASH_TOP, [0xDFFFFFFF]), (7, 8, [])],
)
def test_in_the_middle(low: int, high: int, found: list[int]) -> None:
    assert cuts(BundleName(NS, low, high), EQUALLY, [], []) == found


def test_where_asked_as_far_as_it_is_inside() -> None:
    asked = [0, 0x40000000, 0x30000000, 0x10000000, 0x10000000, -5, 1 << 40]
    assert cuts(FIRST, WHERE_ASKED, [], asked) == [0x10000000, 0x30000000]
    assert cuts(FIRST, WHERE_ASKED, [], []) == []


def test_by_topics_half_of_them_are_on_each_side() -> None:
    hashes = [5, 100, 101, 5_000_000]
    (edge,) = cuts(FIRST, BY_TOPICS, [TopicLoad(one) for one in hashes], [])
    assert [one < edge for one in hashes] == [True, True, False, False]
    for too_few in ([], [TopicLoad(5)], [TopicLoad(5), TopicLoad(5)]):
        assert [edge for edge in cuts(FIRST, BY_TOPICS, too_few, []) if edge != 5] == []


def test_by_flow_only_when_much_flows_and_where_it_halves() -> None:
    quiet = [TopicLoad(one, messages=10.0) for one in (1, 2, 3)]
    assert cuts(FIRST, BY_FLOW, quiet, []) == []
    rate = FLOW_MESSAGES_MAX / 2
    busy = [TopicLoad(10, rate), TopicLoad(20, rate), TopicLoad(30, rate * 2), TopicLoad(40, 1.0)]
    (edge,) = cuts(FIRST, BY_FLOW, busy, [])
    assert 20 < edge <= 30
    assert cuts(FIRST, BY_FLOW, [TopicLoad(10, FLOW_MESSAGES_MAX * 9)], []) == []
