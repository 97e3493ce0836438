"""The producer endpoint between a played client and a played broker: receipts, errors by context, bounds."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import _pulsar
import pulsar.asyncio
import pytest

from gateway.ws import producer as endpoint
from tests.unit.gateway.ws.socket_bench import Producer, Socket, settled


def frame(content: bytes, **more: Any) -> dict[str, Any]:
    return {"payload": base64.b64encode(content).decode(), "context": content.decode(), **more}


@asynccontextmanager
async def talking(socket: Socket, producer: Producer) -> AsyncIterator[None]:
    talk = endpoint._talk(socket, producer)  # type: ignore[arg-type]
    task = asyncio.get_running_loop().create_task(talk)
    try:
        yield
    finally:
        socket.reads.set()
        socket.hang_up()
        await settled()
        while producer.sending:
            producer.confirm(next(iter(producer.sending)), 0)
            await settled()
        await task


async def test_a_message_is_answered_when_the_broker_has_confirmed_it() -> None:
    socket, producer = Socket(), Producer()
    async with talking(socket, producer):
        socket.say(**frame(b"a"))
        socket.say(**frame(b"b"))
        await settled()
        assert set(producer.sending) == {b"a", b"b"}
        assert socket.out == [], "sent is not stored"
        producer.confirm(b"b", 2)
        await settled()
        assert [(one["result"], one["context"]) for one in socket.out] == [("ok", "b")]


@pytest.mark.parametrize(
    "error",
    [
        pulsar.asyncio.PulsarException(_pulsar.Result.Timeout),
        pulsar.asyncio.PulsarException(_pulsar.Result.ProducerQueueIsFull),
        ValueError("v"),
        TypeError("t"),
    ],
)
async def test_an_error_is_answered_by_its_own_context_and_harms_no_other(error: Exception) -> None:
    socket, producer = Socket(), Producer()
    async with talking(socket, producer):
        for content in (b"a", b"b", b"c"):
            socket.say(**frame(content))
        socket.say(**frame(b"d", payload="***"))
        await settled()
        producer.fail(b"b", error)
        producer.confirm(b"c", 3)
        producer.confirm(b"a", 1)
        await settled()
    answers = {one["context"]: one["result"] for one in socket.out}
    assert answers == {"a": "ok", "b": "send-error:8", "c": "ok", "d": "send-error:7"}


async def test_pending_messages_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "IN_FLIGHT_MAX", 3)
    socket, producer = Socket(), Producer()
    async with talking(socket, producer):
        for number in range(6):
            socket.say(**frame(b"%d" % number))
        await settled()
        assert producer.count == 3
        producer.confirm(b"1", 1)
        await settled()
        assert producer.count == 4


async def test_pending_messages_are_bounded_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    large = len(json.dumps(frame(b"x" * 1000)))
    monkeypatch.setattr(endpoint, "IN_FLIGHT_CHARACTERS_MAX", 2 * large)
    socket, producer = Socket(), Producer()
    async with talking(socket, producer):
        for letter in (b"a", b"b", b"c"):
            socket.say(**frame(letter * 1000))
        await settled()
        assert producer.count == 2
        producer.confirm(b"a" * 1000, 1)
        await settled()
        assert producer.count == 3
        socket.say(**frame(b"d" * 5000))  # alone it fits, however large
        producer.confirm(b"b" * 1000, 2)
        producer.confirm(b"c" * 1000, 3)
        await settled()
        assert producer.count == 4


async def test_a_client_that_reads_no_answers_is_not_read_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint, "IN_FLIGHT_MAX", 3)
    socket, producer = Socket(), Producer()
    async with talking(socket, producer):
        socket.reads.clear()
        for number in range(9):
            socket.say(**frame(b"%d" % number))
        for _ in range(9):
            await settled()
            if producer.sending:
                producer.confirm(next(iter(producer.sending)), 0)
        assert producer.count == 3, "answers that nobody reads are kept, so no more may come"
