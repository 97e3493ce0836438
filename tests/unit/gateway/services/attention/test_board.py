"""What the overview and the list of topics show of brokers' findings, topics at rest, and hops."""

from typing import Any

import pytest

from engine.admin.api import ROW_COLUMNS
from engine.admin.lag import LagCause
from gateway.services.attention.board import (
    AGES_MS,
    ASIDE_MS,
    HOLD_MS,
    SETTLED_MS,
    Board,
    Found,
)
from gateway.services.attention.findings import Findings
from gateway.services.attention.wording import CAUSES, span
from gateway.services.health.hops import Hops, Kind
from gateway.services.index.topic_index import TopicIndex

T = "persistent://t/n/"
BOOKIES = [{"id": "k:1", "state": "writable"}]
BROKERS = [{"id": "b:1", "state": "up", "topics": 3}]


class Console:
    """A board over real indexes, at a time of the test's own."""

    def __init__(self) -> None:
        self.now = 1_000_000_000
        self.topics = TopicIndex()
        self.findings = Findings()
        self.board = Board(self.findings)
        self.hops = Hops(lambda: self.now)
        self.rows: list[list[Any]] = []
        self.whole = True

    def topic(self, name: str, *, partitions: int = 0, **values: int) -> None:
        row = [T + name, *(values.get(column, 0) for column in ROW_COLUMNS)]
        self.topics.hear(
            "b:1", {"at": self.now, "whole": False, "more": False, "rows": [row], "gone": []}
        )

    def lag(self, name: str, sub: str, cause: str, backlog: int | None = 500, **more: Any) -> None:
        severity = more.pop("severity", "warning")
        growth = more.pop("growth", 0)
        lag = [cause, severity, self.now - 60_000, growth, more]
        self.rows.append([T + name, [sub, backlog, 0, lag]])
        told = {"whole": False, "more": False, "rows": self.rows, "gone": []}
        self.findings.hear("b:1", told)

    def found(self, **changed: Any) -> Found:
        self.now += 1_000
        self.board.round(self.topics, self.now, whole=self.whole)
        given = {"known": True, "hops": self.hops.bad, "brokers": BROKERS, "bookies": BOOKIES}
        return self.board.found("c", self.now, **(given | changed))


@pytest.fixture
def console() -> Console:
    return Console()


def test_nothing_is_found_and_that_is_known(console: Console) -> None:
    said = console.found()
    began = console.now
    assert said == {"known": True, "since": began, "settled": False, "items": [], "more": 0}
    console.now += SETTLED_MS
    assert console.found() == said | {"settled": True}
    assert console.found(known=False)["known"] is False


def test_nothing_found_says_nothing_before_all_were_looked_at(console: Console) -> None:
    console.whole = False
    console.now += 10 * SETTLED_MS
    said = console.found()
    assert (said["since"], said["settled"]) == (None, False)
    console.whole = True
    assert console.found()["since"] == console.now
    console.now += SETTLED_MS
    assert console.found()["settled"]
    console.whole = False
    assert not console.found()["settled"], "a broker came that did not tell all yet"
    console.whole = True
    assert console.found()["settled"], "and what the others had was looked at meanwhile"


def test_a_topic_that_moves_is_looked_at_anew(console: Console) -> None:
    console.lag("a", "s", "slow")
    console.found()
    console.now += SETTLED_MS
    assert console.found()["settled"]
    told = {"whole": False, "more": False, "rows": [[T + "a", ["s", 500, 0, None]]], "gone": []}
    console.findings.hear("b:2", told)
    said = console.found()
    assert (said["items"], said["since"], said["settled"]) == ([], console.now, False)
    console.now += SETTLED_MS
    assert console.found()["settled"]
    console.findings.forget("b:2")
    assert console.found()["settled"], "nothing was found there"


def test_an_item_says_what_why_and_what_next_and_leads_there(console: Console) -> None:
    console.topic("a b", backlog=1_500)
    seen = {"consumer": "c-1", "unacked": 1_000, "acked_ms": console.now - 125_000}
    console.lag("a b", "billing/é", "not-acknowledged", 1_500, growth=12_000, **seen)
    (item,) = console.found()["items"]
    assert item["title"] == "billing/é receives but never acknowledges"
    assert item["detail"] == (
        "t/n/a b · 1,500 messages wait, 12/s more · c-1 holds 1,000, last acknowledged 2 min ago"
    )
    assert item["advice"]
    assert item["link"] == "/c/c/t/t/n/a%20b/subscriptions#billing%2F%C3%A9"
    assert (item["topic"], item["subscription"], item["count"]) == (T + "a b", "billing/é", 1)


def test_what_is_alike_shares_a_line(console: Console) -> None:
    for number in range(30):
        console.lag(f"t{number}", "s", "no-consumer", 500, left_ms=0)
    said = console.found()
    assert len(said["items"]) == 5
    group = said["items"][-1]
    assert group["title"] == "s has no consumer, and 25 more like it"
    assert (group["count"], group["key"]) == (26, "no-consumer")
    assert said["more"] == 0
    assert len(console.board.topics_of("no-consumer")) == 30
    assert len(console.board.topics_of("any")) == 30


def test_what_has_no_line_is_counted(console: Console) -> None:
    for cause in ("no-consumer", "slow", "held", "redelivery", "hot-key", "no-permits"):
        for number in range(2):
            console.lag(f"{cause}{number}", "s", cause, 500)
    said = console.found()
    assert (len(said["items"]), said["more"]) == (5, 2)
    console.hops.failed(Kind.STORE, slow=False)
    said = console.found()
    assert said["items"][0]["cause"] == "store-down"
    assert (len(said["items"]), said["more"]) == (5, 4)


def test_partitions_are_told_as_their_topic(console: Console) -> None:
    console.topics.catalog({T + "p": 2}, ())
    for number in range(2):
        console.topic(f"p-partition-{number}", backlog=100)
        console.lag(
            f"p-partition-{number}", "s", "slow", 100, growth=3_000, rate_in=9.0, rate_out=6.0
        )
    (item,) = console.found()["items"]
    assert item["topic"] == T + "p"
    assert item["title"] == "s is slower than arrivals by 6.0/s"
    assert item["detail"] == "t/n/p · 200 messages wait · 9.0/s in, 6.0/s out · in 2 partitions"
    assert list(console.board.topics_of("slow")) == [T + "p"]
    parts = [f"{T}p-partition-0", f"{T}p-partition-1"]
    assert console.board.lags(T + "p", parts, console.now)["s"] == {
        "cause": "slow",
        "severity": "warning",
        "title": "is slower than arrivals by 6.0/s",
        "detail": "200 messages wait · 9.0/s in, 6.0/s out · in 2 partitions",
        "advice": item["advice"],
        "since": item["since"],
    }


def test_the_list_knows_the_worst_cause_of_a_topic(console: Console) -> None:
    console.lag("a", "small", "slow", 200)
    console.rows[0].append(["large", 9_000, 0, ["held", "error", console.now, 0, {}]])
    console.lag("b", "s", "delayed", 9_000, severity="info", delayed=9_000)
    before = console.board.version
    console.found()
    assert console.board.cause_of(T + "a") == ("error", "held")
    assert console.board.cause_of(T + "b") == ("info", "delayed")
    assert console.board.cause_of(T + "c") is None
    assert list(console.board.topics_of("delayed")) == [T + "b"]
    assert list(console.board.topics_of("any")) == [T + "a"], "what waits for its time is well"
    assert console.board.version == before + 1
    console.found()
    assert console.board.version == before + 1, "the same causes of the same topics"


def test_a_topic_that_no_broker_has_and_that_holds_a_backlog(console: Console) -> None:
    console.topics.catalog({T + "old": 0}, ())
    names = console.topics.due(console.now, 10)
    console.topics.rested({"at": console.now, "rows": [[names[0], 2, 70_000, 9]], "missing": []})
    assert console.found()["items"] == [], "it may be on its way to another broker"
    console.now += HOLD_MS
    (item,) = console.found()["items"]
    assert item["title"] == "t/n/old has a backlog and no consumer"
    assert item["detail"] == "70,000 messages wait · no broker has it loaded"
    assert list(console.board.topics_of("no-consumer")) == [T + "old"]
    console.topic("old", backlog=70_000, consumers=1)
    assert console.found()["items"] == [], "a broker has it: that one says what is wrong"
    assert not console.found()["settled"], "when it has looked"


def test_hops_come_first_those_that_only_the_console_needs_do_not(console: Console) -> None:
    console.lag("a", "s", "no-consumer", 1_000_000)
    console.hops.failed(Kind.REDIS, slow=False)
    assert [item["cause"] for item in console.found()["items"]] == ["no-consumer"], "it may start"
    console.now += 2 * ASIDE_MS
    console.hops.failed(Kind.BROKER, "b:1", slow=False)
    causes = [(item["severity"], item["cause"]) for item in console.found()["items"]]
    assert causes == [
        ("error", "broker-down"),
        ("warning", "no-consumer"),
        ("warning", "redis-down"),
    ]
    first = console.found()["items"][0]
    assert first["title"] == "Broker b:1 does not answer"
    assert first["detail"] == "3 topics were there; their figures are the last known."
    console.hops.failed(Kind.BROKER, "b:2", slow=True)
    assert console.found()["items"][0]["title"] == "2 brokers do not answer"


def test_an_instance_without_brokers_or_room(console: Console) -> None:
    bookies = [{"id": "k:1", "state": "read-only"}]
    titles = [item["title"] for item in console.found(brokers=[], bookies=bookies)["items"]]
    assert titles == [
        "No broker is registered",
        "No bookie is writable",
        "Bookie k:1 is read-only",
    ]


def test_problems_grow_older_though_nothing_changes(console: Console) -> None:
    console.lag("a", "s", "no-consumer")
    before = console.found()["items"][0]["score"]
    console.now += 10_000 * AGES_MS
    assert console.found()["items"][0]["score"] > before


def test_every_cause_has_words(console: Console) -> None:
    assert CAUSES.keys() == set(LagCause)
    for cause in LagCause:
        console.lag(f"t-{cause}", "s", cause, None)
    console.findings.hear("b:1", {"whole": False, "more": False, "rows": console.rows, "gone": []})
    said = console.found()
    assert said["more"] == len(LagCause) - 5
    assert all("is not known" in item["detail"] for item in said["items"])


def test_spans_are_coarse() -> None:
    assert [span(n) for n in (3, 47, 61, 3_599, 3_600, 86_400, 172_800)] == [
        *("1 s", "40 s", "1 min", "59 min", "1 h", "24 h", "2 days")
    ]
