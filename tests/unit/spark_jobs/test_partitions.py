"""Planning: every entry is read exactly once, by ranges of bounded size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.metadata.apart.stores import StoreUrls
from spark_jobs.analysis import store_options
from spark_jobs.pulsar_source.options import PARTITIONS_MAX, OptionError, parse
from spark_jobs.pulsar_source.partitions import LedgerRange, grouped, newest, plan

LEDGERS = st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 1 << 20)), max_size=8).map(
    lambda sizes: [(i * 3, *size) for i, size in enumerate(sizes)]
)


def whole(ledgers: list[tuple[int, int, int]]) -> list[LedgerRange]:
    return [LedgerRange(ledger, 0, entries - 1, size=size) for ledger, entries, size in ledgers]


@given(LEDGERS, st.integers(1, 2_000), st.integers(1, 1 << 20))
def test_every_entry_is_in_exactly_one_range(
    ledgers: list[tuple[int, int, int]], step: int, size: int
) -> None:
    ranges = plan(whole(ledgers), step, size)
    read = [(r.ledger_id, e) for r in ranges for e in range(r.first, r.last + 1)]
    assert read == [(ledger, e) for ledger, entries, _ in ledgers for e in range(entries)]
    assert len(ranges) <= 2 * PARTITIONS_MAX + len(ledgers)


@given(LEDGERS, st.integers(1, 2_000), st.integers(1, 1 << 20))
def test_no_range_is_larger_than_requested(
    ledgers: list[tuple[int, int, int]], step: int, size: int
) -> None:
    stored = {ledger: (entries, total) for ledger, entries, total in ledgers}
    for part in plan(whole(ledgers), step, size):
        most = sum(entries for _, entries, _ in ledgers) // PARTITIONS_MAX + 1
        assert part.entries <= max(step, most)
        share = max(size, sum(total for *_, total in ledgers) // PARTITIONS_MAX + 1)
        entries, total = stored[part.ledger_id]
        assert part.entries == 1 or part.entries * total <= share * entries  # exact, unlike a mean


def test_large_entries_are_cut_by_bytes() -> None:
    gigabyte = plan(whole([(1, 10_000, 1 << 30)]), 50_000, 32 << 20)
    assert len(gigabyte) == 33
    assert plan(whole([(1, 10_000, 0)]), 50_000, 32 << 20) == [LedgerRange(1, 0, 9_999)]


@given(LEDGERS, st.integers(1, 2_000), st.integers(1, 6_000))
def test_newest_keeps_the_last_entries_in_order(
    ledgers: list[tuple[int, int, int]], step: int, last: int
) -> None:
    everything = [(ledger, e) for ledger, entries, _ in ledgers for e in range(entries)]
    kept = newest(plan(whole(ledgers), step), last)
    assert [(r.ledger_id, e) for r in kept for e in range(r.first, r.last + 1)] == everything[
        -last:
    ]


@given(LEDGERS, st.integers(1, 2_000), st.integers(1, 64))
def test_there_are_as_many_tasks_as_the_hint_names_and_few_for_many_small_ledgers(
    ledgers: list[tuple[int, int, int]], step: int, hint: int
) -> None:
    ranges = plan(whole(ledgers), step, 1 << 30, hint)
    groups = grouped(ranges, step, 1 << 30, hint)
    assert [part for group in groups for part in group.ranges] == ranges
    total = sum(part.entries for part in ranges)
    assert len(groups) >= min(hint, total)
    assert all(group.ranges for group in groups)
    small = grouped([LedgerRange(i, 0, 0, size=10) for i in range(1_000)], 100, 1 << 20)
    assert [len(group.ranges) for group in small] == [100] * 10


def test_newest_zero_means_everything() -> None:
    ranges = plan(whole([(1, 10, 0)]), 3)
    assert newest(ranges, 0) == ranges


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"topic": "a/b", "metadata.url": "zk:h:1"}, "option topic: Invalid short topic name"),
        ({"topic": "non-persistent://a/b/c"}, "option topic: .* is not persistent"),
        ({"topics": "x, a/b"}, "option topics: Invalid short"),
        ({"topicsPattern": "orders("}, "option topicsPattern: missing"),
        ({"namespace": "public"}, "option namespace: Invalid namespace format"),
        ({"tenant": "a b"}, "option tenant: Invalid tenant name"),
        ({"metadata.url": "zk:h:1"}, "exactly one of the options topic, .* not none of them"),
        ({"topic": "x", "topics": "y"}, "exactly one of .*, not topic and topics"),
        ({"topic": "persistent://a/b/c"}, "option metadata.url must be zk:"),
        (
            {
                "topic": "persistent://a/b/c",
                "metadata.url": "zk:h:1",
                "bookkeeper.metadata.uri": "x",
            },
            "option bookkeeper.metadata.uri must be zk",
        ),
        (
            {"topic": "persistent://a/b/c", "metadata.url": "zk:h:1", "entriesPerPartition": "0"},
            "option entriesperpartition must be a whole number from 1",
        ),
        (
            {"topic": "persistent://a/b/c", "metadata.url": "zk:h:1", "columns": "key,size"},
            "option columns must be different names of key, value",
        ),
    ],
)
def test_a_bad_option_is_refused_by_name(options: dict[str, str], names: str) -> None:
    with pytest.raises(OptionError, match=names):
        parse(options)


@pytest.mark.parametrize(
    "stores",
    [
        StoreUrls("zk:a:1"),
        StoreUrls("zk:a:1", "zk:b:1", "zk:c:1/eu"),
        StoreUrls("zk:a:1", "", "zk:c:1"),
    ],
)
def test_stores_pass_from_the_worker_to_the_tasks_as_options(stores: StoreUrls) -> None:
    assert parse({"topic": "persistent://a/b/c", **store_options(stores)}).stores == stores
