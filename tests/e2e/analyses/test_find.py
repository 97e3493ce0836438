"""A search through the real engine."""

from collections.abc import Callable
from pathlib import Path

import pulsar
import pytest

from tests.support.analyses.runs import Answer
from tests.support.analyses.topics_with_answers import hostile, publish


@pytest.mark.timeout(300)
def test_a_search_finds_its_messages_and_continues_where_it_stopped(
    run: Callable[..., Answer], client: pulsar.Client
) -> None:
    topic = "persistent://public/default/find-orders"
    orders = [
        (
            b'{"order": {"id": %d}}' % i,
            {"partition_key": f"k{i % 10}", "properties": {"batch": str(i // 100)}},
        )
        for i in range(3000)
    ]
    publish(client, topic, orders, producer_name="shop")
    newest = run("find", topic=topic)
    assert [row["value"] for row in newest.rows("hits")] == [
        f'{{"order": {{"id": {i}}}}}' for i in range(2999, 2899, -1)
    ]
    assert newest.figure("complete") == "no"
    assert newest.shown.partials

    [hit] = run("find", topic=topic, path="$.order.id", equals="1234").rows("hits")
    assert (hit["key"], hit["producer"]) == ("k4", "shop")
    assert hit["publish_time"] > 1_700_000_000_000
    by_id = run("find", topic=topic, id=hit["position"])
    assert by_id.rows("hits") == [hit]
    assert by_id.figure("scanned_entries") == 1

    at = str(hit["publish_time"])
    since, until = run("find", topic=topic, since=at), run("find", topic=topic, until=at)
    sides = [side.figure("scanned_messages") for side in (since, until)]
    assert 0 < sum(sides) <= 3000
    long_ago = run("find", topic=topic, until="2020-01-01T00:00:00Z")
    assert (long_ago.figure("scanned_messages"), long_ago.figure("complete")) == (0, "yes")

    filters = {"topic": topic, "key": "k7", "property": "batch=2", "order": "oldest"}
    first = run("find", **filters, limit=6)
    rest = run("find", **filters, limit=100, after=first.figure("after"))
    values = [row["value"] for row in (*first.rows("hits"), *rest.rows("hits"))]
    assert values == [f'{{"order": {{"id": {i}}}}}' for i in range(207, 300, 10)]
    assert (first.figure("complete"), rest.figure("complete")) == ("no", "yes")
    none = run("find", topic=topic, text="no such text")
    assert none.figure("scanned_messages") == 3000
    assert none.conclusions[0].startswith("No message matches; 3,000 messages")


@pytest.mark.timeout(300)
def test_a_search_survives_hostile_messages(
    run: Callable[..., Answer], client: pulsar.Client, tmp_path: Path
) -> None:
    answer = hostile(client, "persistent://public/default/find-hostile", tmp_path)
    everything = run("find", topic=answer.topic)
    assert everything.figure("scanned_messages") == answer.count
    assert everything.figure("complete") == "yes"
    assert all(len(row["value"] or "") <= 1000 for row in everything.rows("hits"))
    named = run("find", topic=answer.topic, path="id", text="9007199254740993")
    assert named.figure("hits") == 1
