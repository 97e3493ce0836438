"""The messages of a topic through the console's reads, as a broker stores them."""

import csv
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pyarrow import parquet

from admin_ui.messages import exporting, selectors, shapes
from admin_ui.messages.given import given_line
from engine.base.errors import InvalidField, NotFound, NotReady
from engine.base.names import TopicName
from engine.wire.batches import Message, pack_entry
from gateway.services.admin import topics
from gateway.services.browsing.scan import MessageScan
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


async def exported(bench: AdminBench, **params: str) -> tuple[bytes, exporting.ExportedFile]:
    async def run(work: Any) -> Any:
        return await work(bench.engine)

    result = await exporting.export(run, TOPIC, {"start": "earliest", **params})
    return b"".join([piece async for piece in exporting.pieces(result.file)]), result


async def test_an_exported_query_can_be_published_again_as_it_was(bench: AdminBench) -> None:
    data, result = await exported(bench)
    assert (result.messages, result.scanned, result.stopped) == (4, 4, "end")
    assert result.size == len(data)
    first, tombstone, binary, alone = [given_line(line, 0) for line in data.decode().splitlines()]
    assert first.payload == f'{{"id": {BIG}}}', "all digits"
    assert (first.key, first.properties, first.event_ms) == ("ann", {"region": "eu"}, 5)
    assert (tombstone.payload, tombstone.key) == (None, "bob")
    assert (binary.payload, alone.payload) == (b"\xff" * 10, "x" * 3_000)
    data, result = await exported(bench, limit="1")
    assert (result.messages, result.stopped, data.count(b"\n")) == (1, "limit", 1)


async def test_a_query_is_exported_as_a_table(bench: AdminBench) -> None:
    data, _ = await exported(bench, format="csv")
    lines = list(csv.DictReader(io.StringIO(data.decode())))
    assert [line["key"] for line in lines] == ["ann", "bob", "", ""]
    assert lines[0]["value"] == f'{{"id": {BIG}}}'
    data, _ = await exported(bench, format="parquet")
    rows = parquet.read_table(io.BytesIO(data)).to_pylist()
    assert [row["key"] for row in rows] == ["ann", "bob", None, None]
    assert rows[0]["properties"] == [("region", "eu")]
    assert rows[3]["value"] == "x" * 3_000
    with pytest.raises(InvalidField, match=r"^format:"):
        await exported(bench, format="xml")


def test_a_time_that_parquet_cannot_hold_is_a_problem_of_its_row_alone() -> None:
    row = dict.fromkeys(exporting.COLUMNS) | {"id": "1:0", "properties": {}, "published": 7}
    late = row | {"published": (1 << 64) - 1, "event_time": 1 << 63, "problem": "unread"}
    file = io.BytesIO()
    writer = exporting._Parquet(file)
    writer.write([row, late])
    writer.close()
    first, second = parquet.read_table(file).to_pylist()
    assert (first["published"].microsecond, first["problem"]) == (7_000, None)
    assert (second["published"], second["event_time"]) == (None, None)
    assert second["problem"] == (
        "unread; published is 18446744073709551615, which is no time;"
        " event_time is 9223372036854775808, which is no time"
    )


async def test_no_file_is_made_without_a_partition_that_does_not_answer() -> None:
    async def run(work: Any) -> Any:
        return MessageScan([], "end", 0, 0, 0, 0, 2, [1], "")

    with pytest.raises(NotReady, match="partitions 1 do not answer"):
        await exporting.export(run, TOPIC, {})


def test_a_value_of_several_lines_is_a_text_in_one_line() -> None:
    row = dict.fromkeys(exporting.COLUMNS) | {"value": '{\n"a": 1.10}', "is_json": True}
    assert exporting.json_line(row).count("\n") == 1
    assert given_line(exporting.json_line(row | {"id": "1:0"}), 0).payload == '{\n"a": 1.10}'


@pytest.mark.parametrize(
    "value", ['{"n": NaN}', '{"n": [-Infinity]}', '{"note": "NaN"}', '{"n": 1, "n": 2}']
)
def test_each_exported_line_is_json_for_any_program(value: str) -> None:
    row = dict.fromkeys(exporting.COLUMNS) | {"id": "1:0", "value": value, "is_json": True}
    line = exporting.json_line(row)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    json.loads(line, parse_constant=refuse)
    assert given_line(line, 0).payload == value
