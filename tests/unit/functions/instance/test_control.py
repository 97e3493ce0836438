"""The question of an instance to its worker, for the brokers."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engine.functions.instance import control
from engine.functions.instance.control import ControlEnd


class Worker:
    """The worker's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def line(self) -> Any:
        async with asyncio.timeout(30):
            return json.loads(await self._reader.readline())

    def say(self, **fields: Any) -> None:
        self._writer.write(json.dumps(fields).encode() + b"\n")


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[ControlEnd, Worker]]:
    ours, theirs = socket.socketpair()
    end = ControlEnd({}, lambda end_s: None)
    inside, outside = await asyncio.open_unix_connection(sock=ours)
    serving = asyncio.get_running_loop().create_task(end.serve(inside, outside))
    reader, writer = await asyncio.open_unix_connection(sock=theirs)
    await asyncio.sleep(0)  # it serves
    try:
        yield end, Worker(reader, writer)
    finally:
        serving.cancel()  # first: the end of the socket would be the end of this process
        await asyncio.wait([serving])
        for used in (writer, outside):
            used.close()
            await used.wait_closed()


async def test_several_lookups_at_once_ask_once() -> None:
    async with connected() as (end, worker):
        asked = asyncio.gather(end.brokers(), end.brokers())
        assert await worker.line() == {"brokers": True}
        worker.say(brokers="pulsar://a:1")
        assert await asked == ["pulsar://a:1", "pulsar://a:1"]
        again = asyncio.gather(end.brokers())
        assert await worker.line() == {"brokers": True}
        worker.say(brokers="pulsar://b:2")
        assert await again == ["pulsar://b:2"]


async def test_a_worker_that_does_not_answer_in_time_is_not_asked_again_until_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control, "BROKERS_S", 0.05)
    async with connected() as (end, worker):
        assert [await end.brokers() for _ in range(3)] == ["", "", ""]
        assert await worker.line() == {"brokers": True}
        monkeypatch.setattr(control, "BROKERS_S", 30.0)
        late = asyncio.gather(end.brokers())
        worker.say(brokers="pulsar://a:1")
        assert await late == ["pulsar://a:1"]
        again = asyncio.gather(end.brokers())
        assert await worker.line() == {"brokers": True}
        worker.say(brokers="pulsar://b:2")
        assert await again == ["pulsar://b:2"]
