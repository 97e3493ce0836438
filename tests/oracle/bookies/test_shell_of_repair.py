"""Commands about repair: those of ``bookkeeper shell`` on our bookies, and ours on Apache's, which have their own
auditor and workers. Each sees what the other one's wrote."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.repair.election import auditor
from engine.repair.marks import RepairRecords
from tests.oracle.ledgers_java import JavaLedgers, expected
from tests.oracle.servers import ApacheBookie, OurBookie, OurBookies, connected, make_root
from tests.support.instance import ROOT
from tests.support.ports import free_ports
from tests.support.waiting import until_blocking

pytestmark = [pytest.mark.slow]

REPAIRING = {
    "MAGNETAR_AUTO_RECOVERY_DAEMON_ENABLED": "true",
    "MAGNETAR_LOST_BOOKIE_RECOVERY_DELAY": "3600",
    "MAGNETAR_RW_REREPLICATE_BACKOFF_S": "0.5",
}
COPIED_S = 120.0


@pytest.fixture(scope="module")
def ours(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBookies]:
    """Five with auto-recovery, on which a lost one is waited for."""
    work = tmp_path_factory.mktemp("ours-repair")
    zk = f"{zookeeper}/ours-repair"
    made = OurBookies(work, zk, 0)
    made.each += [
        OurBookie(work, f"bookie-{i}", zk, env=REPAIRING, zk_timeout_s=4.0) for i in range(5)
    ]
    with made:
        yield made


def worked(java: JavaLedgers, uri: str, *command: object) -> str:
    """Run a command of Apache's shell, which must succeed; return its output."""
    status, printed = java.shell(uri, "V3", *command)
    assert status == 0, printed
    return printed


def written(java: JavaLedgers, uri: str, name: str) -> tuple[str, list[str]]:
    """Write a ledger of two copies by Apache's client, and return its id and members."""
    java.run("client", name, uri, "V3")
    made = java.run("create", name, name, 2, 2, 2, "CRC32C", "-")
    java.run("add", name, 100, 200)
    java.run("close", name)
    [members] = re.findall(r"ensembles=\{0=\[(.*?)\]", java.run("metadata", name, made))
    return made, members.split(", ")


def copied_from(java: JavaLedgers, name: str, ledger: str, lost: str) -> None:
    """Wait until a ledger does not name a bookie any more, and read it."""
    metadata: list[str] = [""]

    def moved() -> bool:
        metadata[0] = java.run("metadata", name, ledger)
        return lost not in metadata[0]

    until_blocking(moved, lambda: metadata[0], COPIED_S)
    java.run("open", name, f"{name}-read", ledger, "CRC32C", "-", "plain")
    assert java.seen("read", f"{name}-read", 0, 99) == expected(0, 99, 200)


def on_store(zk: str, work):  # type: ignore[no-untyped-def]
    """Run ``work(store)`` in a session of ours and return its result."""

    async def run():  # type: ignore[no-untyped-def]
        store = await connected(zk)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def test_apaches_shell_finds_our_auditor_and_its_delay(java: JavaLedgers, ours: OurBookies) -> None:
    elected = on_store(ours.zk, auditor)
    assert elected in [bookie.id for bookie in ours.each]
    assert f"Auditor: {elected}" in worked(java, ours.uri, "whoisauditor").replace("/", "")
    assert "3600" in worked(java, ours.uri, "lostbookierecoverydelay", "-get")
    worked(java, ours.uri, "lostbookierecoverydelay", "-set", 1800)
    assert on_store(ours.zk, records_delay) == 1800


async def records_delay(store: MetadataStore) -> float:
    return await RepairRecords(store, SystemClock(), RandomEntropy()).delay_s()


def test_apaches_shell_turns_our_auto_recovery_off_and_on(
    java: JavaLedgers, ours: OurBookies
) -> None:
    async def enabled(store: MetadataStore) -> bool:
        return await RepairRecords(store, SystemClock(), RandomEntropy()).enabled()

    worked(java, ours.uri, "autorecovery", "-disable")
    assert on_store(ours.zk, enabled) is False
    worked(java, ours.uri, "autorecovery", "-enable")
    assert on_store(ours.zk, enabled) is True
    assert "No Ledger is being recovered" in worked(java, ours.uri, "queryautorecoverystatus")


def test_apaches_triggeraudit_has_our_auditor_mark_and_our_workers_copy(
    java: JavaLedgers, ours: OurBookies
) -> None:
    ledger, members = written(java, ours.uri, "triggered")
    worked(java, ours.uri, "autorecovery", "-disable")
    ours.named(members[0]).kill()
    until_blocking(lambda: members[0] not in listed(java, ours), lambda: listed(java, ours))

    async def mark(store: MetadataStore) -> None:
        await RepairRecords(store, SystemClock(), RandomEntropy()).mark(int(ledger), [members[0]])

    on_store(ours.zk, mark)
    printed = worked(java, ours.uri, "listunderreplicated", "-printmissingreplica")
    assert re.search(rf"\b{ledger}\b", printed), printed
    assert members[0] in printed
    none = worked(java, ours.uri, "listunderreplicated", "-missingreplica", "127.0.0.1:1")
    assert not re.search(rf"\b{ledger}\b", none.partition("127.0.0.1:1")[2]), none
    on_store(ours.zk, unmark)
    worked(java, ours.uri, "autorecovery", "-enable")
    worked(java, ours.uri, "triggeraudit")
    copied_from(java, "triggered", ledger, members[0])
    ours.named(members[0]).start()


async def unmark(store: MetadataStore) -> None:
    records = RepairRecords(store, SystemClock(), RandomEntropy())
    for ledger in [n async for n in records.marked()]:
        if (mark := await records.read(ledger)) is not None:
            await records.remove(mark)


def listed(java: JavaLedgers, ours: OurBookies) -> list[str]:
    return re.findall(r"BookieID:(\S+),", worked(java, ours.uri, "listbookies", "-rw"))


def test_apaches_recover_copies_from_our_bookie_while_it_serves(
    java: JavaLedgers, ours: OurBookies
) -> None:
    ledger, members = written(java, ours.uri, "recovered")
    worked(java, ours.uri, "recover", "-f", "-l", ledger, members[0])
    copied_from(java, "recovered", ledger, members[0])


def test_apaches_decommission_of_our_bookie_ends_and_removes_its_cookie(
    java: JavaLedgers, ours: OurBookies
) -> None:
    ledger, members = written(java, ours.uri, "leaving")
    ours.named(members[0]).kill()
    until_blocking(lambda: members[0] not in listed(java, ours), lambda: listed(java, ours))
    worked(java, ours.uri, "decommissionbookie", "-bookieid", members[0])
    copied_from(java, "leaving", ledger, members[0])
    shown = worked(java, ours.uri, "listbookies", "-a")
    assert members[0] not in shown


class Commands:
    """Our commands on the metadata of Apache's bookies."""

    def __init__(self, zk: str, folder: Path) -> None:
        self._env = os.environ | {
            "MAGNETAR_METADATA_URL": f"zk:{zk}",
            "MAGNETAR_DATA_DIR": str(folder),
        }

    def run(self, *words: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "magnetar", "bookies", *words],
            cwd=ROOT,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
async def theirs(zookeeper: str, tmp_path: Path) -> AsyncIterator[list[ApacheBookie]]:
    """Four of Apache's with auto-recovery."""
    zk = f"{zookeeper}/theirs-repair"
    made = [
        ApacheBookie(tmp_path, f"bookie-{i}", zk, port, lostBookieRecoveryDelay="3600")
        for i, port in enumerate(free_ports(4))
    ]
    try:
        await make_root(zk)
        for bookie in made:
            await asyncio.to_thread(bookie.start)
        yield made
    finally:
        for bookie in made:
            await asyncio.to_thread(bookie.kill)


async def test_our_commands_on_apaches_bookies(
    java: JavaLedgers, zookeeper: str, theirs: list[ApacheBookie], tmp_path: Path
) -> None:
    zk = f"{zookeeper}/theirs-repair"
    await asyncio.to_thread(on_apaches_bookies, java, zk, theirs, Commands(zk, tmp_path / "ours"))


def on_apaches_bookies(
    java: JavaLedgers, zk: str, theirs: list[ApacheBookie], ours: Commands
) -> None:
    uri = f"zk+hierarchical://{zk}/ledgers"
    ids = [bookie.id for bookie in theirs]
    elected = ours.run("whoisauditor").strip()
    assert elected in [f"Auditor: {bookie}" for bookie in ids]
    assert elected in worked(java, uri, "whoisauditor")
    assert "3600 s" in ours.run("lostbookierecoverydelay")
    ours.run("lostbookierecoverydelay", "--set", "1800")
    assert "1800" in worked(java, uri, "lostbookierecoverydelay", "-get")
    assert "succeeded" in ours.run("bookiesanity", ids[0])
    worked(java, uri, "autorecovery", "-disable")
    assert "auto-recovery is disabled" in ours.run("autorecovery")
    assert "auto-recovery is enabled" in ours.run("autorecovery", "--enable")

    assert set(ours.run("listbookies", "--state", "writable").split()) == {*ids, "writable"}
    shown = ours.run("bookieinfo")
    for bookie in ids:
        # Free bytes change while the two look.
        [total] = re.findall(rf"{bookie}: {{Free: [^}}]+Total: ([^}}]+)}}", shown)
        assert f"Total: {total}" in worked(java, uri, "bookieinfo")

    ledger, members = written(java, uri, "triggered-by-ours")
    metadata = ours.run("ledgermetadata", ledger)
    for part in ('"state": "CLOSED"', '"length": 20000', '"lastEntryId": 99', members[0]):
        assert part in metadata
    assert "1 ledgers would be copied" in ours.run("recover", "--dry-run", members[0])
    assert "1 ledgers copied, 0 failed" in ours.run("recover", "--ledger", ledger, members[0])
    copied_from(java, "triggered-by-ours", ledger, members[0])

    ledger, members = written(java, uri, "leaving-by-ours")
    lost = next(bookie for bookie in theirs if bookie.id == members[0])
    lost.stop()
    ours.run("triggeraudit")  # Apache's auditor marks, its workers copy
    copied_from(java, "leaving-by-ours", ledger, members[0])
    assert f"{members[0]} is decommissioned" in ours.run("decommission", members[0])
    assert on_store(zk, lambda store: store.exists(paths.cookie(members[0]))) is None
    assert "0 ledgers are marked" in ours.run("listunderreplicated")
