"""Real bookies with auto-recovery: one is killed and its disks are gone while ledgers are written; in the end every
confirmed entry is on its whole write set."""

import asyncio
import shutil
from pathlib import Path

import pytest

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.ledger.client import LedgerClient
from engine.ledger.settings import LedgerSettings
from engine.metadata.connect import connect
from engine.metadata.store import MetadataStore
from engine.net.network import LoopNetwork
from engine.programs.commands.bookies import main as bookies_command
from engine.repair.ledger_listing import ledgers
from engine.repair.ledger_repair import LedgerRepair
from tests.oracle.servers import OurBookie, OurMetadata
from tests.support.ledger_cluster import Listener, payloads_of, run_of

QUICK = {
    "MAGNETAR_AUTO_RECOVERY_DAEMON_ENABLED": "true",
    "MAGNETAR_LOST_BOOKIE_RECOVERY_DELAY": "1",
    "MAGNETAR_OPEN_LEDGER_REREPLICATION_GRACE_PERIOD_S": "2",
    "MAGNETAR_RW_REREPLICATE_BACKOFF_S": "0.5",
    "MAGNETAR_AUDITOR_PERIODIC_CHECK_INTERVAL": "5",
}
SESSION_S = 4.0
REPAIRED_S = 120.0
LEDGERS = 24
ENTRIES = 200
PAYLOAD = b"x" * 2000


def client_of(store: MetadataStore) -> LedgerClient:
    return LedgerClient(
        store=store,
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        settings=LedgerSettings(),
    )


@pytest.mark.slow
async def test_a_lost_bookie_is_repaired_while_ledgers_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = OurMetadata(tmp_path)
    metadata.start()
    bookies = [
        OurBookie(tmp_path, f"bookie-{i}", metadata.zk, env=QUICK, zk_timeout_s=SESSION_S)
        for i in range(5)
    ]
    store = await connect(f"zk:{metadata.zk}")
    client = client_of(store)
    try:
        for bookie in bookies[:4]:
            await asyncio.to_thread(bookie.start)
        written: dict[int, list[bytes]] = {}
        for number in range(LEDGERS):
            if number == LEDGERS // 2:
                bookies[0].kill()
                shutil.rmtree(bookies[0].data)
                await asyncio.to_thread(bookies[4].start)
            await _write(client, number, written)
        await _until_whole(store, client, lost=bookies[0].id)
        for ledger, wanted in written.items():
            reader = await client.open(ledger, recover=True)
            read: list[bytes] = []
            while len(read) <= reader.last_confirmed:
                read += payloads_of(await reader.read(len(read), reader.last_confirmed, 1 << 20))
            assert read == wanted
        monkeypatch.setenv("MAGNETAR_METADATA_URL", f"zk:{metadata.zk}")
        assert await asyncio.to_thread(bookies_command, ["decommission", bookies[0].id]) == 0
        assert await asyncio.to_thread(bookies_command, ["whoisauditor"]) == 0
        assert await asyncio.to_thread(bookies_command, ["triggeraudit"]) == 0
        assert await asyncio.to_thread(bookies_command, ["bookiesanity", bookies[1].id]) == 0
        for command in (["listbookies"], ["bookieinfo"], ["ledgermetadata", str(min(written))]):
            assert await asyncio.to_thread(bookies_command, command) == 0
        shown = capsys.readouterr().out
        assert all(f"{bookie.id} writable\n" in shown for bookie in bookies[1:])
        assert f"{bookies[0].id} " not in shown.partition("is decommissioned")[2]
        assert f"{bookies[1].id}: {{Free: " in shown
        assert f'"ledgerId": {min(written)}, ' in shown
        assert f"{bookies[0].id} is decommissioned" in shown
        assert any(f"Auditor: {bookie.id}" in shown for bookie in bookies[1:])
    finally:
        await client.close()
        await store.close()
        for bookie in bookies:
            bookie.kill()
        metadata.kill()


async def _write(client: LedgerClient, number: int, written: dict[int, list[bytes]]) -> None:
    """Write a ledger, every fourth of which stays open as of a writer that is gone."""
    listener = Listener()
    writer = await client.create(3, 3, 2, listener=listener)
    payloads = [b"%d/%d " % (number, i) + PAYLOAD for i in range(ENTRIES)]
    for i in range(0, ENTRIES, 20):
        writer.append(run_of(*payloads[i : i + 20]))
        await listener.reach(i + 20)
    if number % 4:
        await writer.close()
    written[writer.ledger_id] = payloads


async def _until_whole(store: MetadataStore, client: LedgerClient, lost: str) -> None:
    """Wait until no ledger names the lost bookie and all copies are there."""
    repair = LedgerRepair(store, client, batch_bytes=1 << 20, rate_by_bytes=0)
    async with asyncio.timeout(REPAIRED_S):
        while True:
            left = []
            async for batch in ledgers(store):
                for ledger, metadata in batch:
                    members = {b for segment in metadata.segments for b in segment.bookies}
                    _, findings = await repair.examine(ledger)
                    if lost in members or not findings.whole:
                        left.append(ledger)
            if not left:
                return
            await asyncio.sleep(0.5)
