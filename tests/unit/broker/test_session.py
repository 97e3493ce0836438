"""A request always gets an answer while its connection lasts."""

import asyncio
from pathlib import Path

from engine.broker.session import Session
from engine.wire import frames
from engine.wire import pulsar_pb2 as pb
from tests.unit.broker.bench import opened


async def test_a_request_whose_work_is_cancelled_by_others_is_told_to_try_again(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as bench:
        session = Session(bench.registry, lambda ended: None)
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]
        shared: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        session._start(asyncio.shield(shared), 7)
        await asyncio.sleep(0)
        shared.cancel()
        async with asyncio.timeout(1):
            while not sent:
                await asyncio.sleep(0)
        start, stop = frames.command_span(bytes(sent), 0, len(sent))
        answer = pb.BaseCommand.FromString(bytes(sent[start:stop]))
        assert answer.error.request_id == 7
        assert answer.error.error == pb.ServiceNotReady
        session.closed(None)
