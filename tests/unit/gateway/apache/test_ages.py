"""Ages of backlogs in lists: read topic by topic, and unknown where they are not."""

from typing import Any

import pytest

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS, SubscriptionCell
from engine.base.names import TopicName
from engine.net.network import LoopNetwork
from gateway.apache import ages
from gateway.apache.ages import BacklogAges
from gateway.apache.rest import ApacheRest, topic_path
from gateway.apache_settings import ApacheCluster
from tests.support.net.recorded_apache import RecordedApache

A, B = "persistent://acme/ns5/a", "persistent://acme/ns5/b"


def row(name: str, backlog: int) -> list[Any]:
    values = dict.fromkeys(ROW_COLUMNS, 0) | {
        "backlog": backlog,
        "oldest_at": OLDEST_UNKNOWN if backlog else 0,
    }
    return [name, *values.values()]


def cells(name: str, *backlogs: int) -> list[Any]:
    return [
        name,
        *(
            list(SubscriptionCell(f"s{i}", size, 0, None, OLDEST_UNKNOWN if size else 0))
            for i, size in enumerate(backlogs)
        ),
    ]


def answer(apache: RecordedApache, name: str, *times: int) -> None:
    path = topic_path(TopicName.parse(name), "stats")
    subscriptions = {
        f"s{i}": {"msgBacklog": 1, "earliestMsgPublishTimeInBacklog": at}
        for i, at in enumerate(times)
    }
    apache.answers[path] = {"subscriptions": subscriptions}


@pytest.fixture
async def read(apache_cluster: ApacheCluster) -> Any:
    rest = ApacheRest(apache_cluster, LoopNetwork())
    yield BacklogAges(rest, apache_cluster.url)
    rest.close()


def oldest(made: Any) -> tuple[int, list[int]]:
    topics, subscriptions = made
    at = 1 + ROW_COLUMNS.index("oldest_at")
    return topics[A][at], [cell[4] for cell in subscriptions[A][1:]]


async def test_a_topic_is_as_old_as_its_oldest_backlog(
    read: BacklogAges, apache: RecordedApache
) -> None:
    topics, subscriptions = {A: row(A, 5)}, {A: cells(A, 3, 2, 0)}
    read.follow(topics)
    assert oldest(read.added(topics, subscriptions)) == (-1, [-1, -1, 0])
    answer(apache, A, 2_000, 1_000, 0)
    await read._read(A)
    assert oldest(read.added(topics, subscriptions)) == (1_000, [2_000, 1_000, 0])


async def test_a_topic_with_one_unknown_age_has_none(
    read: BacklogAges, apache: RecordedApache
) -> None:
    topics, subscriptions = {A: row(A, 5)}, {A: cells(A, 3, 2)}
    read.follow(topics)
    answer(apache, A, 2_000, 0)
    await read._read(A)
    assert oldest(read.added(topics, subscriptions)) == (-1, [2_000, -1])


async def test_an_old_reading_and_one_that_fails_are_unknown(
    read: BacklogAges, apache: RecordedApache, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, subscriptions = {A: row(A, 3)}, {A: cells(A, 3)}
    read.follow(topics)
    answer(apache, A, 2_000)
    await read._read(A)
    with monkeypatch.context() as patch:
        patch.setattr(ages, "KEPT_MS", -1)
        assert oldest(read.added(topics, subscriptions)) == (-1, [-1])
    apache.refusals[topic_path(TopicName.parse(A), "stats")] = 500, "no"
    await read._read(A)
    assert oldest(read.added(topics, subscriptions)) == (-1, [-1])


async def test_the_largest_backlog_is_read_first_and_the_last_one_read_last(
    read: BacklogAges, apache: RecordedApache
) -> None:
    read.follow({A: row(A, 1), B: row(B, 9)})
    answer(apache, A, 1)
    answer(apache, B, 1)
    order = []
    for _ in range(2):
        name = read._next()
        assert name is not None
        order.append(name)
        await read._read(name)
    assert order == [B, A]
    read.follow({A: row(A, 0)})
    assert read._next() is None
