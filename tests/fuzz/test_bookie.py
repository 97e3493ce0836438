"""A whole bookie under mutated conversations of both protocols: it serves others meanwhile, without errors."""

import asyncio
from typing import Any

from bookie.storage.codes import Code
from tests.fuzz.mutate import Mutator
from tests.fuzz.target import golden
from tests.support.bookies import Machine

CONVERSATIONS = 150


async def test_a_bookie_serves_honest_clients_under_hostile_conversations() -> None:
    broken: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
    frames = golden("bookkeeper_v2.jsonl", "request") + golden("bookkeeper_v3.jsonl", "request")
    mutator = Mutator([b"".join(frames[i : i + 6]) for i in range(0, len(frames), 3)], seed=3)
    machine = Machine()
    async with machine:
        honest = await machine.client()
        for i in range(CONVERSATIONS):
            other = await machine.client()
            other.writer.write(mutator.next())
            if i % 3 == 0:
                other.writer.write_eof()
                while await other.answer():
                    pass
            assert await honest.add(1, i, b"%d" % i) == Code.OK
            other.writer.transport.abort()
        assert [await honest.read(1, i) for i in (0, CONVERSATIONS - 1)] == [b"0", b"149"]
        await honest.close()
        assert machine.bookie.failed is None
        assert machine.bookie.serving.requests.long_polls <= CONVERSATIONS
        await machine.kill()
    async with machine:  # their entries in journal and cache are replayed
        honest = await machine.client()
        for i in range(CONVERSATIONS):
            assert await honest.read(1, i) == b"%d" % i
        await honest.close()
    assert not broken, broken[0]
