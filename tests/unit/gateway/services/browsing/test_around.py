"""A message in chunks, whole at each of its chunks; or the chunks are named that are missing or out of reach."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from admin_ui.messages import selectors, shapes
from engine.admin.api.messages import LATEST_ENTRIES
from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.base.errors import NotReady
from engine.wire.batches import Message, pack_entry
from gateway.services.browsing import around
from gateway.services.engine_link import Engine
from tests.support.admin.bench import AdminBench
from tests.unit.gateway.services.browsing.test_chunks import LZ4, append, chunked
from tests.unit.gateway.services.browsing.test_latest_values import PLAIN

VALUE = b'{"n": 1, "text": "' + b"long " * 60 + b'"}'
OTHER = pack_entry([Message(b"other")], producer_name="q", publish_ms=1)


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await made.admin.call(CREATE_TOPIC, CreateTopic(PLAIN))
    yield made
    await made.close()


async def ids(bench: AdminBench) -> list[str]:
    """Return the positions of all entries."""
    page = await selectors.page(bench.engine, PLAIN, {"start": "earliest"})
    return [row["id"] for row in page["rows"]]


async def shown(bench: AdminBench, position: str) -> Any:
    return await selectors.one(bench.engine, PLAIN, position)


async def test_each_chunk_leads_to_the_whole_message(bench: AdminBench) -> None:
    first, second, third = chunked("m", VALUE, 3, "k", codec=LZ4)
    await append(bench, [OTHER, first, OTHER, *chunked("n", b"xy", 2, "l"), second, OTHER, third])
    positions = await ids(bench)
    ours = [positions[number] for number in (1, 5, 7)]
    for index, position in enumerate(ours):
        row = await shown(bench, position)
        assert row.keys() == shapes.MessageAnswer().fields.keys()
        assert row["chunks"].keys() == shapes.MessageChunks().fields.keys()
        assert (row["id"], row["kind"], row["key"]) == (position, "message", "k")
        assert (row["value"]["form"], row["value"]["text"]) == ("json", VALUE.decode())
        assert row["entry_bytes"] == len(first) + len(second) + len(third)
        assert row["chunk"] == {"index": index, "size": 3, "message": "m"}
        chunks = row["chunks"]
        assert [chunk["id"] for chunk in chunks["positions"]] == ours
        assert (chunks["missing"], chunks["unread"], chunks["is_whole"]) == ([], None, True)
        assert await selectors.value(bench.engine, PLAIN, position) == VALUE
    assert (await shown(bench, positions[0]))["chunks"] is None


@pytest.mark.parametrize("lost", [0, 1, 2])
async def test_a_missing_chunk_is_named_and_the_chunk_is_shown_as_it_is_stored(
    bench: AdminBench, lost: int
) -> None:
    kept = [chunk for number, chunk in enumerate(chunked("m", b"aabbcc", 3, "k")) if number != lost]
    await append(bench, [OTHER, *kept, OTHER])
    for position in (await ids(bench))[1:3]:
        row = await shown(bench, position)
        chunks = row["chunks"]
        assert (row["kind"], row["value"]["bytes"]) == ("chunk", 2)
        assert (chunks["missing"], chunks["unread"], chunks["is_whole"]) == ([lost], None, False)
        assert len(await selectors.value(bench.engine, PLAIN, position)) == 2


async def test_a_message_that_was_sent_anew_is_whole_where_it_is_complete(
    bench: AdminBench,
) -> None:
    first, second, third = chunked("m", b"aabbcc", 3, "k")
    await append(bench, [first, second, first, second, second, third])
    positions = await ids(bench)
    for position in positions[:2]:
        chunks = (await shown(bench, position))["chunks"]
        assert (chunks["missing"], chunks["begun_again"]) == ([2], positions[2])
    for position in positions[2:]:
        row = await shown(bench, position)
        assert (row["kind"], row["value"]["text"]) == ("message", "aabbcc")
        assert [chunk["id"] for chunk in row["chunks"]["positions"]] == [
            positions[number] for number in (2, 3, 5)
        ]


async def test_a_look_is_bounded_and_says_that_it_did_not_reach_the_rest(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(around, "LOOK_BYTES_MAX", 1)
    monkeypatch.setattr(around, "PAGE_BYTES", 1)
    first, second = chunked("m", b"aabb", 2, "k")
    await append(bench, [first, *[OTHER] * 20, second])
    positions = await ids(bench)
    for position, missing in ((positions[0], 1), (positions[-1], 0)):
        chunks = (await shown(bench, position))["chunks"]
        assert (chunks["missing"], chunks["unread"]) == ([missing], around.BOUND)


async def test_a_message_above_the_limit_is_not_joined_and_says_so(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(around, "BYTES_MAX", 3)
    await append(bench, chunked("m", b"aabb", 2, "k"))
    row = await shown(bench, (await ids(bench))[0])
    chunks = row["chunks"]
    assert (row["kind"], chunks["missing"]) == ("chunk", [])
    assert (chunks["is_large"], chunks["is_whole"]) == (True, False)


async def test_chunks_that_cannot_be_read_now_are_not_said_to_be_missing(
    bench: AdminBench,
) -> None:
    first, second = chunked("m", b"aabb", 2, "k")
    await append(bench, [first, second])
    last = (await ids(bench))[1]

    class Broken:
        async def call(self, operation: Any, args: Any, *, principal: str = "") -> Any:
            if operation is LATEST_ENTRIES:
                raise NotReady("Broker b does not answer")
            return await bench.engine.admin.call(operation, args, principal=principal)

    broken: Any = Broken()
    engine = Engine(bench.engine.store, broken)
    chunks = (await selectors.one(engine, PLAIN, last))["chunks"]
    assert (chunks["missing"], chunks["unread"]) == ([0], "Broker b does not answer")
