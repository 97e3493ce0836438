"""Values of messages as text: by their schema, as JSON, as text, as bytes."""

from typing import Any, cast

import pytest

from engine.base.names import TopicName
from engine.schema.kinds import Schema, SchemaKind
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message
from gateway.services.admin import schemas
from gateway.services.browsing.opening import BrowsedMessage, Kind
from gateway.services.browsing.values import HEX_BYTES_MAX, TopicValues
from gateway.services.engine_link import Engine

TOPIC = TopicName.parse("persistent://public/default/t-partition-1")
RECORD = b'{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'


def browsed(
    value: bytes | None, version: int | None = None, kind: Kind = Kind.MESSAGE
) -> BrowsedMessage:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    if version is not None:
        metadata.schema_version = version.to_bytes(8, "big")
    return BrowsedMessage(1, 2, kind, Message(value), metadata, None, 100)


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (
            b'{"id": 9223372036854775807, "a": 1.10}',
            "json",
            '{"id": 9223372036854775807, "a": 1.10}',
        ),
        (b"{not json}", "text", "{not json}"),
        (b'{"n": NaN}', "text", '{"n": NaN}'),
        (b"[-Infinity]", "text", "[-Infinity]"),
        (b"[" * 10_000, "text", "[" * 1_000),
        (b"12", "text", "12"),
        ("Zürich\t1\n".encode(), "text", "Zürich\t1\n"),
        (b"\xff\x00", "bytes", "ff 00"),
        (b"a\x00b", "bytes", "61 00 62"),
        (b"", "text", ""),
        (None, "none", ""),
    ],
)
def test_a_value_without_a_schema_is_shown_as_what_it_looks_like(
    value: bytes | None, form: str, text: str
) -> None:
    shown = TopicValues(TOPIC).shown(browsed(value), 1_000)
    assert (shown["form"], shown["text"], shown["error"]) == (form, text, None)
    assert shown["bytes"] == len(value or b"")


def test_long_values_are_cut() -> None:
    values = TopicValues(TOPIC)
    shown = values.shown(browsed(b"x" * 5_000_000), 2_000)
    assert (len(shown["text"]), shown["cut"], shown["bytes"]) == (2_000, True, 5_000_000)
    hexadecimal = values.shown(browsed(b"\xff" * 5_000), 2_000)
    assert (len(hexadecimal["text"]), hexadecimal["cut"]) == (3 * HEX_BYTES_MAX - 1, True)
    assert values.text(browsed(b"x" * 5_000_000)) == "x" * 5_000_000


def test_stored_bytes_that_are_no_value_are_never_text() -> None:
    assert TopicValues(TOPIC).shown(browsed(b"abc", kind=Kind.ENCRYPTED), 99)["form"] == "bytes"


async def test_a_value_is_decoded_by_the_version_that_its_message_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    async def stored(_: Engine, topic: TopicName, numbers: Any) -> dict[int, Any]:
        asked.append((str(topic), sorted(numbers)))
        schema = schemas.StoredSchema(0, Schema(SchemaKind.AVRO, RECORD, {}))
        return {0: schema, 7: "schema version 7 was not found"}

    monkeypatch.setattr(schemas, "stored", stored)
    values, engine = TopicValues(TOPIC), cast(Engine, None)
    messages = [browsed(b"\x06", 0), browsed(b"abc", 7), browsed(b"", 0)]
    await values.fetch(engine, messages)
    await values.fetch(engine, messages)
    assert asked == [("persistent://public/default/t", [0, 7])], "each version once"
    good, missing, bad = (values.shown(message, 99) for message in messages)
    assert (good["form"], good["text"], good["schema_version"]) == ("json", '{"n": 3}', 0)
    assert (missing["form"], missing["text"]) == ("text", "abc")
    assert missing["error"] == "schema version 7 was not found"
    assert bad["error"]
