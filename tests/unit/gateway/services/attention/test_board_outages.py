"""The overview while no topic can be published to, and after many clients left together."""

import pytest

from gateway.services.attention.at_rest import HOLD_MS
from gateway.services.attention.board import TopicCause
from gateway.services.attention.outages import KEPT_MS
from gateway.services.feeds.row_list import RowChanges
from gateway.services.health.hops import Kind
from tests.support.admin.board_console import Console, T


@pytest.fixture
def three(console: Console) -> Console:
    """Three bookies, quorums 3/3/2, and 211 producers on as many topics."""
    console.bookies = []
    for number in (1, 2, 3):
        console.bookie(number, "writable")
    console.needs(3, 2, topics=211)
    for number in range(211):
        console.topic(f"t{number}", producers=1)
    assert console.causes() == [], "nothing is said while all are writable"
    return console


def test_that_nothing_can_be_published_is_the_first_of_all(three: Console) -> None:
    three.bookie(3, "read-only", usage=0.6, usage_limit=0.5)
    [first, second] = three.found()["items"]
    assert (first["title"], first["severity"]) == (
        "Publishing stops if one more bookie fails",
        "error",
    )
    assert first["detail"] == (
        "2 of 3 bookies are writable; publishing needs 2, a new ledger 3"
        " · no new ledger can be opened: publishing fails where one is needed or a topic is loaded"
    )
    assert second["cause"] == "bookie-read-only"
    three.hops.failed(Kind.BOOKIE, "bookie-1", "is gone (no longer registered)", slow=False)
    three.bookie(1, "down")
    for number in range(211):
        three.topic(f"t{number}", producers=0)
    first = three.found(start="standalone start")["items"][0]
    assert (first["severity"], first["cause"]) == ("error", "publishing-stopped")
    assert first["title"] == "Nothing can be published: 1 of 3 bookies is writable"
    assert first["detail"] == (
        "Publishing needs 2, a new ledger 3 · 211 producers disconnected since 1970-01-12T13:46:43Z"
    )
    assert (first["since"], first["at_least"]) == (three.now, False)
    assert first["advice"] == "Start bookie-1, or free space on bookie-3."
    assert first["command"] == "standalone start bookie-1"
    assert first["link"] == "/c/c/bookies"
    assert three.board.cause_of(T + "t1") == ("error", "unwritable")
    assert three.board.cause_of("non-persistent://t/n/x") is None
    three.bookie(1, "writable")
    three.bookie(3, "writable")
    assert "publishing-stopped" not in three.causes()
    trouble = three.board.trouble_of(T + "t1")
    assert trouble is not None
    assert trouble["cause"] == TopicCause.PRODUCERS_LEFT, "they are not back yet"


def test_a_publishing_outage_seen_at_the_first_check_may_be_older(
    console: Console,
) -> None:
    console.bookies = [{"id": "k:1", "state": "down"}]
    console.needs(1, 1, topics=1)
    first = console.found()["items"][0]
    assert (first["cause"], first["at_least"]) == ("publishing-stopped", True)


def test_a_bookie_that_is_late_still_counts(three: Console) -> None:
    three.bookie(1, "slow")
    three.bookie(2, "slow")
    assert three.causes() == []


def test_namespaces_that_need_more_bookies_than_others_are_counted(
    three: Console,
) -> None:
    three.needs(3, 3, topics=40, broker="b:2")
    three.bookie(3, "down")
    [first, *_] = three.found()["items"]
    assert first["title"] == "40 of 251 topics cannot be published to: 2 of 3 bookies are writable"
    assert three.board.trouble_of(T + "t1") is None, "which of them is not known"


@pytest.fixture
def busy(console: Console) -> Console:
    """20 topics with clients and a backlog, and one whose consumer left an hour ago."""
    for number in range(20):
        console.topic(f"t{number}", producers=1, consumers=1, backlog=500)
    console.lag("archive", "archiver", "no-consumer", left_ms=console.now - 3_600_000)
    console.rows[0][1][3][2] = console.now - 3_600_000
    console.findings.apply("b:1", RowChanges(1, console.rows, []))
    console.found(1 + KEPT_MS // 1_000)
    return console


def lose(console: Console, clients: int = 0) -> None:
    """Load all topics again, with the clients of the first few of them."""
    console.rows = []
    for number in range(20):
        here = int(number < clients)
        console.topic(f"t{number}", producers=here, consumers=here, backlog=500)
        if not here:
            console.lag(f"t{number}", "s", "no-consumer", left_ms=0)
            console.rows[-1][1][3][2] = console.now
    console.lag("archive", "archiver", "no-consumer", left_ms=0)
    console.rows[-1][1][3][2] = console.now
    console.report_all()


def test_clients_that_left_together_are_one_problem(busy: Console) -> None:
    [archiver] = busy.found()["items"]
    assert "delete it" in archiver["advice"]
    busy.hops.failed(Kind.STORE, slow=False)
    busy.found(3)
    lose(busy)
    busy.hops.answered(Kind.STORE)
    left, quiet = busy.found(12)["items"]
    assert left["title"] == (
        "40 of 40 clients disconnected when brokers lost their sessions with the metadata store; none has reconnected"
    )
    assert (left["severity"], left["cause"]) == ("error", "clients-left")
    assert quiet["subscription"] == "archiver", "it had no consumer before"
    assert quiet["since"] == archiver["since"], "the same problem, though its topic was loaded anew"
    assert "the last consumer disconnected 1 h ago" in quiet["detail"]
    assert "delete" not in quiet["advice"]
    assert busy.board.lags(T + "t1", [T + "t1"], busy.now) == {}
    busy.lag("t2", "other", "no-permits")
    busy.rows[-1][1][3][2] = busy.now
    busy.lag("t3", "other", "redelivery")
    busy.rows[-1][1][3][2] = busy.now
    assert busy.causes() == ["clients-left", "no-consumer", "redelivery"]
    assert busy.board.lags(T + "archive", [T + "archive"], busy.now)["archiver"]["advice"] == (
        "Start its consumer."
    )
    trouble = busy.board.trouble_of(T + "t1")
    assert trouble is not None
    assert trouble["cause"] == TopicCause.PRODUCERS_LEFT
    lose(busy, clients=3)
    assert "; 6 have reconnected" in busy.found()["items"][0]["title"]
    assert busy.board.trouble_of(T + "t1") is None
    lose(busy, clients=18)
    items = busy.found(2)["items"]
    assert {item["cause"] for item in items} == {"no-consumer"}, "nine of ten are back: the rest"
    assert not any("delete" in item["advice"] for item in items)
    busy.found(KEPT_MS // 1_000)
    assert all("delete it" in item["advice"] for item in busy.found()["items"])


def test_a_topic_without_an_owner_meanwhile_keeps_its_problem(busy: Console) -> None:
    busy.topics.catalog({T + "archive": 0} | {f"{T}t{number}": 0 for number in range(20)}, ())
    [archiver] = busy.found()["items"]
    busy.hops.failed(Kind.STORE, slow=False)
    busy.found(2)
    busy.rows = []
    busy.report_all()
    for _ in busy.topics.forget("b:1"):
        pass
    names = busy.topics.due(busy.now, 100)
    rows = [[name, 1, 500, 9] for name in names]
    busy.topics.apply_at_rest({"at": busy.now, "rows": rows, "missing": []})
    left, _, quiet = busy.found(1 + HOLD_MS // 1_000)["items"]
    assert left["cause"] == "clients-left"
    assert quiet["title"] == "t/n/archive has a backlog and no consumer"
    assert quiet["since"] == archiver["since"]


def test_clients_that_stay_away_are_problems_of_their_own_after_ten_minutes(busy: Console) -> None:
    lose(busy)
    assert busy.causes(KEPT_MS // 1_000) == ["clients-left", "no-consumer"]
    assert busy.found(5)["items"][0]["cause"] == "no-consumer"
    assert len(busy.board.topics_of("no-consumer")) == 21
    assert "clients-left" not in busy.causes(120), "it is reported once"


def test_a_consumer_that_was_there_meanwhile_ends_what_was_before(busy: Console) -> None:
    busy.rows = []
    left = busy.now
    busy.lag("archive", "archiver", "no-consumer", left_ms=left)
    busy.rows[-1][1][3][2] = left
    busy.report_all()
    assert busy.found()["items"][0]["since"] == left
