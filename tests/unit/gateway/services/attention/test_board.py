"""The overview and the list of topics: brokers' findings, topics at rest, and hops."""

from typing import Any

import pytest

from engine.admin.api.rows import ROW_COLUMNS
from engine.admin.lag import LagCause
from engine.auth.viewer import ALL
from engine.metadata.apart.routed import CONFIGURATION
from gateway.services.attention.at_rest import HOLD_MS, SETTLED_MS
from gateway.services.attention.board import AGES_MS, AttentionList, Board, TopicCause
from gateway.services.attention.findings import Findings
from gateway.services.attention.memory import RETURNS_MS
from gateway.services.attention.outages import KEPT_MS
from gateway.services.attention.part_items import ASIDE_MS, Instance
from gateway.services.attention.wording import CAUSES, span
from gateway.services.feeds.row_list import RowChanges
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
        self.brokers = BROKERS
        self.bookies = BOOKIES
        self.topics.on_clients = self.board.clients_changed

    def topic(self, name: str, *, partitions: int = 0, **values: int) -> None:
        row = [T + name, *(values.get(column, 0) for column in ROW_COLUMNS)]
        self.topics.apply("b:1", RowChanges(self.now, [row], []))

    def lag(self, name: str, sub: str, cause: str, backlog: int | None = 500, **more: Any) -> None:
        severity = more.pop("severity", "warning")
        growth = more.pop("growth", 0)
        lag = [cause, severity, self.now - 60_000, growth, more]
        self.rows.append([T + name, [sub, backlog, 0, lag]])
        changes = RowChanges(1, self.rows, [])
        self.findings.apply("b:1", changes)

    def report_all(self) -> None:
        """Report ``rows`` as the complete list: other topics are gone."""
        gone = set(self.findings.reported("b:1")) - {row[0] for row in self.rows}
        self.findings.apply("b:1", RowChanges(self.now, self.rows, [*gone]))

    def found(self, seconds: int = 1, *, known: bool = True, start: str = "") -> AttentionList:
        for _ in range(seconds):
            self.now += 1_000
            instance = Instance(self.hops.bad, self.brokers, self.bookies)
            self.board.round(self.topics, self.now, whole=self.whole, instance=instance)
        return self.board.overview(ALL, "c", self.now, known=known, instance=instance, start=start)

    def needs(self, ensemble: int, ack: int, topics: int = 0, broker: str = "b:1") -> None:
        rows = [[ensemble, ensemble, ack, topics, 1]] if topics else []
        answer = {"session_ms": 5_000, "default": [ensemble, ensemble, ack], "topics": rows}
        self.board.needs.report(broker, answer)

    def bookie(self, number: int, state: str, **more: Any) -> None:
        self.bookies = [bookie for bookie in self.bookies if bookie["id"] != f"bookie-{number}"]
        self.bookies = [*self.bookies, {"id": f"bookie-{number}", "state": state, **more}]

    def causes(self, seconds: int = 1) -> list[str]:
        return [item["cause"] for item in self.found(seconds)["items"]]


@pytest.fixture
def console() -> Console:
    return Console()


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


def test_what_is_alike_shares_a_line(console: Console) -> None:
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


def test_what_has_no_line_is_counted(console: Console) -> None:
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


# --- whether anything can be published -----------------------------------------------------------


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


def test_what_could_not_be_published_to_from_the_first_look_may_be_so_for_longer(
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


# --- clients that left together ------------------------------------------------------------------


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


def test_what_its_broker_found_shortly_after_loading_may_be_older(console: Console) -> None:
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


# --- groups --------------------------------------------------------------------------------------


def test_a_group_names_its_largest_and_its_growing_member(console: Console) -> None:
    causes = ("slow", "held", "standby", "redelivery")
    for cause in causes:
        console.lag(f"t-{cause}", "s", cause, 500)
    console.lag("single", "drain", "no-consumer", 60_000)
    console.lag("sixty", "drain", "no-consumer", 59_000)
    console.lag("invoices", "archiver", "no-consumer", 3_000, growth=5_000, severity="error")
    items = console.found()["items"]
    [group] = [item for item in items if item["count"] > 1]
    assert group["title"] == "3 subscriptions have no consumer: 122,000 entries"
    assert (
        group["detail"]
        == "largest single/drain 60,000 entries · growing: invoices/archiver by 5.0 entries/s"
    )
    assert group["severity"] == "error"


@pytest.mark.parametrize(
    ("messages", "estimated", "text"),
    [
        (None, False, "backlog of 212 entries, growing by 3.0 entries/s"),
        (212, False, "backlog of 212 messages, growing by 3.0 messages/s"),
        (59_000, True, "backlog of ≈ 59,000 messages (212 entries), growing by ≈ 835 messages/s"),
        (212, True, "backlog of ≈ 212 messages, growing by ≈ 3.0 messages/s"),
        (59_360, False, "backlog of 59,360 messages (212 entries), growing by 840 messages/s"),
    ],
)
def test_entries_are_called_entries_and_messages_are_estimated(
    console: Console, messages: int | None, estimated: bool, text: str
) -> None:
    more = {} if messages is None else {"messages": messages, "estimated": estimated}
    console.lag("sixty", "drain", "held", 212, growth=3_000, **more)
    [item] = console.found()["items"]
    assert text in item["detail"]


def test_a_slow_subscription_has_its_lag_in_messages_per_second(console: Console) -> None:
    console.lag("sixty", "drain", "slow", 212, growth=3_000, messages=59_000, estimated=True)
    [item] = console.found()["items"]
    assert item["title"] == "drain is slower than arrivals by ≈ 835 messages/s"


def test_one_entry_of_many_messages_and_one_message_agree_with_their_verb(console: Console) -> None:
    for messages, text in (
        (30, "backlog of 30 messages (1 entry) ·"),
        (1, "backlog of 1 message ·"),
    ):
        console.rows = []
        console.lag("a", "drain", "held", 1, messages=messages, estimated=False)
        [item] = console.found(10)["items"]
        assert text in item["detail"]


def test_few_large_batches_do_more_harm_than_more_single_messages(console: Console) -> None:
    console.lag("plain", "s", "held", 400, messages=400, estimated=False)
    console.lag("batched", "s", "standby", 212, messages=60_000, estimated=True)
    assert console.causes() == ["standby", "held"]


def test_a_topic_at_rest_is_described_in_messages_where_they_are_known(console: Console) -> None:
    figures = {"backlog": 212, "backlog_messages": 60_000, "backlog_estimated": 212}
    console.topics.catalog({T + "archive": 0}, [])
    console.topic("archive", **figures, subscriptions=1)
    console.topics.apply("b:1", RowChanges(1, [], [T + "archive"]))
    for name in console.topics.due(console.now, 5):
        console.topics.apply_at_rest(
            {"at": console.now, "rows": [[name, 1, 212, 9]], "missing": []}
        )
    [item] = console.found(1 + HOLD_MS // 1_000)["items"]
    assert item["detail"] == "backlog of ≈ 60,000 messages (212 entries) · not loaded by any broker"


def test_messages_held_up_by_a_keys_consumer_are_counted(console: Console) -> None:
    console.lag(
        *("hot", "rollup", "hot-key", 2_400),
        **{"growth": 4_300, "consumer": "c-1", "waiting": 2_379, "keys": 27, "unacked": 5},
    )
    [item] = console.found()["items"]
    assert item["title"] == "rollup: one consumer holds up its keys"
    assert item["detail"] == (
        "t/n/hot · backlog of 2,400 entries, growing by 4.3 entries/s · consumer c-1 is the bottleneck:"
        " 2,379 entries of its 27 keys wait, 5 are unacknowledged"
    )


def test_a_topic_that_moved_has_the_time_since_when_it_has_no_consumer(console: Console) -> None:
    console.lag("a", "s", "no-consumer", left_ms=0)
    [item] = console.found()["items"]
    assert "no consumer since the topic was loaded at 1970-01-12T13:45:40Z" in item["detail"]
