"""``bookkeeper shell`` on our bookies and on the metadata they leave."""

import json
import re
import time
from collections.abc import Iterator

import pytest

from tests.oracle.ledgers_java import JavaLedgers, expected
from tests.oracle.servers import OurBookies

pytestmark = [pytest.mark.slow]

QUORUMS = ("-ensemble", 3, "-writeQuorum", 3, "-ackQuorum", 2)


@pytest.fixture(scope="module")
def bookies(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBookies]:
    """Three, and a fourth that is read-only from the start, for its disk counts as full."""
    work = tmp_path_factory.mktemp("ours-shell")
    with OurBookies(work, f"{zookeeper}/ours-shell", zk_timeout_s=4.0) as made:
        full = {"disk_usage_threshold": 0.00001, "disk_usage_lwm_threshold": 0.00001}
        made.add("full", **full)
        yield made


@pytest.fixture(scope="module")
def ledger(java: JavaLedgers, bookies: OurBookies) -> str:
    """Id of a closed ledger of ten entries on the three bookies."""
    java.run("client", "shell", bookies.uri, "V2")
    made = java.run("create", "shell", "s", 3, 3, 2, "CRC32C", "-", "owner=tests")
    java.run("add", "s", 10, 60)
    java.run("close", "s")
    return made


@pytest.mark.parametrize("wire", ["V2", "V3"])
def test_simpletest(java: JavaLedgers, bookies: OurBookies, wire: str) -> None:
    status, printed = java.shell(bookies.uri, wire, "simpletest", *QUORUMS, "-numEntries", 200)
    assert status == 0, printed
    assert re.search(r"200 entries written to ledger \d+\. Last entry Id 199", printed), printed


@pytest.mark.parametrize("wire", ["V2", "V3"])
def test_bookiesanity(java: JavaLedgers, bookies: OurBookies, wire: str) -> None:
    """Run the command, which tests the one bookie that its settings describe."""
    settings = f"allowLoopback=true,advertisedAddress=127.0.0.1,bookiePort={bookies.each[0].port}"
    status, printed = java.shell(bookies.uri, wire, "bookiesanity", settings=settings)
    assert status == 0, printed
    assert "Bookie sanity test succeeded" in printed


def test_listbookies(java: JavaLedgers, bookies: OurBookies) -> None:
    *writable, full = (bookie.id for bookie in bookies.each)
    for option, wanted in (
        ("-rw", writable),
        ("-ro", [full]),
        ("-a", [*writable, full]),
    ):
        status, printed = java.shell(bookies.uri, "V2", "listbookies", option)
        assert status == 0, printed
        assert sorted(re.findall(r"BookieID:(\S+),", printed)) == sorted(wanted)


def test_listledgers(java: JavaLedgers, bookies: OurBookies, ledger: str) -> None:
    status, printed = java.shell(bookies.uri, "V2", "listledgers")
    assert status == 0, printed
    assert ledger in re.findall(r"ledgerID: (\d+)", printed)
    bookie = bookies.each[0].id
    status, printed = java.shell(bookies.uri, "V2", "listledgers", "-m", "-bookieid", bookie)
    assert status == 0, printed
    assert ledger in re.findall(r"ledgerID: (\d+)", printed)
    assert "lastEntryId=9" in printed


def test_ledgermetadata(java: JavaLedgers, bookies: OurBookies, ledger: str) -> None:
    status, printed = java.shell(bookies.uri, "V2", "ledgermetadata", "-l", ledger)
    assert status == 0, printed
    for part in ("state=CLOSED", "length=600", "lastEntryId=9", "digestType=CRC32C", "owner="):
        assert part in printed


@pytest.mark.parametrize("wire", ["V2", "V3"])
def test_readledger(java: JavaLedgers, bookies: OurBookies, ledger: str, wire: str) -> None:
    command = ["readledger", "-l", ledger, "-fe", "3", "-le", "5", "-m"]
    status, printed = java.shell(bookies.uri, wire, *command)
    assert status == 0, printed
    assert re.findall(r"Eid=(\d), EntrySize=(\d+)", printed) == [
        *zip("345", ("240", "300", "360"), strict=True)
    ], printed
    assert printed.count("\nentry 4 entry 4 ") == 1


def test_bookieinfo(java: JavaLedgers, bookies: OurBookies) -> None:
    """Asks over V3 in any case."""
    status, printed = java.shell(bookies.uri, "V2", "bookieinfo")
    assert status == 0, printed
    for bookie in bookies.each[:3]:
        assert re.search(rf"{re.escape(bookie.id)}[^\n]*Free: \d+", printed), printed
    closing = "client is closed"  # its second round begins as it ends, or does not
    assert not [line for line in printed.splitlines() if "ERROR" in line and closing not in line]


def test_whatisinstanceid_and_cookie_get(java: JavaLedgers, bookies: OurBookies) -> None:
    status, printed = java.shell(bookies.uri, "V2", "whatisinstanceid")
    instance = re.search(r"InstanceId: (\S{36})", printed)
    assert status == 0
    assert instance is not None, printed
    for bookie in bookies.each:
        status, printed = java.shell(bookies.uri, "V2", "cookie_get", bookie.id)
        assert status == 0, printed
        assert f'bookieHost: "{bookie.id}"' in printed
        assert f'instanceId: "{instance[1]}"' in printed


def test_endpointinfo(java: JavaLedgers, bookies: OurBookies) -> None:
    bookie = bookies.each[0]
    status, printed = java.shell(bookies.uri, "V2", "endpointinfo", "-b", bookie.id)
    assert status == 0, printed
    for protocol, port in (("bookie-rpc", bookie.port), ("http", bookie.status_port)):
        words = rf"Protocol: {protocol}\n.*Address: 127.0.0.1 : {port}\n"
        assert re.search(words, printed), printed


def test_clusterinfo(java: JavaLedgers, bookies: OurBookies) -> None:
    status, printed = java.shell(bookies.uri, "V2", "clusterinfo")
    assert status == 0, printed
    info = json.loads("{" + printed.partition("{")[2].rpartition("}")[0] + "}")
    assert info["writableBookiesCount"] == 3
    assert info["readonlyBookiesCount"] == 1
    assert info["unavailableBookiesCount"] == 0


def test_deleteledger(java: JavaLedgers, bookies: OurBookies) -> None:
    java.run("client", "shell", bookies.uri, "V2")
    made = java.run("create", "shell", "d", 3, 3, 2, "CRC32C", "-")
    java.run("close", "d")
    status, printed = java.shell(bookies.uri, "V2", "deleteledger", "-l", made, "-f")
    assert status == 0, printed
    assert f"ledgerID: {made}" not in java.shell(bookies.uri, "V2", "listledgers")[1]


def test_auto_recovery_copies_what_a_lost_bookie_held(
    java: JavaLedgers, bookies: OurBookies
) -> None:
    """Apache's auditor and replication worker, over V3 as they come. The bookie stays away."""
    java.run("client", "shell", bookies.uri, "V3")
    made = java.run("create", "shell", "lost", 2, 2, 2, "CRC32C", "-")
    java.run("add", "lost", 300, 500)
    java.run("close", "lost")
    [members] = re.findall(r"ensembles=\{0=\[(.*?)\]", java.run("metadata", "shell", made))
    victim = bookies.named(members.split(", ")[0])
    java.run("auto-recovery", bookies.uri, "V3", "allowLoopback=true,lostBookieRecoveryDelay=0")
    try:
        victim.kill()
        until = time.monotonic() + 40
        while victim.id in java.run("metadata", "shell", made):
            assert time.monotonic() < until, java.printed[-50:]
            time.sleep(0.2)
    finally:
        java.run("auto-recovery-stop")
    java.run("open", "shell", "r", made, "CRC32C", "-", "plain")
    assert java.seen("read", "r", 0, 299) == expected(0, 299, 500)
