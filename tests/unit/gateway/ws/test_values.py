"""Sockets that ask for values get them beside what the frames say anyway, each by the schema its message names."""

import asyncio
import base64
import json
from typing import Any

import pytest

from engine.broker.errors import ServiceNotReady
from engine.schema.decoding import Decoder, decoder
from engine.schema.kinds import Schema, SchemaKind, joined, version_bytes
from engine.schema.stored_versions import Version
from engine.tenancy.strategy import Strategy
from engine.wire.batches import Message
from gateway.ws import values
from tests.support.broker_bench import NAME, Bench
from tests.support.net.socket_pair import SocketPair
from tests.unit.client.consuming.client_bench import Publisher
from tests.unit.gateway.ws.test_consumer import TOPIC, opened

AVRO = Schema(
    SchemaKind.AVRO,
    b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}',
    {},
)
TEXT = Schema(SchemaKind.STRING, b"", {})
PAIR = Schema(
    SchemaKind.KEY_VALUE,
    joined(b"", b""),
    {"key.schema.type": "STRING", "value.schema.type": "INT8", "kv.encoding.type": "SEPARATED"},
)
PATHS = (
    f"consumer/{TOPIC}/s?decode=true",
    f"reader/{TOPIC}?messageId=earliest&decode=true",
    f"consumer/{TOPIC}/plain",
)


def by(version: int) -> dict[str, Any]:
    return {"extra": {"schema_version": version_bytes(version)}}


async def registered(bench: Bench, *schemas: Schema) -> None:
    registry = bench.schemas._registry
    for schema in schemas:
        await registry.register(NAME, schema, Strategy.ALWAYS_COMPATIBLE)


async def received(pair: SocketPair, count: int) -> list[dict[str, Any]]:
    """Return frames without the members that every frame has."""
    frames = [json.loads(await pair.receive()) for _ in range(count)]
    for frame in frames:
        for name in ("messageId", "properties", "publishTime", "redeliveryCount"):
            del frame[name]
    return frames


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


async def test_values_are_beside_payloads_and_others_see_no_difference() -> None:
    async with opened(*PATHS) as (bench, [consumer, reader, plain]):
        await registered(bench, AVRO, TEXT, PAIR)
        publisher = await Publisher.to(consumer.cluster.client)
        await publisher.entry(b"\x06", b"\x08", **by(0))
        await publisher.entry("ä".encode(), **by(1))
        await publisher.entry(Message(b"\x07", key="aw==", key_is_base64=True), **by(2))
        await publisher.entry(b"", **by(0))
        await publisher.entry(Message(None), **by(0))
        await publisher.entry(b"raw")
        await publisher.entry(b"?", **by(9))
        expected = [
            {"payload": "Bg==", "schemaVersion": 0, "value": {"a": 3}},
            {"payload": "CA==", "schemaVersion": 0, "value": {"a": 4}},
            {"payload": encoded("ä".encode()), "schemaVersion": 1, "value": "ä"},
            {"payload": "Bw==", "key": "aw==", "schemaVersion": 2, "value": {"key": "k", "value": 7}},
            {"payload": "", "schemaVersion": 0, "decodeError": "a: the data ends early"},
            {"payload": "", "schemaVersion": 0, "value": None},
            {"payload": "cmF3", "decodeError": "its producer named no schema version"},
        ]  # fmt: skip
        for pair in (consumer, reader):
            frames = await received(pair, 8)
            assert frames[:7] == expected
            assert frames[7]["payload"] == "Pw=="
            assert frames[7]["decodeError"].startswith("schema version 9: ")
        without = ("schemaVersion", "value", "decodeError")
        bare = [{k: v for k, v in frame.items() if k not in without} for frame in expected]
        assert await received(plain, 8) == [*bare, {"payload": "Pw=="}]


async def test_a_version_is_requested_once_until_the_consumer_reconnects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    async with opened(PATHS[0]) as (bench, [pair]):
        await registered(bench, AVRO, TEXT)
        version = bench.schemas.version

        async def counted(name: Any, number: int | None) -> Version | None:
            asked.append(number)
            return await version(name, number)

        monkeypatch.setattr(bench.schemas, "version", counted)
        publisher = await Publisher.to(pair.cluster.client)
        for number in (0, 1, 0, 1):
            await publisher.entry(b"\x06", b"\x06", **by(number))
        values_seen = [frame["value"] for frame in await received(pair, 8)]
        assert values_seen == [{"a": 3}] * 2 + ["\x06"] * 2 + [{"a": 3}] * 2 + ["\x06"] * 2
        assert asked == [0, 1]
        for link in list(pair.cluster.client._links._open.values()):
            link.abort()
        again = await received(pair, 8)
        assert [frame["value"] for frame in again] == values_seen, "none was acknowledged"
        assert asked == [0, 1, 0, 1]


async def test_slow_decoding_yields_and_keeps_the_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(values, "TURN_BYTES_MAX", 5)
    monkeypatch.setattr(values, "VALUE_BYTES_MAX", 6)
    async with opened(PATHS[0]) as (bench, [pair]):
        await registered(bench, TEXT)
        publisher = await Publisher.to(pair.cluster.client)
        texts = [f"{number:04}" for number in range(50)]
        await publisher.entry(*map(str.encode, texts), **by(0))
        await publisher.entry(b"long text", **by(0))
        await publisher.entry(b"last", **by(0))
        frames = await received(pair, 52)
        assert [frame.get("value") for frame in frames] == [*texts, None, "last"]
        assert frames[50]["decodeError"] == "9 bytes, at most 6 are decoded here"


async def no_answer(name: Any, number: int | None) -> Version | None:
    raise ServiceNotReady("no bookie answers")


async def test_messages_without_an_available_schema_are_delivered_without_a_request_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(PATHS[0]) as (bench, [pair]):
        await registered(bench, TEXT)
        pair.cluster.client.operation_timeout_s = 0.3
        asked: list[object] = []

        async def silent(name: Any, number: int | None) -> Version | None:
            asked.append(number)
            return await no_answer(name, number)

        monkeypatch.setattr(bench.schemas, "version", silent)
        monkeypatch.setattr(values, "RETRY_AFTER_S", 3600.0)
        publisher = await Publisher.to(pair.cluster.client)
        for _ in range(5):
            await publisher.entry(b"a", **by(0))
        expected = {"payload": "YQ==", "schemaVersion": 0}
        why = {"decodeError": "schema version 0: no bookie answers"}
        assert await received(pair, 5) == [expected | why] * 5
        tries = len(asked)
        await publisher.entry(b"a", **by(0))
        assert await received(pair, 1) == [expected | why]
        assert len(asked) == tries


async def test_an_unavailable_schema_is_requested_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(values, "RETRY_AFTER_S", 0.05)
    async with opened(PATHS[0]) as (bench, [pair]):
        await registered(bench, TEXT)
        pair.cluster.client.operation_timeout_s = 0.3
        publisher = await Publisher.to(pair.cluster.client)
        with monkeypatch.context() as patched:
            patched.setattr(bench.schemas, "version", no_answer)
            await publisher.entry(b"a", **by(0))
            assert "decodeError" in (await received(pair, 1))[0]
        frame: dict[str, Any] = {}
        while "value" not in frame:
            await publisher.entry(b"a", **by(0))
            [frame] = await received(pair, 1)
        assert frame["value"] == "a"


async def test_an_unexpected_failure_of_a_schema_request_ends_the_socket(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(self: values.SchemaCache, message: Any) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(values.SchemaCache, "learn", broken)
    async with opened(PATHS[0]) as (_, [pair]):
        publisher = await Publisher.to(pair.cluster.client)
        await publisher.entry(b"a", **by(0))
        await asyncio.wait_for(pair.ended.wait(), 60)
        assert pair.closed() == (1011, "internal error: ZeroDivisionError")
    assert "a mistake of ours" in caplog.text


async def test_sockets_share_what_decodes_by_one_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Schema] = []

    def counted(schema: Schema) -> Decoder:
        made.append(schema)
        return decoder(schema)

    monkeypatch.setattr(values, "decoder", counted)
    own = Schema(SchemaKind.STRING, b"", {"__charset": "US-ASCII"})
    async with opened(*PATHS[:2]) as (bench, pairs):
        await registered(bench, own)
        publisher = await Publisher.to(pairs[0].cluster.client)
        await publisher.entry(b"a", **by(0))
        for pair in pairs:
            assert (await received(pair, 1))[0]["value"] == "a"
        assert made == [own]
