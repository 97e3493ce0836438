"""Objects that meet a condition, those that do not, and those of which that is not known."""

from typing import Any

import pytest

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS, SubscriptionCell
from gateway.alerts.conditions import OBJECTS_MAX
from gateway.services.feeds.row_list import RowChanges
from gateway.services.geo.link_figures import LinkFigures
from gateway.services.index.rows import LAST, LIVE
from tests.unit.gateway.alerts.conftest import Alerts, T

BACKLOG: dict[str, Any] = {"kind": "topic", "figure": "backlog", "threshold": 100}


def test_topics_beyond_a_threshold_meet_it_within_the_scope(alerts: Alerts) -> None:
    for name, messages in (("a", 500), ("b", 100), ("c", 101)):
        alerts.topic(name, backlog=messages, backlog_messages=messages)
    alerts.full("persistent://u/n/d", backlog=900, backlog_messages=900)
    assert [match.topic for match in alerts.outcome(**BACKLOG).matches] == [
        "persistent://u/n/d",
        T + "a",
        T + "c",
    ]
    assert [match.topic for match in alerts.outcome(**BACKLOG, scope="t").matches] == [
        T + "a",
        T + "c",
    ]
    (match,) = alerts.outcome(**BACKLOG, scope=T + "c").matches
    assert match.detail == "backlog 101 messages, above 100 messages"
    assert match.link == "/c/c/t/t/n/c/overview"
    below = alerts.outcome(kind="topic", figure="backlog", threshold=101, op="below", scope="t/n")
    assert [match.topic for match in below.matches] == [T + "b"]


def test_a_silent_brokers_figures_neither_meet_a_condition_nor_fail_it(alerts: Alerts) -> None:
    alerts.topic("a", backlog=500, backlog_messages=500)
    for _ in alerts.topics.set_silent("b:1", True):
        pass
    outcome = alerts.outcome(**BACKLOG)
    assert (list(outcome.matches), outcome.holds(T + "a")) == ([], None)
    assert outcome.problem == "the figures of 1 of 1 topics are not known now"
    assert outcome.holds(T + "deleted") is False
    alerts.topics.begin()
    assert alerts.outcome(**BACKLOG).holds(T + "deleted") is None, "a broker may have it"


def test_totals_with_an_unknown_part_are_not_compared(alerts: Alerts) -> None:
    alerts.topic("a", backlog=50, backlog_messages=50)
    rule = {"kind": "totals", "figure": "backlog", "threshold": 20}
    assert [match.value for match in alerts.outcome(**rule).matches] == [50]
    assert alerts.outcome(**rule, scope="t/other").holds("") is False
    alerts.current = False
    outcome = alerts.outcome(**rule)
    assert (list(outcome.matches), outcome.holds("")) == ([], None)
    assert outcome.problem == "not every broker and the metadata store answer"


def test_the_age_of_the_oldest_message_is_compared_in_seconds(alerts: Alerts) -> None:
    alerts.topic("old", backlog=1, backlog_messages=1, oldest_at=alerts.now - 400_000)
    alerts.topic("empty")
    alerts.topic("unmeasured", backlog=1, backlog_messages=1, oldest_at=OLDEST_UNKNOWN)
    rule = {"kind": "topic", "figure": "oldest_age", "threshold": 300}
    outcome = alerts.outcome(**rule)
    assert [match.topic for match in outcome.matches] == [T + "old"]
    assert outcome.holds(T + "empty") is False
    assert outcome.holds(T + "unmeasured") is None


def test_subscriptions_are_compared_over_their_partitions(alerts: Alerts) -> None:
    alerts.topics.catalog({T + "p": 2}, [])
    for index, backlog in enumerate((60, 70)):
        part = f"p-partition-{index}"
        alerts.topic(part, backlog=backlog, backlog_messages=backlog)
        cells = [SubscriptionCell("s", backlog, 0), SubscriptionCell("quiet", 3, 0)]
        row = [T + part, *map(list, cells)]
        alerts.findings.apply("b:1", RowChanges(1, [row], []))
    outcome = alerts.outcome(kind="subscription", figure="backlog", threshold=100)
    assert [(match.subscription, match.value) for match in outcome.matches] == [("s", 130)]
    assert outcome.holds(f"{T}p\nquiet") is False
    below = {"kind": "subscription", "figure": "backlog", "threshold": 1, "op": "below"}
    idle = alerts.outcome(**below, scope=T + "p", subscription="drained")
    assert [match.value for match in idle.matches] == [0]


def test_subscriptions_of_a_topic_at_rest_are_as_they_are_stored(alerts: Alerts) -> None:
    parts = [f"{T}p-partition-0", f"{T}p-partition-1"]
    alerts.topics.catalog({T + "p": 2}, [])
    assert sorted(alerts.topics.due(alerts.now, 5)) == parts
    rows = [[part, 1, backlog, 10] for part, backlog in zip(parts, (60, 70), strict=True)]
    alerts.topics.apply_at_rest({"at": alerts.now, "rows": rows, "missing": []})
    rule = {"kind": "subscription", "figure": "backlog", "threshold": 100, "scope": T + "p"}
    unread = alerts.outcome(**rule)
    assert (list(unread.matches), unread.holds(f"{T}p\ns")) == ([], None)
    assert "not known now" in unread.problem
    for part, backlog in zip(parts, (60, 70), strict=True):
        alerts.subscriptions.place(part, T + "p")
        alerts.subscriptions.read_at_rest(part, {"s": backlog})
    outcome = alerts.outcome(**rule)
    assert [(match.subscription, match.value) for match in outcome.matches] == [("s", 130)]
    assert (outcome.problem, outcome.holds(f"{T}p\ns")) == ("", True)
    alerts.subscriptions.read_at_rest(parts[0], {"s": None})
    assert alerts.outcome(**rule).holds(f"{T}p\ns") is None


def test_a_link_that_a_broker_does_not_report_is_unknown(alerts: Alerts) -> None:
    def link(known: int) -> LinkFigures:
        return LinkFigures("eu", 3, 1, 500, None, 0, 0, [], 0, 0, 0, known, [], 0)

    rule = {"kind": "link", "figure": "backlog", "threshold": 100}
    alerts.links = [link(LIVE)]
    assert [match.value for match in alerts.outcome(**rule).matches] == [500]
    assert alerts.outcome(kind="link", figure="oldest_age", threshold=1).holds("eu") is None
    alerts.links = [link(LAST)]
    outcome = alerts.outcome(**rule)
    assert (list(outcome.matches), outcome.holds("eu")) == ([], None)
    assert outcome.problem == "the figures of the link to eu are not known now"
    assert alerts.outcome(**rule, remote="us").problem == "no topic is replicated with us"


def bookie_line(name: str, **more: Any) -> dict[str, Any]:
    values = {"at": 1, "since": 1, "free_bytes": 30, "total_bytes": 100, "ledgers": 5}
    values |= {"stored_bytes": 60, "usage": 0.7, "state": "writable", "known": "live"}
    return {"id": name, **values, **more}


def test_bookies_are_compared_by_what_they_report_now(alerts: Alerts) -> None:
    alerts.bookies = [
        bookie_line("full", usage=0.92, free_bytes=8),
        bookie_line("half", usage=0.5),
        bookie_line("silent", usage=0.99, known="last"),
        bookie_line("never", known="no", at=0, usage=None),
    ]
    rule = {"kind": "bookie", "figure": "usage", "threshold": 85}
    outcome = alerts.outcome(**rule)
    assert [(match.object, match.value) for match in outcome.matches] == [("full", 92)]
    assert [outcome.holds(name) for name in ("full", "half", "silent", "never")] == [
        True,
        False,
        None,
        None,
    ]
    assert outcome.problem == "the figure of bookie silent, never is not known now"
    assert "used of its fullest disk 92 %, above 85 %" in outcome.matches[0].detail
    of_one = alerts.outcome(**rule, part="half")
    assert (list(of_one.matches), of_one.problem) == ([], "")
    assert alerts.outcome(**rule, part="gone").problem == "there is no bookie gone"
    used = alerts.outcome(kind="bookie", figure="used_bytes", threshold=75)
    assert [match.object for match in used.matches] == ["full"]


def test_a_bookie_that_is_read_only_meets_a_rule_and_one_that_is_down_is_unknown(
    alerts: Alerts,
) -> None:
    alerts.bookies = [
        bookie_line("a", state="read-only"),
        bookie_line("b"),
        bookie_line("c", state="down", known="last"),
    ]
    outcome = alerts.outcome(kind="bookie", figure="read_only", threshold=0)
    assert [match.object for match in outcome.matches] == ["a"]
    assert [outcome.holds(name) for name in "abc"] == [True, False, None]


def test_the_time_without_a_report_is_known_also_of_parts_that_never_reported(
    alerts: Alerts,
) -> None:
    def line(name: str, **more: Any) -> dict[str, Any]:
        values = {"known": "last", "since": alerts.now, "state": "down", "topics": 3}
        return {"id": name, "at": alerts.now - 90_000, **values, **more}

    alerts.brokers = [
        line("live", known="live"),
        line("silent"),
        line("never", known="no", at=0, since=alerts.now - 60_000),
    ]
    outcome = alerts.outcome(kind="broker", figure="report_age", threshold=30)
    assert [match.object for match in outcome.matches] == ["silent", "never"]
    assert (outcome.holds("live"), outcome.problem) == (False, "")
    topics = alerts.outcome(kind="broker", figure="topics", threshold=0)
    assert [match.object for match in topics.matches] == ["live"], "the last count is not now's"
    assert topics.holds("silent") is None
    alerts.brokers = []
    assert alerts.outcome(kind="broker", figure="topics").problem == "no broker is known"
    assert alerts.outcome(kind="broker", figure="report_age").holds("silent") is False
    alerts.current = False
    assert alerts.outcome(kind="broker", figure="report_age").holds("silent") is None


def test_items_that_need_attention_meet_a_rule_by_cause_severity_and_scope(alerts: Alerts) -> None:
    alerts.topic("a", backlog=500)
    alerts.lag("a", "s", "no-consumer", left_ms=1)
    alerts.lag("b", "slow", "slow", severity="info")
    alerts.brokers = []
    outcome = alerts.outcome(kind="attention")
    assert {match.title for match in outcome.matches} == {
        "No broker is registered",
        "s has no consumer",
    }
    assert [
        match.subscription for match in alerts.outcome(kind="attention", scope="t").matches
    ] == ["s"]
    assert not alerts.outcome(kind="attention", scope="u").matches
    assert not alerts.outcome(kind="attention", causes=["held"]).matches
    gone = "no-consumer\npersistent://t/n/x\ns"
    assert outcome.holds(gone) is False
    alerts.settled = False
    outcome = alerts.outcome(kind="attention")
    assert outcome.holds(gone) is None, "an absent item means nothing until all are observed"
    assert outcome.holds(outcome.matches[0].object) is True


def test_objects_beyond_the_bound_are_counted(alerts: Alerts) -> None:
    rows = [[f"{T}t{index}", *([500] * len(ROW_COLUMNS))] for index in range(OBJECTS_MAX + 30)]
    alerts.topics.apply("b:1", RowChanges(alerts.now, rows, []))
    outcome = alerts.outcome(**BACKLOG)
    assert (len(outcome.matches), outcome.more) == (OBJECTS_MAX, 30)


def test_an_evaluation_looks_at_the_topics_that_meet_it_and_one_more(
    alerts: Alerts, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[f"{T}t{index}", *([index] * len(ROW_COLUMNS))] for index in range(5_000)]
    alerts.topics.apply("b:1", RowChanges(alerts.now, rows, []))
    seen: list[str] = []
    certain = alerts.topics.certain

    def counted(name: str) -> Any:
        seen.append(name)
        return certain(name)

    monkeypatch.setattr(alerts.topics, "certain", counted)
    assert len(alerts.outcome(**BACKLOG | {"threshold": 4_995}).matches) == 4
    assert len(seen) == 5
