"""What brokers tell of subscriptions, bit by bit."""

from typing import Any

from gateway.services.attention.findings import Findings
from gateway.services.feeds.row_list import RowChanges

LAG = ["slow", "warning", 5_000, 2_500, {"rate_in": 3.0}]
T = "persistent://t/n/a"


def told(*rows: list[Any], gone: tuple[str, ...] = ()) -> RowChanges:
    return RowChanges(1, list(rows), list(gone))


def test_a_finding_is_there_while_its_broker_tells_it() -> None:
    found = Findings()
    found.apply("b", told([T, ["s", 9, 100, LAG], ["t", 1, 0, None]]))
    (one,) = found
    assert (one.topic, one.subscription, one.backlog, one.cause, one.growth) == (
        T,
        "s",
        9,
        "slow",
        2.5,
    )
    assert found.of(T) == {"s": one}
    before = found.version
    found.apply("b", told([T, ["t", 1, 0, None]]))
    assert (len(found), found.of(T)) == (0, {})
    assert found.version > before


def test_a_topic_that_moves_counts_where_it_was_told_last() -> None:
    found = Findings()
    found.apply("b", told([T, ["s", 9, 0, LAG]]))
    found.apply("c", told([T, ["s", 7, 0, LAG]]))
    found.apply("b", told(gone=(T,)))
    assert [one.backlog for one in found] == [7]
    found.forget("b")
    assert len(found) == 1
    found.forget("c")
    assert (len(found), T in found) == (0, False)


def test_a_topic_that_leaves_with_something_found_is_told() -> None:
    found = Findings()
    found.apply("b", told([T, ["s", 9, 0, LAG]], ["u", ["s", 1, 0, None]], ["v", ["s", 1, 0, LAG]]))
    found.apply("c", told(["u", ["s", 1, 0, None]]))
    found.apply("b", told(["v", ["s", 0, 0, None]]))
    found.apply("b", told(gone=("u", "v")))
    assert found.moves == 0, "nothing was found of them"
    found.apply("c", told([T, ["s", 9, 0, None]]))
    assert found.moves == 1
    found.apply("c", told([T, ["s", 9, 0, LAG]]))
    found.apply("c", told(gone=(T,)))
    assert found.moves == 2


def test_who_keeps_figures_hears_of_those_that_changed() -> None:
    found, heard = Findings(), []
    found.on_change = lambda *change: heard.append(change)
    found.apply("b", told([T, ["s", 9, 100, None], ["t", 1, 0, None]]))
    found.apply("b", told([T, ["s", 9, 200, LAG], ["t", 1, 0, None]]))
    found.apply("b", told([T, ["s", 9, 200, None]]))
    found.forget("b")
    assert heard == [
        (T, "s", None, (9, 100)),
        (T, "t", None, (1, 0)),
        (T, "s", (9, 100), (9, 200)),
        (T, "t", (1, 0), None),
        (T, "s", (9, 200), None),
    ]
