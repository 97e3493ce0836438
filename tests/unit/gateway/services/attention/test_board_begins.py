"""Begins of problems across moves of topics and restarts of the console."""

from typing import Any

import pytest

from gateway.services.attention.at_rest import HOLD_MS
from gateway.services.attention.memory import RETURNS_MS
from gateway.services.feeds.row_list import RowChanges
from gateway.services.health.hops import Kind
from tests.support.admin.board_console import Console, T


def moved(console: Console, cause: str, **evidence: Any) -> None:
    """Move the topic "a" to broker b:2 now, which finds it behind after 20 s."""
    loaded = console.now
    console.findings.forget("b:1")
    console.rows = []
    console.found(20)
    lag = [cause, "warning", console.now - 5_000, 0, {"loaded_ms": loaded, **evidence}]
    rows = [[T + "a", ["s", 500, 0, lag]]]
    console.findings.apply("b:2", RowChanges(1, rows, []))


def test_a_subscription_that_falls_behind_did_so_before_its_topic_moved(console: Console) -> None:
    console.lag("a", "s", "slow", loaded_ms=1, acked_ms=console.now)
    [before] = console.found()["items"]
    assert not before["at_least"]
    moved(console, "slow", acked_ms=console.now)
    [item] = console.found()["items"]
    assert (item["since"], item["at_least"]) == (before["since"], False)


def test_a_subscription_that_caught_up_for_a_while_begins_a_new_problem(console: Console) -> None:
    console.lag("a", "s", "slow", loaded_ms=1)
    console.found()
    console.findings.forget("b:1")
    console.found(RETURNS_MS // 1_000)
    moved(console, "slow")
    [item] = console.found()["items"]
    assert item["since"] > console.now - RETURNS_MS


def test_a_problem_found_shortly_after_loading_may_be_older(console: Console) -> None:
    began = console.now - 60_000
    console.lag("a", "s", "no-consumer", loaded_ms=began - 1_000, left_ms=0)
    console.lag("b", "s", "no-consumer", loaded_ms=began - 1_000, left_ms=began)
    console.lag("c", "s", "slow", loaded_ms=began - 2 * RETURNS_MS)
    console.lag("d", "s", "not-acknowledged", loaded_ms=began - 1_000, acked_ms=0)
    console.lag("e", "s", "not-acknowledged", loaded_ms=began - 1_000, acked_ms=began)
    console.lag("f", "s", "slow")  # of a broker of an earlier version
    console.found()
    at_least = {
        name: console.board.lags(T + name, [T + name], console.now)["s"]["at_least"]
        for name in "abcdef"
    }
    assert at_least == {"a": True, "b": False, "c": False, "d": True, "e": False, "f": True}


def restarted(console: Console) -> Console:
    """Return another console over the same brokers, with the episodes that this one recorded."""
    made = Console()
    records = [
        record._replace(seen_ms=record.seen_ms or console.now)
        for record in console.board.recorded()
    ]
    made.now = console.now + 30_000
    made.board.recall(records, made.now)
    return made


def test_a_problem_that_is_older_than_its_topics_load_is_so_after_a_restart(
    console: Console,
) -> None:
    console.lag("a", "s", "no-consumer", loaded_ms=1, left_ms=console.now - 60_000)
    [before] = console.found()["items"]
    moved(console, "no-consumer", left_ms=0)
    console.found()
    again = restarted(console)
    lag = [
        "no-consumer",
        "warning",
        console.now - 5_000,
        0,
        {"loaded_ms": console.now, "left_ms": 0},
    ]
    rows = [[T + "a", ["s", 500, 0, lag]]]
    again.findings.apply("b:2", RowChanges(1, rows, []))
    [item] = again.found()["items"]
    assert (item["since"], item["at_least"]) == (before["since"], False)
    assert "the last consumer disconnected" in item["detail"]


@pytest.mark.parametrize(("backlog", "is_same"), [(70_000, True), (69_999, False)])
def test_a_topic_at_rest_keeps_its_begin_across_a_restart_without_consumers(
    console: Console, backlog: int, is_same: bool
) -> None:
    def rest(board: Console, entries: int) -> None:
        board.topics.catalog({T + "old": 0}, ())
        names = board.topics.due(board.now, 10)
        row = [names[0], 2, entries, 9]
        board.topics.apply_at_rest({"at": board.now, "rows": [row], "missing": []})
        board.found()
        board.now += HOLD_MS

    rest(console, 70_000)
    [before] = console.found()["items"]
    assert before["at_least"], "the begin is unknown"
    again = restarted(console)
    rest(again, backlog)
    [item] = again.found()["items"]
    assert (item["since"] == before["since"], item["at_least"]) == (is_same, True)


def test_a_part_that_never_answered_is_down_at_least_since_it_was_asked(console: Console) -> None:
    console.hops.failed(Kind.STORE, slow=False)
    console.hops.answered(Kind.BROKER, "b:1")
    console.hops.failed(Kind.BROKER, "b:1", slow=False)
    at_least = {item["cause"]: item["at_least"] for item in console.found()["items"]}
    assert at_least == {"store-down": True, "broker-down": False}


def test_a_topic_that_moved_has_the_time_since_when_it_has_no_consumer(console: Console) -> None:
    console.lag("a", "s", "no-consumer", left_ms=0)
    [item] = console.found()["items"]
    assert "no consumer since the topic was loaded at 1970-01-12T13:45:40Z" in item["detail"]
