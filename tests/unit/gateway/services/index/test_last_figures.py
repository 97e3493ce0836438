"""Figures of topics that move, rest or whose broker does not answer."""

from engine.admin.api.rows import ROW_COLUMNS
from engine.auth.viewer import ALL
from gateway.services.index.due import REFRESH_MS, RETRY_MS
from gateway.services.index.rows import KNOWN, LAST
from gateway.services.index.selection import Chosen
from gateway.services.index.topic_index import TopicIndex
from tests.support.admin.index_reports import T, answer, rest, row, values


def test_a_topic_that_moves_is_counted_once_and_never_missing() -> None:
    index = TopicIndex()
    index.catalog({f"{T}m": 0}, [])
    index.apply("old", answer(10, [f"{T}m", *values(backlog=5)]))
    index.apply("new", answer(12, [f"{T}m", *values(backlog=6)]))
    assert (index.sums.totals(ALL)["backlog"], row(index, "m")["at"]) == (6, 12)
    index.apply("old", answer(11, [f"{T}m", *values(backlog=4)]))  # late: it came before
    assert index.sums.totals(ALL)["backlog"] == 6
    index.apply("old", answer(13, gone=(f"{T}m",)))
    assert (index.sums.totals(ALL)["backlog"], row(index, "m")["loaded"]) == (6, True)
    index.apply("new", answer(14, gone=(f"{T}m",)))
    assert (row(index, "m")["backlog"], row(index, "m")["loaded"]) == (6, False)
    assert index.sums.totals(ALL)["topics"] == 1


def test_a_move_reported_in_the_other_order_ends_at_the_new_owner() -> None:
    index = TopicIndex()
    index.apply("new", answer(12, [f"{T}m", *values(backlog=6)]))
    index.apply("old", answer(10, [f"{T}m", *values(backlog=5)]))
    index.apply("old", answer(13, gone=(f"{T}m",)))
    assert (index.sums.totals(ALL)["backlog"], index.sums.totals(ALL)["topics"]) == (6, 1)


def test_topics_not_read_are_unknown_and_counted_so_in_the_totals() -> None:
    index = TopicIndex()
    index.catalog({f"{T}x": 0, f"{T}p": 2}, [])
    assert index.sums.totals(ALL)["unknown"] == 2
    assert [row(index, "x")[field] for field in ("backlog", "producers")] == [None, 0]
    names = index.due(1000, 100)
    assert sorted(names) == [f"{T}p-partition-0", f"{T}p-partition-1", f"{T}x"]
    answered = rest(7, [f"{T}x", 2, 9, 100], [f"{T}p-partition-0", 1, 3, 50])
    index.apply_at_rest({**answered, "missing": [f"{T}p-partition-1"]})
    assert index.sums.totals(ALL)["unknown"] == 0
    assert (index.sums.totals(ALL)["backlog"], index.sums.totals(ALL)["storage_bytes"]) == (12, 150)
    assert [row(index, "x")[field] for field in ("subscriptions", "backlog", "loaded", "at")] == [
        *(2, 9, False, 7)
    ]
    assert index.due(1000, 100) == []
    assert len(index.due(7 + REFRESH_MS, 100)) == 3, "another client may have used them"


def test_a_non_persistent_topic_that_is_not_loaded_holds_nothing() -> None:
    index = TopicIndex()
    index.catalog({"non-persistent://t/n/p": 2}, [])
    assert index.sums.totals(ALL)["unknown"] == 0
    assert index.due(0, 100) == []


def test_figures_that_could_not_be_read_are_retried_later() -> None:
    index = TopicIndex()
    index.catalog({f"{T}x": 0, f"{T}y": 0}, [])
    names = index.due(1000, 1)
    index.postpone(names, 1000)
    assert index.due(1000, 5) == [f"{T}y"]
    index.apply_at_rest(rest(1000, [f"{T}y", 1, None, 5]))
    assert index.due(1000 + RETRY_MS - 1, 5) == []
    assert index.due(1000 + RETRY_MS, 5) == [f"{T}x", f"{T}y"]


def test_figures_read_before_a_topic_was_used_again_are_dropped() -> None:
    index = TopicIndex()
    index.catalog({f"{T}x": 0}, [])
    (name,) = index.due(0, 5)
    index.apply("b", answer(20, [name, *values(backlog=7)]))
    index.apply("b", answer(21, gone=(name,)))
    index.apply_at_rest(rest(19, [name, 1, 1, 1]))
    assert row(index, "x")["backlog"] == 7
    assert index.due(0, 5) == [name]


def test_a_topic_loaded_and_unloaded_unseen_is_read_again() -> None:
    index = TopicIndex()
    index.catalog({f"{T}x": 0}, [])
    index.apply_at_rest(rest(5, *([name, 1, 1, 1] for name in index.due(0, 5))))
    index.apply("b", answer(20, gone=(f"{T}x",)))
    assert index.due(20, 5) == [f"{T}x"]


def test_topics_of_a_silent_broker_keep_their_last_figures_until_it_answers_or_is_gone() -> None:
    for end in ("answers", "goes"):
        index = TopicIndex()
        index.catalog({f"{T}x": 0, f"{T}y": 0}, [])
        reported = values(backlog=2, producers=1, msg_rate_in=500)
        index.apply("b", answer(5, *([f"{T}{name}", *reported] for name in "xy")))
        index.apply("b", answer(6, ["non-persistent://t/n/z", *reported]))
        assert row(index, "x")["known"] == "live"
        version = index.version
        list(index.set_silent("b", True))
        assert index.version > version, "it is news"
        x = row(index, "x")
        assert [
            x[it] for it in ("known", "loaded", "backlog", "producers", "msg_rate_in", "at")
        ] == [*("last", None, 2, 1, 0.5, 6)]
        totals = index.sums.totals(ALL)
        assert [totals[it] for it in ("topics", "unknown", "last", "backlog")] == [3, 0, 3, 6]
        assert index.due(10**6, 5) == [], "it may have them loaded"
        if end == "answers":
            others = (f"{T}y", "non-persistent://t/n/z")
            index.apply("b", answer(9, [f"{T}x", *values(backlog=3)], gone=others))
            list(index.set_silent("b", False))
            assert (row(index, "x")["backlog"], row(index, "x")["known"]) == (3, "live")
            assert (row(index, "y")["backlog"], row(index, "y")["known"]) == (2, "last")
            assert index.due(10**6, 5) == [f"{T}y"]
        else:
            list(index.forget("b"))
            x = row(index, "x")
            assert (x["known"], x["loaded"], x["backlog"], x["producers"]) == ("last", False, 2, 0)
            assert index.sums.totals(ALL)["topics"] == 2, "what keeps nothing is gone"
            index.apply_at_rest(rest(9, *([name, 1, 2, 3] for name in index.due(10**6, 5))))
            assert (row(index, "x")["known"], row(index, "x")["at"]) == ("at_rest", 9)
            assert index.sums.totals(ALL)["last"] == 0


def test_a_figure_that_cannot_be_read_does_not_take_the_last_one_away() -> None:
    index = TopicIndex()
    index.catalog({f"{T}x": 0}, [])
    index.apply_at_rest(rest(5, *([name, 1, 4, 9] for name in index.due(0, 5))))
    assert index.due(5 + REFRESH_MS, 5) == [f"{T}x"]
    index.apply_at_rest(rest(10**6, [f"{T}x", 1, None, 9]))
    x = row(index, "x")
    assert (x["known"], x["backlog"], x["at"]) == ("last", 4, 5)
    index.apply("b", answer(20, [f"{T}x", *values(backlog=None)]))  # it is just being loaded
    x = row(index, "x")
    assert (x["known"], x["backlog"], x["at"], x["loaded"]) == ("last", 4, 5, True)
    index.apply("b", answer(21, [f"{T}x", *values(backlog=6)]))
    x = row(index, "x")
    assert (x["known"], x["backlog"], x["at"]) == ("live", 6, 21)


def test_a_topic_has_unknown_clients_until_every_broker_has_reported() -> None:
    index = TopicIndex()
    index.begin()
    index.catalog({f"{T}x": 0, "non-persistent://t/n/p": 2}, [])
    assert (row(index, "x")["known"], row(index, "x")["loaded"]) == ("no", None)
    assert index.sums.totals(ALL)["unknown"] == 2
    index.apply_at_rest(rest(5, *([name, 1, 4, 9] for name in index.due(0, 5))))
    x = row(index, "x")
    assert (x["known"], x["backlog"], x["producers"], x["loaded"]) == ("last", 4, None, None)
    list(index.become_complete())
    x = row(index, "x")
    assert (x["known"], x["backlog"], x["producers"], x["loaded"]) == ("at_rest", 4, 0, False)
    assert index.row("non-persistent://t/n/p", 9)["known"] == "at_rest"


def test_figures_of_an_earlier_life_are_shown_until_there_are_others() -> None:
    index = TopicIndex()
    index.begin()
    index.catalog({f"{T}x": 0}, [])
    figures = tuple(range(len(ROW_COLUMNS)))
    index.recall({f"{T}x": (3, figures), f"{T}p": (4, figures)})
    index.catalog({f"{T}p": 2}, [])
    for name, at in (("x", 3), ("p", 4)):
        shown = row(index, name)
        assert (shown["known"], shown["backlog"], shown["at"], shown["loaded"]) == (
            "last",
            7,
            at,
            None,
        )
    index.apply("b", answer(8, [f"{T}x", *values(backlog=1)]))
    assert (row(index, "x")["known"], row(index, "x")["backlog"]) == ("live", 1)
    assert KNOWN[LAST] == "last"


def test_a_growing_topic_keeps_what_is_known_of_its_partitions() -> None:
    index = TopicIndex()
    index.catalog({f"{T}p": 1}, [])
    index.apply_at_rest(rest(5, *([name, 1, 4, 1] for name in index.due(0, 5))))
    assert index.select(ALL, Chosen(sort="-partitions")).names() == [f"{T}p"]
    index.catalog({f"{T}p": 2}, [])
    assert (row(index, "p")["backlog"], row(index, "p")["known"]) == (4, "last")
    assert index.due(0, 5) == [f"{T}p-partition-1"]
    index.apply_at_rest(rest(5, missing=(f"{T}p-partition-1",)))
    assert (row(index, "p")["backlog"], row(index, "p")["partitions"]) == (4, 2)


def test_a_sum_is_as_old_as_its_oldest_part() -> None:
    index = TopicIndex()
    index.catalog({f"{T}p": 2}, [])
    index.apply("a", answer(50, [f"{T}p-partition-0", *values(backlog=3, msg_rate_in=1500)]))
    index.apply("b", answer(60, [f"{T}p-partition-1", *values(backlog=4, msg_rate_in=2500)]))
    shown = row(index, "p")
    assert (shown["backlog"], shown["msg_rate_in"], shown["partitions"]) == (7, 4.0, 2)
    assert (shown["at"], index.at) == (50, 60)


def test_an_unloaded_topic_keeps_its_messages_while_as_many_entries_are_stored() -> None:
    index = TopicIndex()
    index.catalog({f"{T}x": 0}, [])
    reported = values(backlog=212, backlog_messages=60_000, backlog_estimated=212, oldest_at=77)
    index.apply("b", answer(5, [f"{T}x", *reported]))
    index.apply("b", answer(6, gone=(f"{T}x",)))
    assert index.due(6, 5) == [f"{T}x"]
    index.apply_at_rest(rest(7, [f"{T}x", 1, 212, 9]))
    shown = row(index, "x")
    assert (shown["known"], shown["backlog_messages"], shown["oldest_at"]) == (
        *("at_rest", 60_000),
        77,
    )
    index.apply_at_rest(rest(8, [f"{T}x", 1, 213, 9]))
    shown = row(index, "x")
    assert (shown["backlog_messages"], shown["backlog_unmeasured"], shown["oldest_at"]) == (
        *(213, 213),
        None,
    )


def test_a_gateway_that_starts_again_knows_the_messages_of_topics_at_rest_by_what_it_recorded() -> (
    None
):
    index = TopicIndex()
    reported = values(backlog=212, backlog_messages=60_000, backlog_estimated=212, oldest_at=77)
    index.recall({f"{T}x": (3, tuple(reported))})
    index.catalog({f"{T}x": 0, f"{T}y": 0}, [])
    index.apply_at_rest(rest(7, *([name, 1, 212, 9] for name in index.due(6, 5))))
    assert (row(index, "x")["known"], row(index, "x")["backlog_messages"]) == ("at_rest", 60_000)
    assert row(index, "y")["backlog_unmeasured"] == 212
