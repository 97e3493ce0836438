"""The overview and the list of topics: findings of brokers, topics at rest, and hops."""

import pytest

from engine.admin.lag import LagCause
from engine.metadata.apart.routed import CONFIGURATION
from gateway.services.attention.at_rest import HOLD_MS, SETTLED_MS
from gateway.services.attention.board import AGES_MS
from gateway.services.attention.part_items import ASIDE_MS, Instance, part_items
from gateway.services.attention.wording import CAUSES, span
from gateway.services.feeds.row_list import RowChanges
from gateway.services.health.hops import Kind
from tests.support.admin.board_console import Console, T


def test_an_answer_without_findings_is_known(console: Console) -> None:
    answer = console.found()
    began = console.now
    assert answer == {"known": True, "since": began, "settled": False, "items": [], "more": 0}
    console.now += SETTLED_MS
    assert console.found() == answer | {"settled": True}
    assert console.found(known=False)["known"] is False


def test_no_finding_is_settled_only_after_all_topics_were_checked(console: Console) -> None:
    console.whole = False
    console.now += 10 * SETTLED_MS
    answer = console.found()
    assert (answer["since"], answer["settled"]) == (None, False)
    console.whole = True
    assert console.found()["since"] == console.now
    console.now += SETTLED_MS
    assert console.found()["settled"]
    console.whole = False
    assert not console.found()["settled"], "a broker connected that has not reported everything yet"
    console.whole = True
    assert console.found()["settled"], "and what the others had was looked at meanwhile"


def test_a_topic_that_moves_is_checked_again(console: Console) -> None:
    console.lag("a", "s", "slow")
    console.found()
    console.now += SETTLED_MS
    assert console.found()["settled"]
    changes = RowChanges(1, [[T + "a", ["s", 500, 0, None]]], [])
    console.findings.apply("b:2", changes)
    answer = console.found()
    assert (answer["items"], answer["since"], answer["settled"]) == ([], console.now, False)
    console.now += SETTLED_MS
    assert console.found()["settled"]
    console.findings.forget("b:2")
    assert console.found()["settled"], "nothing was found there"


def test_an_item_has_title_cause_advice_and_link(console: Console) -> None:
    console.topic("a b", backlog=1_500)
    seen = {"consumer": "c-1", "unacked": 1_000, "acked_ms": console.now - 125_000}
    console.lag("a b", "billing/é", "not-acknowledged", 1_500, growth=12_000, **seen)
    (item,) = console.found()["items"]
    assert item["title"] == "billing/é receives but does not acknowledge"
    assert item["detail"] == (
        "t/n/a b · backlog of 1,500 entries, growing by 12 entries/s"
        " · c-1: 1,000 unacknowledged, last acknowledged 2 min ago"
    )
    assert item["advice"]
    assert item["link"] == "/c/c/t/t/n/a%20b/subscriptions#billing%2F%C3%A9"
    assert (item["topic"], item["subscription"], item["count"]) == (T + "a b", "billing/é", 1)


def test_similar_problems_share_a_line(console: Console) -> None:
    for number in range(30):
        console.lag(f"t{number}", "s", "no-consumer", 500, left_ms=0)
    answer = console.found()
    assert len(answer["items"]) == 5
    group = answer["items"][-1]
    assert group["title"] == "26 subscriptions have no consumer: 13,000 entries"
    assert group["link"] == "/c/c/topics?attention=no-consumer"
    assert (group["count"], group["key"]) == (26, "no-consumer")
    assert answer["more"] == 0
    assert len(console.board.topics_of("no-consumer")) == 30
    assert len(console.board.topics_of("any")) == 30


def test_problems_without_a_line_are_counted(console: Console) -> None:
    for cause in ("no-consumer", "slow", "held", "redelivery", "hot-key", "no-permits"):
        for number in range(2):
            console.lag(f"{cause}{number}", "s", cause, 500)
    answer = console.found()
    assert (len(answer["items"]), answer["more"]) == (5, 2)
    console.hops.failed(Kind.STORE, slow=False)
    answer = console.found()
    assert answer["items"][0]["cause"] == "store-down"
    assert (len(answer["items"]), answer["more"]) == (5, 4)


def test_partitions_are_reported_as_their_topic(console: Console) -> None:
    console.topics.catalog({T + "p": 2}, ())
    for number in range(2):
        console.topic(f"p-partition-{number}", backlog=100)
        console.lag(
            f"p-partition-{number}", "s", "slow", 100, growth=3_000, rate_in=9.0, rate_out=6.0
        )
    (item,) = console.found()["items"]
    assert item["topic"] == T + "p"
    assert item["title"] == "s is slower than arrivals by 6.0 entries/s"
    assert (
        item["detail"] == "t/n/p · backlog of 200 entries · 9.0/s in, 6.0/s out · in 2 partitions"
    )
    assert list(console.board.topics_of("slow")) == [T + "p"]
    parts = [f"{T}p-partition-0", f"{T}p-partition-1"]
    assert console.board.lags(T + "p", parts, console.now)["s"] == {
        "cause": "slow",
        "severity": "warning",
        "title": "is slower than arrivals by 6.0 entries/s",
        "detail": "backlog of 200 entries · 9.0/s in, 6.0/s out · in 2 partitions",
        "advice": item["advice"],
        "since": item["since"],
        "at_least": item["at_least"],
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
    console.topics.apply_at_rest(
        {"at": console.now, "rows": [[names[0], 2, 70_000, 9]], "missing": []}
    )
    assert console.found()["items"] == [], "it may be on its way to another broker"
    console.now += HOLD_MS
    (item,) = console.found()["items"]
    assert item["title"] == "t/n/old has a backlog and no consumer"
    assert item["detail"] == "backlog of 70,000 entries · not loaded by any broker"
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
    assert first["detail"] == "3 topics were served there; figures are as last known"
    assert first["link"] == "/c/c/brokers"
    console.hops.failed(Kind.BROKER, "b:1", "has not reported for 7 s", slow=False)
    assert console.found()["items"][0]["title"] == "Broker b:1 does not answer"
    console.hops.failed(Kind.BROKER, "b:2", slow=True)
    assert console.found()["items"][0]["title"] == "Broker b:1 does not answer", "one is only late"
    console.hops.failed(Kind.BROKER, "b:2", "does not answer: refused", slow=False)
    assert console.found()["items"][0]["title"] == "2 brokers do not answer"


@pytest.mark.parametrize(
    ("kind", "id", "child"),
    [
        (Kind.BROKER, "127.0.0.1:8081", "127.0.0.1:8081"),
        (Kind.BOOKIE, "bookie-2", "bookie-2"),
        (Kind.STORE, "", "zookeeper"),
    ],
)
def test_a_part_that_is_down_has_the_command_that_starts_it(
    console: Console, kind: Kind, id: str, child: str
) -> None:
    console.hops.failed(kind, id, slow=False)
    [item] = console.found(start="standalone start")["items"]
    assert item["command"] == f"standalone start {child}"
    assert console.found()["items"][0]["command"] == "", "nothing supervises it"


def test_each_store_that_is_down_is_an_item_and_only_the_metadata_store_has_a_command(
    console: Console,
) -> None:
    console.hops.failed(Kind.STORE, CONFIGURATION, "cannot be reached", slow=False)
    [item] = console.found(start="standalone start")["items"]
    assert (item["cause"], item["command"]) == ("store-down-configuration", "")
    assert item["title"] == "The configuration store cannot be reached"
    assert (
        "what needs tenants, policies, clusters or partitioned topics is refused" in item["advice"]
    )
    console.hops.failed(Kind.STORE, slow=False)
    items = console.found(start="standalone start")["items"]
    assert [item["cause"] for item in items] == ["store-down", "store-down-configuration"]


def test_an_instance_without_brokers_has_the_command_that_starts_one(console: Console) -> None:
    console.brokers, console.bookies = [], []
    items = console.found(start="standalone start")["items"]
    assert {item["cause"]: item["command"] for item in items} == {
        "broker-none": "standalone start broker-1",
        "bookie-none": "standalone start bookie-1",
    }


def test_the_command_names_the_cluster_where_the_instance_has_several() -> None:
    items = part_items(
        Instance(part_prefix="eu."),
        "eu",
        0,
        stop=None,
        outage=None,
        producers=0,
        start="magnetar start",
    )
    commands = [item["command"] for item in items]
    assert commands == ["magnetar start eu.broker-1", "magnetar start eu.bookie-1"]


def test_an_instance_without_brokers_or_room(console: Console) -> None:
    console.brokers = []
    console.bookies = [{"id": "k:1", "state": "read-only", "usage": 0.824, "usage_limit": 0.5}]
    console.needs(1, 1)
    items = console.found()["items"]
    assert [item["title"] for item in items] == [
        "Nothing can be published: the only bookie is not writable",
        "No broker is registered",
        "Bookie k:1 is read-only",
    ]
    assert items[2]["detail"] == "Disk 82 % full, limit 50 %"
    assert (
        items[2]["advice"] == "Free space or add a disk. The bookie becomes writable automatically."
    )
    console.bookies = []
    assert "No bookie is registered" in [item["title"] for item in console.found()["items"]]


def test_problems_grow_older_though_nothing_changes(console: Console) -> None:
    console.lag("a", "s", "no-consumer")
    before = console.found()["items"][0]["score"]
    console.now += 10_000 * AGES_MS
    assert console.found()["items"][0]["score"] > before


def test_every_cause_has_words(console: Console) -> None:
    assert CAUSES.keys() == set(LagCause)
    for cause in LagCause:
        console.lag(f"t-{cause}", "s", cause, None)
    console.findings.apply("b:1", RowChanges(1, console.rows, []))
    answer = console.found()
    assert answer["more"] == len(LagCause) - 5
    assert all("is not known" in item["detail"] for item in answer["items"])


def test_spans_are_coarse() -> None:
    assert [span(n) for n in (3, 47, 61, 3_599, 3_600, 86_400, 172_800)] == [
        *("1 s", "40 s", "1 min", "59 min", "1 h", "24 h", "2 days")
    ]
