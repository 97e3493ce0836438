"""Records of either side in ZooKeeper about bookies and ledgers, equal byte for byte except what is random."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bookie.cookies import cookie_text
from engine.ledger.errors import LedgerError
from engine.ledger.ledger_metadata import Segment, decode, encode
from engine.ledger.settings import LedgerSettings
from engine.metadata import paths
from engine.metadata.records import BookieRegistration, Cookie
from tests.oracle.ledgers_java import JavaLedgers, payload
from tests.oracle.servers import ApacheBookies, OurBookies, connected, make_root
from tests.oracle.test_ledgers_both_sides import ask, ours
from tests.oracle.znodes import dump, remember
from tests.support.ledger_cluster import run_of

pytestmark = [pytest.mark.slow]

UUID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def test_a_new_cluster_has_the_same_root_and_takes_our_bookies(
    java: JavaLedgers, zookeeper: str, tmp_path: Path
) -> None:
    uri = f"zk+hierarchical://{zookeeper}/new-apache/ledgers"
    store = await connected(f"{zookeeper}/new-apache")
    await store.create("/x", make_parents=True)
    await store.close()
    status, printed = java.shell(uri, "V2", "initnewcluster")
    assert status == 0, printed
    await make_root(f"{zookeeper}/new-ours")
    theirs = await dump(f"{zookeeper}/new-apache", "/ledgers")
    mine = await dump(f"{zookeeper}/new-ours", "/ledgers")
    instance = theirs.pop(paths.INSTANCE_ID)
    assert UUID.fullmatch(instance)
    assert UUID.fullmatch(mine.pop(paths.INSTANCE_ID))
    remember({"layout": theirs[paths.LAYOUT]})
    assert mine == theirs
    with OurBookies(tmp_path, f"{zookeeper}/new-apache", count=1) as bookies:
        after = await dump(f"{zookeeper}/new-apache", "/ledgers")
        assert after[paths.INSTANCE_ID] == instance
        assert instance in after[paths.cookie(bookies.each[0].id)]


async def test_cookies_and_registrations_are_the_same(
    our_bookies: OurBookies, apache_bookies: ApacheBookies
) -> None:
    mine_first, other = our_bookies.each[0], apache_bookies.each[0]
    mine, theirs = await dump(our_bookies.zk, "/ledgers"), await dump(apache_bookies.zk, "/ledgers")
    cookie = theirs[paths.cookie(other.id)]
    registration = theirs[paths.available_bookie(other.id)]
    known = Cookie.decode(cookie)
    folder = known.journal_dirs[0].removesuffix("/journal").encode()
    remember({"cookie": cookie.replace(folder, b"/data"), "registration": registration})
    assert known.encode() == cookie
    instance = theirs[paths.INSTANCE_ID].decode()
    assert cookie_text(other.id, *known.journal_dirs, known.ledger_dirs, instance) == cookie
    folders = [str(mine_first.data / name) for name in ("journal", "ledgers")]
    instance = mine[paths.INSTANCE_ID].decode()
    assert mine[paths.cookie(mine_first.id)] == (
        cookie.replace(other.id.encode(), mine_first.id.encode())
        .replace(known.journal_dirs[0].encode(), folders[0].encode())
        .replace(known.ledger_dirs[0].encode(), folders[1].encode())
        .replace(str(known.instance_id).encode(), instance.encode())
    )
    for folder in folders:
        assert (mine_first.data / folder / "current/VERSION").read_bytes() == mine[
            paths.cookie(mine_first.id)
        ]
    host, port = other.id.split(":")
    assert registration == BookieRegistration.at(host, int(port), int(port) + 1).encode()
    host, port = mine_first.id.split(":")
    assert mine[paths.available_bookie(mine_first.id)] == (
        BookieRegistration.at(host, int(port), mine_first.status_port).encode()
    )


NO_TOKEN = b"\x60\x00"


def plain(value: bytes) -> bytes:
    """Ledger metadata with 0 for its random creation token, which is the last field."""
    if value.endswith(NO_TOKEN):
        return value
    head = value.index(b"\n") + 1
    at = value.rindex(b"\x60", 0, len(value) - 1)
    length, start = _varint(value[head:])
    assert head + start + length == len(value)
    shorter = length - (len(value) - at - len(NO_TOKEN))
    return value[:head] + _to_varint(shorter) + value[head + start : at] + NO_TOKEN


def _varint(data: bytes) -> tuple[int, int]:
    value = shift = 0
    for i, byte in enumerate(data):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, i + 1
    raise AssertionError("no varint")


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


async def test_metadata_of_ledgers_is_the_same_open_and_closed(
    java: JavaLedgers, apache_bookies: ApacheBookies
) -> None:
    java.run("client", "z", apache_bookies.uri, "V2")
    theirs = int(await ask(java, "create", "z", "w", 3, 3, 2, "CRC32C", "secret", "a=b"))
    await ask(java, "add", "w", 7, 100)
    async with ours(apache_bookies) as client:
        writer = await client.create(3, 3, 2, b"secret", {"a": b"b"})
        writer.append(run_of(*(payload(e, 100) for e in range(7))))
        for state in ("open", "closed"):
            tree = await dump(apache_bookies.zk, "/ledgers")
            raw, own = (tree[paths.ledger(ledger)] for ledger in (theirs, writer.ledger_id))
            remember({f"ledger {state}": plain(raw)})
            mine = replace(decode(own), segments=decode(raw).segments)  # members in their order
            assert plain(encode(mine)) == plain(raw)
            assert own.endswith(NO_TOKEN) == raw.endswith(NO_TOKEN), state
            await ask(java, "close", "w")
            await writer.close()


async def test_metadata_of_ledgers_in_recovery_is_the_same(
    java: JavaLedgers, zookeeper: str, our_bookies: OurBookies
) -> None:
    """Compare ledgers whose bookies do not exist, so that recovery cannot end."""
    java.run("client", "z", our_bookies.uri, "V2", "clientConnectTimeoutMillis=500")
    store = await connected(our_bookies.zk)
    try:
        async with ours(our_bookies) as client:
            made = await client.create(3, 3, 2, custom={"a": b"b"})
            metadata = await client.metadata(made.ledger_id)
        nowhere = replace(metadata, segments=(Segment(0, ("a:1", "b:1", "c:1")),))
        theirs, mine = made.ledger_id + 1_000_000, made.ledger_id + 1_000_001
        for ledger_id in (theirs, mine):
            await store.create(paths.ledger(ledger_id), encode(nowhere), make_parents=True)
        assert java.code("open", "z", "r", theirs, "CRC32C", "-", "recover") != 0
        settings = LedgerSettings(connect_timeout_s=0.5, recovery_timeout_s=2.0)
        async with ours(our_bookies, settings) as client:
            with pytest.raises(LedgerError):
                await client.open(mine, recover=True)
        raw, _ = await store.get(paths.ledger(theirs))
        remember({"ledger in recovery": raw})
        assert (await store.get(paths.ledger(mine)))[0] == raw
        assert raw != encode(nowhere)
    finally:
        await store.close()


async def test_ids_come_from_one_sequence(java: JavaLedgers, our_bookies: OurBookies) -> None:
    java.run("client", "z", our_bookies.uri, "V2")
    ids = []
    async with ours(our_bookies) as client:
        for _ in range(2):
            ids.append(int(await ask(java, "create", "z", "w", 3, 3, 2, "CRC32C", "-")))
            ids.append((await client.create(3, 3, 2)).ledger_id)
    assert ids == list(range(ids[0], ids[0] + 4))
    assert await dump(our_bookies.zk, paths.ID_GENERATOR) == {paths.ID_GENERATOR: b""}


async def test_every_ledger_that_other_tests_left_is_read_and_written_alike(
    our_bookies: OurBookies, apache_bookies: ApacheBookies
) -> None:
    for zk in (our_bookies.zk, apache_bookies.zk):
        tree = await dump(zk, "/ledgers")
        ledgers = {path: raw for path, raw in tree.items() if paths.ledger_id(path) is not None}
        assert ledgers
        for path, raw in ledgers.items():
            assert encode(decode(raw)) == raw, path
