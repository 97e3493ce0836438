"""Parts of a live tail: what was read is never lost, and a reader at a broker continues where it was."""

from typing import Any, cast

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE, MessagePosition
from engine.base.errors import NotFound
from engine.base.names import TopicName
from engine.client.errors import LostError
from gateway.services.browsing import tail_parts
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.tail_parts import Attaching, FollowedPart
from gateway.services.browsing.tailing import Tails
from gateway.services.engine_link import Engine, EngineLink
from gateway.services.publishing import Publisher
from tests.support.broker_bench import NAME, served
from tests.support.waiting import until
from tests.unit.client.test_client import client_of
from tests.unit.gateway.services.browsing.test_tailing import (
    TOPIC,
    Link,
    began,
    bench,
    link,
    publish,
    tails,
    taken,
)
from tests.unit.gateway.services.test_publishing import Rest

__all__ = ["bench", "link", "tails"]
ALL = MessageFilter()
NO_ENGINE = cast(Engine, None)


async def test_a_cancelled_read_loses_no_message(
    bench: Any, link: Link, tails: Tails, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = await began(tails.watch(TOPIC, ALL, 100))
    fetch, failures = watch.tail.values.fetch, 2

    async def failing(engine: Engine, messages: Any) -> None:
        nonlocal failures
        if list(messages) and failures:
            failures -= 1
            raise LostError("the schema cannot be read")
        await fetch(engine, [])

    monkeypatch.setattr(watch.tail.values, "fetch", failing)
    await publish(bench, b"a1", b"b1")
    await until(lambda: watch.received == 2)
    assert failures == 0
    assert taken(watch) == [b"a1", b"b1"]
    await watch.end()


async def test_a_problem_of_a_part_wakes_the_watches(
    bench: Any, link: Link, tails: Tails, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = await began(tails.watch(TOPIC, ALL, 100))
    watch.wake.clear()

    async def silent(self: Any, engine: Engine) -> None:
        raise LostError("the broker is gone")

    monkeypatch.setattr(tail_parts.StoredPart, "_page", silent)
    await until(watch.wake.is_set)
    assert watch.tail.problem == "the broker is gone"
    await watch.end()


async def values_of(part: FollowedPart, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []

    async def are_there() -> bool:
        await part.read(NO_ENGINE)
        values.extend(row.message.value for row in part.take() if row.message is not None)
        return len(values) >= count

    await until(are_there)
    return values


async def test_a_reader_continues_behind_the_last_message_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tail_parts, "AGAIN_S", 0.01)
    async with served() as (_, _, url):
        client = client_of(url, operation_timeout_s=5.0)
        rest = Rest(Publisher(client))
        await rest.publish(b"a", b"b")
        part = FollowedPart(TopicName.parse(NAME.full), Attaching(client))
        part.place = EARLIEST_MESSAGE
        assert await values_of(part, 2) == [b"a", b"b"]
        assert part._consumer is not None
        part._consumer.leave()
        await rest.publish(b"c")
        assert await values_of(part, 1) == [b"c"]
        # Large entries are left at the broker until those that wait are read.
        monkeypatch.setattr(tail_parts, "WAITING_BYTES_MAX", 1)
        await rest.publish(b"d", b"e")
        assert await values_of(part, 2) == [b"d", b"e"]
        assert part.problem == ""
        part.close()
        part.close()
        await rest.publisher.close()
        await client.close()


async def test_the_address_that_cannot_be_reached_is_named() -> None:
    client = client_of("pulsar://127.0.0.1:1", operation_timeout_s=5.0)
    attaching = Attaching(client)
    parts = [FollowedPart(TOPIC.partition_at(index), attaching) for index in range(2)]
    for part in parts:
        part.place = MessagePosition(0, 0)
        await part.read(NO_ENGINE)
        assert "127.0.0.1:1" in part.problem
    await client.close()


async def test_a_partition_that_was_never_used_is_no_problem() -> None:
    part = FollowedPart(TOPIC.partition_at(0), cast(Attaching, None))

    async def absent(engine: Engine) -> None:
        raise NotFound("not created yet")

    part._page = absent  # type: ignore[method-assign]
    await part.read(NO_ENGINE)
    assert part.problem == ""


def test_our_own_clusters_are_read_from_storage() -> None:
    assert Tails(cast(EngineLink, None))._client is None
