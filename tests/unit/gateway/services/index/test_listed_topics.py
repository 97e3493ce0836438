"""Orders and selections of the list of topics."""

import random
from typing import ClassVar

from engine.admin.api.rows import OLDEST_UNKNOWN
from engine.auth.viewer import ALL
from gateway.services.index.figures import RATE_IN
from gateway.services.index.kept_selections import SELECTIONS_MAX
from gateway.services.index.rows import FIELDS
from gateway.services.index.selection import Chosen
from gateway.services.index.topic_index import TopicIndex
from tests.support.admin.index_reports import T, answer, row, values


def test_every_field_sorts_both_ways() -> None:
    index = TopicIndex()
    index.apply("b", answer(5, *([f"{T}{name}", *values(backlog=1)] for name in "bca")))
    for field in FIELDS:
        up = index.select(ALL, Chosen(sort=field)).names()
        down = index.select(ALL, Chosen(sort=f"-{field}")).names()
        assert up == [f"{T}a", f"{T}b", f"{T}c"]
        assert down == (up[::-1] if field in ("name", "topic") else up), "equals stand by name"


class CountedName(str):
    """A name whose comparisons are counted."""

    compared: ClassVar[int] = 0

    def __lt__(self, other: str) -> bool:
        CountedName.compared += 1
        return str.__lt__(self, other)


def test_a_further_order_compares_no_names_and_a_window_none_at_all() -> None:
    count, rng = 2_000, random.Random(1)
    index = TopicIndex()
    names = [CountedName(f"{T}{number:05}") for number in range(count)]
    rng.shuffle(names)
    index.apply(
        "b",
        answer(
            5,
            *(
                [name, *values(backlog_messages=rng.randrange(10**9), msg_rate_in=number % 50)]
                for number, name in enumerate(names)
            ),
        ),
    )
    index.select(ALL, Chosen(sort="-backlog"))
    assert CountedName.compared > count, "the names are sorted once"
    for sort in ("-msg_rate_in", "msg_rate_in", "backlog", "-storage_bytes"):
        CountedName.compared = 0
        selected = index.select(ALL, Chosen(sort=sort))
        assert CountedName.compared == 0, sort
        assert len(selected.names(500, 600)) == 100
        assert index.select(ALL, Chosen(sort=sort)).names(0, 50) == selected.names(0, 50)
        assert CountedName.compared == 0, "a window of a stored order"
    ranked = [(-index.certain(name)[RATE_IN], name) for name in names]  # type: ignore[operator]
    assert index.select(ALL, Chosen(sort="-msg_rate_in")).names() == [
        name for _, name in sorted(ranked)
    ]


def test_changes_of_figures_are_searched_for_and_not_sorted_again() -> None:
    count = 2_000
    index = TopicIndex()
    index.apply(
        "b", answer(5, *([f"{T}{n:05}", *values(backlog_messages=n)] for n in range(count)))
    )
    chosen = Chosen(sort="-backlog")
    index.select(ALL, chosen)
    names = [CountedName(f"{T}{number:05}") for number in range(0, count, 100)]
    CountedName.compared = 0
    index.apply("b", answer(6, *([name, *values(backlog_messages=10 * count)] for name in names)))
    assert index.select(ALL, chosen).names(0, 20) == names
    assert CountedName.compared <= len(names) * 12, "about log2 of the list for each"


def test_words_are_looked_for_in_what_a_short_selection_left() -> None:
    index = TopicIndex()
    index.catalog({f"{T}{word}-{i}": 0 for word in ("blue", "red") for i in range(40)}, [])
    few = index.select(ALL, Chosen(q="blue 7"))
    assert len(few) == 4
    index.catalog({f"{T}blue-77": 0}, [])
    selected = index.select(ALL, Chosen(q="77 ue n/", sort="-backlog", tenant="t"))
    assert selected.names() == [f"{T}blue-77"], "the short one is brought up to date before"
    assert index.select(ALL, Chosen(q="red 7", sort="name")).names() == [
        f"{T}red-{i}" for i in (17, 27, 37, 7)
    ]


def test_only_topics_with_a_cause_are_there_and_follow_it() -> None:
    index = TopicIndex()
    index.catalog({f"{T}{name}": 0 for name in "abc"}, [])
    chosen = Chosen(attention="slow")
    assert index.select(ALL, chosen, [f"{T}b", f"{T}gone"]).names() == [f"{T}b"]
    assert index.select(ALL, chosen, [f"{T}c", f"{T}a"]).names() == [f"{T}a", f"{T}c"]
    assert len(index.select(ALL, Chosen())) == 3, "a list without a cause is not limited"
    assert len(index.select(ALL, chosen)) == 0


def test_a_partitions_own_row_has_its_broker() -> None:
    index = TopicIndex()
    index.catalog({f"{T}p": 2}, [])
    index.apply("b", answer(7, [f"{T}p-partition-0", *values(backlog=4)]))
    served = index.part_row(f"{T}p-partition-0", 9)
    resting = index.part_row(f"{T}p-partition-1", 9)
    assert served
    assert (served["owner"], served["backlog"], served["at"]) == ("b", 4, 7)
    assert resting
    assert (resting["owner"], resting["backlog"]) == ("", None)
    assert index.part_row(f"{T}p-partition-2", 9) is None


def test_topics_of_namespaces_that_differ_in_the_cluster_only_are_distinguished() -> None:
    index = TopicIndex()
    names = [
        "persistent://public/orders/payments",
        "persistent://public/standalone/orders/payments",
    ]
    index.apply("b", answer(1, *([name, *values()] for name in names)))
    rows = [index.row(name, 999) for name in names]
    assert [row["namespace"] for row in rows] == ["orders", "standalone/orders"]
    assert [row["topic"] for row in rows] == ["payments", "payments"]
    for chosen in (
        Chosen(tenant="public", namespace="standalone/orders"),
        Chosen(namespace="public/standalone/orders"),
    ):
        assert index.select(ALL, chosen).names() == names[1:]
    for chosen in (Chosen(tenant="public", namespace="orders"), Chosen(namespace="public/orders")):
        assert index.select(ALL, chosen).names() == names[:1]


def test_a_topic_whose_name_ends_in_thousands_of_digits_is_removed_when_deleted() -> None:
    index, name = TopicIndex(), "persistent://t/n/x-partition-" + "9" * 5_000
    index.apply("b", answer(1, [name, *values()]))
    index.apply("b", answer(2, gone=[name]))
    assert name not in index


def test_orders_of_the_list_are_bounded() -> None:
    index = TopicIndex()
    index.apply("b", answer(5, [f"{T}a", *values(backlog=1)]))
    for number in range(3 * SELECTIONS_MAX):
        index.select(ALL, Chosen(q=str(number)))
        assert index.select(ALL, Chosen(sort="-backlog")).names() == [f"{T}a"]
    assert len(index._selections) == SELECTIONS_MAX
    assert (ALL, Chosen(sort="-backlog")) in index._selections


def test_an_unused_order_is_dropped() -> None:
    index = TopicIndex()
    index.select(ALL, Chosen())
    index.drop_unused()
    assert len(index._selections) == 1
    index.drop_unused()
    assert index._selections == {}


def test_a_topic_of_few_large_batches_ranks_before_one_of_more_single_messages() -> None:
    index = TopicIndex()
    batched = values(backlog=212, backlog_messages=60_000, backlog_estimated=212)
    plain = values(backlog=400, backlog_messages=400)
    unknown = values(backlog=900, backlog_messages=900, backlog_unmeasured=900)
    index.apply("b", answer(5, [f"{T}a", *plain], [f"{T}b", *batched], [f"{T}c", *unknown]))
    assert index.select(ALL, Chosen(sort="-backlog")).names() == [f"{T}b", f"{T}c", f"{T}a"]
    shown = row(index, "b")
    assert (shown["backlog"], shown["backlog_messages"], shown["backlog_estimated"]) == (
        *(212, 60_000),
        212,
    )
    # What changes in messages alone moves the topic, too.
    index.apply("b", answer(6, [f"{T}a", *values(backlog=400, backlog_messages=90_000)]))
    assert index.select(ALL, Chosen(sort="-backlog")).names()[0] == f"{T}a"
    assert index.sums.totals(ALL)["backlog_messages"] == 90_000 + 60_000 + 900
    assert index.sums.totals(ALL)["backlog_unmeasured"] == 900


def test_the_oldest_of_a_partitioned_topic_is_that_of_its_parts_and_not_known_while_one_is_not() -> (
    None
):
    index = TopicIndex()
    index.catalog({f"{T}p": 3}, [])

    def oldest(*times: int) -> int | None:
        rows = [
            [f"{T}p-partition-{i}", *values(backlog=1, oldest_at=at)] for i, at in enumerate(times)
        ]
        index.apply("b", answer(5, *rows))
        oldest_at: int | None = row(index, "p")["oldest_at"]
        return oldest_at

    assert oldest(30, 10, 0) == 10
    assert oldest(30, 40, 0) == 30
    assert oldest(30, OLDEST_UNKNOWN, 0) is None
    assert oldest(0, 0, 0) == 0
    for at in range(1, 200):
        assert oldest(at, 500, 500) == at
    (fold,) = (topic.fold for topic in index)
    assert fold is not None
    assert len(fold._oldest._heap) < 40


def test_the_longest_wait_sorts_first_and_unknown_waits_last() -> None:
    index = TopicIndex()
    oldest_by_name = {"a": 0, "b": 500, "c": OLDEST_UNKNOWN, "d": 100}
    index.apply(
        "b",
        answer(5, *([f"{T}{name}", *values(oldest_at=at)] for name, at in oldest_by_name.items())),
    )
    assert index.select(ALL, Chosen(sort="-oldest_age")).names() == [
        f"{T}{name}" for name in "dbac"
    ]
    assert index.select(ALL, Chosen(sort="oldest_age")).names() == [f"{T}{name}" for name in "abdc"]
