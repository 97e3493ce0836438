"""Reading of messages by administrators."""

import base64
from typing import Any

import pytest

from engine.admin.api.arguments import MessagePosition
from engine.admin.api.messages import (
    EXAMINE,
    LATEST_ENTRIES,
    MESSAGE_BY_ID,
    NEXT_ENTRIES,
    PEEK,
    Examine,
    LatestEntries,
    MessageById,
    NextEntries,
    Peek,
)
from engine.base.errors import NotFound, Unsupported
from engine.base.names import TopicName
from engine.managed.ledger import InitialPosition
from engine.wire.geo.markers import REQUEST, SnapshotRequest, request_marker
from gateway.services.admin import topics
from tests.support.admin.bench import AdminBench
from tests.support.admin.bench import bench as bench
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Sink

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/t")


async def test_latest_entries_come_newest_first_within_both_bounds() -> None:
    bench = AdminBench()
    await bench.start()
    with pytest.raises(NotFound):
        await bench.engine.call(LATEST_ENTRIES, LatestEntries(TOPIC, 9, 9))
    await topics.create(bench.engine, TOPIC, {})

    async def ask(messages: int, bytes_max: int, before: int | None = None) -> tuple[int, ...]:
        at = None if before is None else MessagePosition(sink.positions[0][0], before)
        args = LatestEntries(TOPIC, messages, bytes_max, at)
        answer = await bench.engine.call(LATEST_ENTRIES, args)
        for _, entry, text in answer["entries"]:
            assert base64.b64decode(text) == sink.payloads[entry]
        return (*(entry for _, entry, _ in answer["entries"]), answer["more"])

    sink = await bench.publish(TOPIC, 20)
    size = len(sink.payloads[-1])
    assert await ask(100, 1 << 20) == (*range(19, -1, -1), False)
    assert await ask(3, 1 << 20) == (19, 18, 17, True)
    assert await ask(100, 2 * size) == (19, 18, True)
    assert await ask(100, 1) == (19, True), "one at least"
    assert await ask(2, 1 << 20, before=5) == (4, 3, True)
    assert await ask(9, 1 << 20, before=0) == (False,)
    live = TopicName.parse("non-persistent://public/default/t")
    with pytest.raises(Unsupported, match="non-persistent"):
        await bench.engine.call(LATEST_ENTRIES, LatestEntries(live, 9, 9))
    await bench.close()


async def test_next_entries_continue_where_the_last_ended_also_after_further_messages() -> None:
    bench = AdminBench()
    await bench.start()
    await topics.create(bench.engine, TOPIC, {})

    async def ask(start: list[int] | None, messages: int = 100, bytes_max: int = 1 << 20) -> Any:
        at = {} if start is None else {"start": MessagePosition(*start)}
        args = NextEntries(TOPIC, messages, bytes_max, **at)
        return await bench.engine.call(NEXT_ENTRIES, args)

    assert await ask(None) == {"entries": [], "more": False, "next": [-1, -1]}
    sink = await bench.publish(TOPIC, 5)
    first = await ask(None, messages=2)
    assert [entry for _, entry, _ in first["entries"]] == [0, 1]
    assert first["more"] is True
    rest = await ask(first["next"])
    assert [base64.b64decode(text) for *_, text in rest["entries"]] == sink.payloads[2:]
    assert rest["more"] is False
    assert (await ask(rest["next"]))["next"] == rest["next"], "nothing was published meanwhile"
    size = len(sink.payloads[0])
    assert len((await ask(None, bytes_max=size))["entries"]) == 1
    later = await bench.publish(TOPIC, 1)
    new = await ask(rest["next"])
    assert [base64.b64decode(text) for *_, text in new["entries"]] == later.payloads
    await bench.close()


async def test_markers_are_shown_with_their_type_as_by_apache(bench: AdminBench) -> None:
    await topics.create(bench.engine, TOPIC, {})
    topic, sink = await bench.loaded(TOPIC), Sink()
    await topic.subscriptions.create("s", InitialPosition.EARLIEST, {}, replicated=False)
    topic.log.append(run_of(request_marker(SnapshotRequest("1", "us"), 1_000)), sink)
    await sink.settle(1)
    position = topic.log.last_confirmed
    for answer in (
        await bench.engine.call(PEEK, Peek(TOPIC, "s", 1)),
        await bench.engine.call(EXAMINE, Examine(TOPIC, "earliest", 1)),
        await bench.engine.call(MESSAGE_BY_ID, MessageById(TOPIC, *position)),
    ):
        assert answer["headers"]["X-Pulsar-Message-ID"] == str(position)
        assert answer["headers"]["X-Pulsar-marker-type"] == str(REQUEST)
