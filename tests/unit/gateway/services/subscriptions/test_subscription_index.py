"""The list of all subscriptions: of loaded topics, of topics at rest, summed over partitions, filtered and in order."""

from typing import Any

from engine.admin.api.rows import OLDEST_UNKNOWN, SubscriptionCell
from engine.auth.viewer import ALL, Viewer
from gateway.services.index.selection import Chosen
from gateway.services.subscriptions.subscription_index import SubscriptionIndex, key_of

T = "persistent://t/n/a"
NOW = 1_000_000


def cell(name: str, backlog: int | None = 0, oldest_at: int = 0, **more: Any) -> SubscriptionCell:
    more = {"messages": backlog, "rate_out": 0} | more
    return SubscriptionCell(name=name, backlog=backlog, oldest_at=oldest_at, **more)


def listed(index: SubscriptionIndex, viewer: Viewer = ALL, now: int = NOW, **chosen: Any) -> Any:
    names = index.select(viewer, Chosen(**{"sort": "topic"} | chosen), now).names()
    return [name.removeprefix("persistent://t/").replace("\n", " ") for name in names]


def row(index: SubscriptionIndex, name: str = "s", topic: str = T) -> dict[str, Any]:
    listed_one = index.get(key_of(topic, name))
    assert listed_one is not None
    return listed_one.row()


def of_topics(*topics: str) -> SubscriptionIndex:
    index = SubscriptionIndex()
    for name in topics:
        index.place(name, name)
    return index


def test_subscriptions_of_a_loaded_topic_are_listed_without_a_backlog_too() -> None:
    index = of_topics(T)
    index.report(T, [cell("s"), cell("u", 3, 500, consumers=2, rate_out=1_500, kind="Shared")])
    assert listed(index) == ["n/a s", "n/a u"]
    assert row(index, "u") == {
        **{"topic": T, "subscription": "u", "type": "Shared", "consumers": 2, "unacked": 0},
        **{"backlog": 3, "backlog_messages": 3, "backlog_estimated": 0, "backlog_unmeasured": 0},
        **{"oldest_at": 500, "msg_rate_out": 1.5, "age_target_s": None},
    }
    index.report(T, [cell("u")])
    assert listed(index) == ["n/a u"]


def test_rows_that_arrive_before_their_topic_are_listed_with_it() -> None:
    index = SubscriptionIndex()
    index.report(T, [cell("s")])
    assert listed(index) == []
    index.place(T, T)
    assert listed(index) == ["n/a s"]
    index.remove(T)
    assert listed(index) == []
    index.end(T)
    index.place(T, T)
    assert listed(index) == [], "a deleted topic's subscriptions are not those of a new one"


def test_an_unloaded_topic_keeps_what_was_known_without_clients() -> None:
    index = of_topics(T)
    index.report(T, [cell("s", 5, 700, messages=50, consumers=1, unacked=4, kind="Failover")])
    index.end(T)
    kept = row(index)
    assert (kept["backlog_messages"], kept["oldest_at"], kept["type"]) == (50, 700, "Failover")
    assert (kept["consumers"], kept["unacked"]) == (0, 0)
    index.read_at_rest(T, {"s": 5})
    assert row(index) == kept, "the backlog has not changed"
    index.read_at_rest(T, {"s": 4, "u": 0, "v": None})
    assert (row(index)["backlog"], row(index)["oldest_at"]) == (4, None)
    assert row(index)["backlog_unmeasured"] == 4
    assert row(index, "u")["oldest_at"] == 0
    assert (row(index, "v")["backlog"], row(index, "v")["oldest_at"]) == (None, None)


def test_a_subscription_of_partitions_is_their_sum_with_the_earliest_time() -> None:
    index = SubscriptionIndex()
    for number, (backlog, at) in enumerate(((2, 900), (3, 400), (0, 0))):
        index.place(f"{T}-partition-{number}", T)
        index.report(f"{T}-partition-{number}", [cell("s", backlog, at, consumers=1, target_s=30)])
    assert listed(index) == ["n/a s"]
    total = row(index)
    assert (total["backlog"], total["oldest_at"], total["consumers"]) == (5, 400, 3)
    assert total["age_target_s"] == 30
    index.report(f"{T}-partition-0", [cell("s", 2, OLDEST_UNKNOWN)])
    assert len(index) == 1
    assert row(index)["oldest_at"] is None, "the unknown one may be the oldest"
    index.report(f"{T}-partition-1", [cell("s", None, OLDEST_UNKNOWN)])
    assert len(index) == 1
    assert row(index)["backlog"] is None


def test_a_filter_by_age_is_passed_as_time_passes() -> None:
    index = of_topics(T)
    index.report(T, [cell("s", 1, NOW - 10_000), cell("u", 1, NOW - 90_000), cell("v")])
    assert listed(index, older_s=60) == ["n/a u"]
    assert listed(index, now=NOW + 49_999, older_s=60) == ["n/a u"]
    assert listed(index, now=NOW + 50_000, older_s=60) == ["n/a s", "n/a u"]
    index.report(T, [cell("s", 1, NOW), cell("u"), cell("v", 1, NOW - 100_000)])
    assert listed(index, now=NOW + 50_001, older_s=60) == ["n/a v"]


def test_late_subscriptions_are_those_beyond_their_own_target() -> None:
    index = of_topics(T)
    index.report(
        T,
        [
            cell("s", 1, NOW - 10_000, target_s=5),
            cell("u", 1, NOW - 10_000, target_s=60),
            cell("v", 1, NOW - 900_000),
        ],
    )
    assert listed(index, late=True) == ["n/a s"]
    assert [(shown.title, since) for shown, since in index.late(NOW)] == [("s", NOW - 5_000)]
    assert listed(index, now=NOW + 50_001, late=True) == ["n/a s", "n/a u"]
    index.report(T, [cell("s"), cell("u", 1, NOW - 10_000, target_s=600)])
    assert listed(index, now=NOW + 50_002, late=True) == []


def test_lists_are_sorted_and_updated_in_place() -> None:
    other = "persistent://t/m/b"
    index = of_topics(T, other)
    index.report(T, [cell("s", 5, 300), cell("u", 9, 200)])
    index.report(other, [cell("x", 7, OLDEST_UNKNOWN), cell("a", kind="Shared")])
    assert listed(index, sort="-backlog") == ["n/a u", "m/b x", "n/a s", "m/b a"]
    assert listed(index, sort="-oldest_age") == ["n/a u", "n/a s", "m/b a", "m/b x"]
    assert listed(index, sort="subscription") == ["m/b a", "n/a s", "n/a u", "m/b x"]
    assert listed(index, sort="-namespace") == ["n/a s", "n/a u", "m/b a", "m/b x"]
    assert listed(index, q="A u") == ["n/a u"]
    assert listed(index, namespace="t/m") == ["m/b a", "m/b x"]
    index.report(T, [cell("s", 50, 300), cell("u", 9, 200)])
    assert listed(index, sort="-backlog")[0] == "n/a s"


def test_a_viewer_gets_the_subscriptions_of_its_namespaces() -> None:
    index = of_topics(T, "persistent://t/m/b")
    index.report(T, [cell("s")])
    index.report("persistent://t/m/b", [cell("s")])
    viewer = Viewer(tenants=frozenset(), namespaces=frozenset({"t/m"}))
    assert listed(index, viewer) == ["m/b s"]
