"""The messages of a topic through the console's reads, as a broker stores them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from admin_ui.messages import selectors, shapes
from engine.base.errors import InvalidField, NotFound
from engine.base.names import TopicName
from engine.wire.batches import Message, pack_entry
from gateway.services.admin import topics
from tests.support.admin.bench import AdminBench
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Sink

TOPIC = TopicName.parse("persistent://public/default/orders")
BIG = 9_007_199_254_740_993


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, TOPIC, {})
    messages = [
        Message(
            b'{"id": %d}' % BIG, "ann", properties={"region": "eu"}, event_ms=5, sequence_id=BIG
        ),
        Message(None, "bob"),
        Message(b"\xff" * 10),
    ]
    entries = [
        pack_entry(messages, producer_name="p", publish_ms=1_000),
        pack_entry([Message(b"x" * 3_000)], producer_name="q", publish_ms=2_000),
    ]
    sink = Sink()
    (await made.loaded(TOPIC)).log.append(run_of(*entries), sink)
    await sink.settle(len(entries))
    yield made
    await made.close()


async def page(bench: AdminBench, *properties: str, **params: str) -> dict[str, Any]:
    return await selectors.page(bench.engine, TOPIC, params, properties)


async def test_a_page_shows_messages_with_their_metadata(bench: AdminBench) -> None:
    answer = await page(bench, start="earliest")
    assert answer.keys() == shapes.MessagesAnswer().fields.keys()
    first, tombstone, binary, alone = answer["rows"]
    assert first.keys() == shapes.MessageAnswer().fields.keys()
    assert first["value"].keys() == shapes.ValueShape().fields.keys()
    assert first["value"]["text"] == f'{{"id": {BIG}}}', "all digits"
    assert (first["key"], first["properties"], first["event"]) == ("ann", {"region": "eu"}, 5)
    assert (first["sequence"], first["batch"]) == (str(BIG), {"index": 0, "size": 3})
    assert (tombstone["key"], tombstone["value"]["form"]) == ("bob", "none")
    assert binary["value"]["form"] == "bytes"
    assert (len(alone["value"]["text"]), alone["value"]["cut"]) == (2_000, True)
    assert alone["batch"] is None
    assert (answer["scanned"], answer["entries"], answer["stopped"]) == (4, 2, "end")


async def test_without_a_place_the_newest_messages_come_first(bench: AdminBench) -> None:
    answer = await page(bench, limit="2")
    assert [row["producer"] for row in answer["rows"]] == ["q", "p"]
    older = await page(bench, limit="2", after=answer["after"])
    assert [row["key"] for row in older["rows"]] == ["bob", "ann"]


async def test_conditions_are_parameters(bench: AdminBench) -> None:
    async def ids(*properties: str, **params: str) -> list[str]:
        answer = await page(bench, *properties, start="earliest", **params)
        return [row["id"].split(":", 1)[1] for row in answer["rows"]]

    assert await ids(key="ann") == ["0:0"]
    assert await ids("region=eu") == await ids("region") == ["0:0"]
    assert await ids("region=us") == []
    assert await ids(path="$.id", equals=str(BIG)) == ["0:0"]
    assert await ids(text="xxx", producer="q") == ["1"]


async def test_a_message_is_read_whole_by_its_position(bench: AdminBench) -> None:
    *_, alone = (await page(bench, start="earliest"))["rows"]
    whole = await selectors.one(bench.engine, TOPIC, alone["id"])
    assert (len(whole["value"]["text"]), whole["value"]["cut"]) == (3_000, False)
    assert await selectors.value(bench.engine, TOPIC, alone["id"]) == b"x" * 3_000
    ledger = alone["id"].split(":")[0]
    second = await selectors.one(bench.engine, TOPIC, f"{ledger}:0:1")
    assert second["key"] == "bob"
    with pytest.raises(NotFound, match="no value"):
        await selectors.value(bench.engine, TOPIC, f"{ledger}:0:1")
    for absent in (f"{ledger}:7", f"{ledger}:0:3", "99999:0"):
        with pytest.raises(NotFound):
            await selectors.one(bench.engine, TOPIC, absent)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"start": "here"}, "start"),
        ({"start": "latest", "time": "5"}, "time"),
        ({"position": "1"}, "position"),
        ({"position": "1:99999999999999999999"}, "position"),
        ({"time": "yesterday"}, "time"),
        ({"direction": "up"}, "direction"),
        ({"start": "earliest", "direction": "backward"}, "direction"),
        ({"limit": "0"}, "limit"),
        ({"equals": "1"}, "path"),
        ({"path": "$.a["}, "path"),
        ({"key": "k" * 10_001}, "key"),
        ({"after": "x"}, "after"),
    ],
)
async def test_wrong_parameters_are_named(
    bench: AdminBench, params: dict[str, str], field: str
) -> None:
    with pytest.raises(InvalidField, match=f"^{field}:"):
        await page(bench, **params)


async def test_more_conditions_on_properties_than_allowed_are_refused(bench: AdminBench) -> None:
    with pytest.raises(InvalidField, match="property"):
        await page(bench, *["a"] * 21)
