"""Explicit LAC: an idle writer's last entry becomes known without another one; nothing unconfirmed does."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from engine.ledger.digest import Digest, DigestType, Header
from engine.ledger.reading.explicit_lac import confirmed_by
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb
from tests.support.ledger_cluster import PATIENT, Cluster, Listener, payloads_of, run_of
from tests.support.scripted_bookies import World, numbered

pytestmark = pytest.mark.virtual_time

Start = Callable[[int], Awaitable[Cluster]]
TOLD = replace(PATIENT, explicit_lac_interval_s=0.02)
DIGEST = Digest(DigestType.CRC32C, b"")


def test_the_explicit_lac_body_has_bookkeepers_bytes() -> None:
    body = v3.explicit_lac(5, 3, b"")
    assert (body + DIGEST.compute(body, b"")).hex() == "000000000000000500000000000000037bd17d65"


async def test_a_reader_sees_the_last_entry_of_an_idle_writer(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    listener = Listener()
    writer = await cluster.client(TOLD).create(3, 3, 2, listener=listener)
    reader = await cluster.client(TOLD).open(writer.ledger_id, recover=False)
    assert reader.last_confirmed == -1
    for round_ in (1, 2):
        writer.append(run_of(*numbered(3)))
        await listener.reach(3 * round_)
        async with asyncio.timeout(120):
            while await reader.read_last_confirmed() < 3 * round_ - 1:
                await asyncio.sleep(0.01)
        assert reader.last_confirmed == writer.last_confirmed
    assert payloads_of(await reader.read(3, 5, 1000)) == numbered(3)
    await writer.close()


async def test_without_the_setting_no_explicit_lac_is_sent(start_cluster: Start) -> None:
    cluster = await start_cluster(1)
    listener = Listener()
    writer = await cluster.client().create(1, 1, 1, listener=listener)
    writer.append(run_of(*numbered(3)))
    await listener.reach(3)
    await asyncio.sleep(0.1)  # time: five intervals, were there the setting
    reader = await cluster.client(TOLD).open(writer.ledger_id, recover=False)
    assert reader.last_confirmed == -1


async def test_bookies_without_v3_lose_only_the_explicit_lac(world: World) -> None:
    """Keep writing, reading and other ledgers on their own connections when a bookie closes the V3 connection."""
    await world.start(2)
    listener = Listener()
    client = world.client(explicit_lac_interval_s=0.02)
    writer = await client.create(2, 2, 2, listener=listener)
    for count in range(1, 6):
        writer.append(run_of(b"x"))
        await listener.reach(count)
        await asyncio.sleep(0.03)  # time: an interval passes between two entries
    reader = await client.open(writer.ledger_id, recover=False)
    assert reader.last_confirmed == 3  # by the header of the last entry
    assert len(writer.metadata.segments) == 1
    assert client.bookies.choice.health.suspects(asyncio.get_running_loop().time()) == []
    assert all(len(bookie.transports) <= 3 for bookie in world.bookies.values())
    await writer.close()


@pytest.mark.parametrize("kind", list(DigestType))
def test_only_intact_explicit_lacs_of_the_ledger_are_accepted(kind: DigestType) -> None:
    digest = Digest(kind, b"pw")
    ids = v3.explicit_lac(5, 7, b"")
    body = ids + digest.compute(ids, b"")
    entry = digest.seal(Header(5, 9, 6, 100), b"payload")
    answer = pb.ReadLacResponse(status=pb.EOK, ledgerId=5)
    assert confirmed_by(answer, 5, digest) == -1
    answer.lastEntryBody = entry
    assert confirmed_by(answer, 5, digest) == 6
    answer.lacBody = body
    assert confirmed_by(answer, 5, digest) == 7
    assert confirmed_by(answer, 6, digest) == -1
    for damaged in (body[:-1], body + b"x", b"", ids[:3]):
        answer.lacBody = damaged
        expected = 7 if damaged == body else 6
        assert confirmed_by(answer, 5, digest) == expected
    if kind is not DigestType.DUMMY:
        answer.lacBody = ids[:15] + b"\x7f" + body[16:]
        answer.lastEntryBody = entry[:20] + b"\x7f" + entry[21:]
        assert confirmed_by(answer, 5, digest) == -1
