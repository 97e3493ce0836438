"""Ledgers of either client on bookies of either kind: what one writes the other recovers, reads and is fenced from."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError, LedgerFencedError, UnauthorizedError
from engine.ledger.ledger_metadata import LedgerState
from engine.ledger.settings import LedgerSettings
from engine.ledger.writing.writer import LedgerWriter
from engine.net.network import LoopNetwork
from tests.oracle.ledgers_java import FENCED, UNAUTHORIZED, JavaLedgers, expected, payload
from tests.oracle.servers import ApacheBookies, OurBookies, connected
from tests.support.instance import ROOT
from tests.support.ledger_cluster import Listener, payloads_of, run_of

pytestmark = [pytest.mark.slow]

Bookies = ApacheBookies | OurBookies


@pytest.fixture(scope="module", params=["our_bookies", "apache_bookies"])
def bookies(request: pytest.FixtureRequest, java: JavaLedgers) -> Bookies:
    cluster: Bookies = request.getfixturevalue(request.param)
    java.run("client", "both", cluster.uri, "V2")
    return cluster


@asynccontextmanager
async def ours(
    bookies: Bookies, settings: LedgerSettings | None = None
) -> AsyncIterator[LedgerClient]:
    """Open a ledger client of ours."""
    store = await connected(bookies.zk)
    client = LedgerClient(
        store=store,
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        settings=settings,
    )
    try:
        yield client
    finally:
        await client.close()
        await store.close()


async def ask(java: JavaLedgers, *words: object) -> str:
    """Run a command of the driver without blocking our client."""
    return await asyncio.to_thread(java.run, *words)


async def entries(reader: Any, size: int) -> int:
    """Reads all that is confirmed; each must be what was written as that entry. Their number."""
    following = 0
    while following <= reader.last_confirmed:
        for run in await reader.read(following, reader.last_confirmed, 1 << 20):
            for content in payloads_of([run]):
                assert content == payload(following, size)
                following += 1
    return following


@pytest.mark.parametrize("digest", ["CRC32C", "CRC32", "MAC", "DUMMY"])
async def test_ours_reads_what_java_closed(
    java: JavaLedgers, bookies: Bookies, digest: str
) -> None:
    ledger = int(await ask(java, "create", "both", "w", 3, 2, 2, digest, "secret", "a=b"))
    await ask(java, "add", "w", 300, 500)
    await ask(java, "close", "w")
    async with ours(bookies) as client:
        with pytest.raises(UnauthorizedError):
            await client.open(ledger, b"wrong", recover=False)
        reader = await client.open(ledger, b"secret", recover=True)
        assert reader.length == 150_000
        assert reader.metadata.custom == {"a": b"b"}
        assert await entries(reader, 500) == 300


async def test_java_reads_what_ours_closed(java: JavaLedgers, bookies: Bookies) -> None:
    listener = Listener()
    async with ours(bookies) as client:
        writer = await client.create(3, 2, 2, b"secret", {"a": b"b"}, listener)
        for first in range(0, 300, 50):
            writer.append(run_of(*(payload(e, 500) for e in range(first, first + 50))))
        await listener.reach(300)
        await writer.close()
    metadata = await ask(java, "metadata", "both", writer.ledger_id)
    assert "state=CLOSED, length=150000, lastEntryId=299, digestType=CRC32C" in metadata
    opened = ["open", "both", "r", writer.ledger_id, "CRC32C"]
    assert java.code(*opened, "wrong", "plain") == UNAUTHORIZED
    assert java.state(*opened, "secret", "recover") == (299, 150_000, True, 1)
    assert java.seen("read", "r", 0, 299) == expected(0, 299, 500)


async def test_ours_recovers_and_fences_a_java_writer(java: JavaLedgers, bookies: Bookies) -> None:
    ledger = int(await ask(java, "create", "both", "w", 3, 3, 2, "CRC32C", "-"))
    await ask(java, "add", "w", 120, 500)
    async with ours(bookies) as client:
        reader = await client.open(ledger, recover=True)
        assert await entries(reader, 500) == 120
        assert reader.length == 60_000
    assert java.code("add", "w", 1, 500) == FENCED


async def test_java_recovers_and_fences_a_writer_of_ours(
    java: JavaLedgers, bookies: Bookies
) -> None:
    listener = Listener()
    async with ours(bookies) as client:
        writer = await client.create(3, 3, 2, listener=listener)
        writer.append(run_of(*(payload(e, 500) for e in range(120))))
        await listener.reach(120)
        opened = await ask(java, "open", "both", "r", writer.ledger_id, "CRC32C", "-", "recover")
        assert opened == "119 60000 true 1"
        # An add in flight to the third bookie may have met the fence.
        with suppress(LedgerFencedError):
            writer.append(run_of(payload(120, 500)))
        assert isinstance(await listener.fail(), LedgerFencedError)
        metadata = await client.metadata(writer.ledger_id)
        assert (metadata.state, metadata.last_entry) == (LedgerState.CLOSED, 119)
    assert java.seen("read", "r", 0, 119) == expected(0, 119, 500)


async def test_ours_follows_a_java_writer_and_java_one_of_ours(
    java: JavaLedgers, bookies: Bookies
) -> None:
    async with ours(bookies) as client:
        ledger = int(await ask(java, "create", "both", "w", 3, 3, 2, "CRC32C", "-"))
        await ask(java, "add", "w", 10, 100)
        await ask(java, "add", "w", 1, 100)
        reader = await client.open(ledger, recover=False)
        assert reader.last_confirmed in (9, 10)
        assert await entries(reader, 100) >= 10
        await ask(java, "add", "w", 1, 100)
        assert await reader.read_last_confirmed() in (10, 11)
        await ask(java, "close", "w")
        assert await reader.read_last_confirmed() == 11
        listener = Listener()
        writer = await client.create(3, 3, 2, listener=listener)
        for entry in range(11):
            writer.append(run_of(payload(entry, 100)))
            await listener.reach(entry + 1)
        opened = ["open", "both", "r", writer.ledger_id, "CRC32C", "-", "plain"]
        assert (await asyncio.to_thread(java.state, *opened)).last in (9, 10)
        assert java.seen("read", "r", 0, 9) == expected(0, 9, 100)
        await writer.close()


async def test_an_idle_writer_of_either_side_reports_its_last_confirmed_entry(
    java: JavaLedgers, bookies: Bookies
) -> None:
    """Explicit LAC: the last entry is known to be confirmed although none comes after it."""
    java.run("client", "telling", bookies.uri, "V3", "explicitLacInterval=50")
    async with ours(bookies, LedgerSettings(explicit_lac_interval_s=0.05)) as client:
        ledger = int(await ask(java, "create", "telling", "w", 3, 3, 2, "CRC32C", "-"))
        await ask(java, "add", "w", 5, 100)
        reader = await client.open(ledger, recover=False)
        async with asyncio.timeout(10):
            while await reader.read_last_confirmed() < 4:
                await asyncio.sleep(0.05)
        assert await entries(reader, 100) == 5
        listener = Listener()
        writer = await client.create(3, 3, 2, listener=listener)
        writer.append(run_of(*(payload(e, 100) for e in range(5))))
        await listener.reach(5)
        opened = ["open", "telling", "r", writer.ledger_id, "CRC32C", "-", "plain"]
        await ask(java, *opened)
        async with asyncio.timeout(10):
            while await ask(java, "explicit-last", "r") != "4":
                await asyncio.sleep(0.05)
        got = await asyncio.to_thread(java.seen, "read", "r", 0, 4)
        assert got == expected(0, 4, 100)
    await ask(java, "close", "w")


async def test_ours_recovers_what_a_killed_java_writer_left(
    driver_classes: str, bookies: Bookies
) -> None:
    victim = JavaLedgers(driver_classes)
    try:
        await ask(victim, "client", "c", bookies.uri, "V2")
        ledger = int(await ask(victim, "create", "c", "w", 3, 3, 2, "CRC32C", "-"))
        await ask(victim, "add", "w", 500, 500)
        victim.begin("add", "w", 1_000_000, 500)
        await asyncio.sleep(0.3)
    finally:
        victim.kill()
    async with ours(bookies) as client:
        reader = await client.open(ledger, recover=True)
        count = await entries(reader, 500)
        assert count > 500
        assert reader.length == 500 * count


def test_java_recovers_what_a_killed_writer_of_ours_left(
    java: JavaLedgers, bookies: Bookies
) -> None:
    command = [sys.executable, "-m", "tests.oracle.writer_process", bookies.zk, "500"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        try:
            ledger = victim.stdout.readline().strip()
            confirmed = 0
            while confirmed < 3000:
                confirmed = int(victim.stdout.readline())
        finally:
            victim.kill()
        reported = [int(line) for line in victim.stdout]
    opened = java.state("open", "both", "r", ledger, "CRC32C", "-", "recover")
    assert opened.closed
    assert opened.last + 1 >= max([confirmed, *reported])
    assert opened.length == 500 * (opened.last + 1)
    assert java.seen("read", "r", 0, opened.last) == expected(0, opened.last, 500)


async def test_ledgers_lie_on_bookies_of_both_kinds(
    java: JavaLedgers, apache_bookies: ApacheBookies, tmp_path: Path
) -> None:
    """Three of Apache's and one of ours hold every entry."""
    with OurBookies(tmp_path, apache_bookies.zk, count=1) as added:
        java.run("client", "mixed", apache_bookies.uri, "V3")
        ledger = int(await ask(java, "create", "mixed", "w", 4, 4, 4, "CRC32C", "-"))
        assert added.each[0].id in await ask(java, "metadata", "mixed", ledger)
        await ask(java, "add", "w", 200, 500)
        listener = Listener()
        async with ours(apache_bookies) as client:
            writer = await client.create(4, 4, 4, listener=listener)
            writer.append(run_of(*(payload(e, 500) for e in range(200))))
            await listener.reach(200)
            reader = await client.open(ledger, recover=True)
            assert await entries(reader, 500) == 200
            opened = ["open", "mixed", "r", writer.ledger_id, "CRC32C", "-", "recover"]
            assert (await asyncio.to_thread(java.state, *opened)) == (199, 100_000, True, 1)
            assert isinstance(await fenced(writer, listener), LedgerFencedError)
        assert java.seen("read", "r", 0, 199) == expected(0, 199, 500)
        assert java.code("add", "w", 1, 500) == FENCED


async def fenced(writer: LedgerWriter, listener: Listener) -> LedgerError:
    """Append to a fenced ledger and return the writer's failure."""
    writer.append(run_of(b"too late"))
    return await listener.fail()
