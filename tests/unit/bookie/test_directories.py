"""Several ledger directories: logs go where there is room, and a bookie serves only with the very disks it had."""

from typing import Any

import pytest

from bookie.cookies import COOKIE_NAME, STORE_LOST, IdentityError
from bookie.storage.codes import Code
from bookie.storage.errors import DamagedError
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.records import Cookie
from tests.support.bookies import KEY, Machine, make
from tests.unit.bookie.test_server import until_exists

ONE, TWO, THREE = "/disks/1", "/disks/2", "/disks/3"
MIB = 1 << 20


def machine(*roots: str, **changes: Any) -> Machine:
    values = {"ledger_directories": ",".join(roots), "entry_log_bytes_max": 64 << 10}
    return Machine(**values | changes)


def logs(of: Machine, root: str) -> list[str]:
    return [name for name in of.disk.listdir(f"{root}/current") if name.endswith(".log")]


async def write(of: Machine, ledger: int, entries: int = 150) -> None:
    client = await of.client()
    try:
        for entry in range(entries):
            assert await client.add(ledger, entry, bytes([ledger]) * 1500) == Code.OK
    finally:
        client.writer.close()
    await of.bookie.serving.checkpointer.step(checkpoint=True)


async def is_whole(of: Machine, ledger: int, entries: int = 150) -> bool:
    client = await of.client()
    read = [await client.read(ledger, entry) for entry in range(entries)]
    await client.close()
    return read == [bytes([ledger]) * 1500] * entries


async def test_logs_are_spread_over_the_directories_and_read_after_a_restart() -> None:
    of = machine(ONE, TWO, THREE)
    async with of:
        await write(of, 1)
        assert all(logs(of, root) for root in (ONE, TWO, THREE))
        assert await is_whole(of, 1)
        cookie = Cookie.decode((await of.store.get(paths.cookie("bookie-1:3181")))[0])
        assert cookie.ledger_dirs == [ONE, TWO, THREE]
        for root in (ONE, TWO, THREE, "/data/journal"):
            file = of.disk.open(f"{root}/current/{COOKIE_NAME}")
            assert file.pread(1000, 0) == cookie.encode()
    async with of:
        assert await is_whole(of, 1)


async def test_a_full_directory_is_skipped_and_used_again_when_it_has_room() -> None:
    of = machine(ONE, TWO)
    of.disk.mounts = {ONE: 64 * MIB, TWO: 64 * MIB}
    async with of:
        await write(of, 1)
        before = logs(of, TWO)
        of.disk.mounts[TWO] = 64 << 10
        await of.bookie.serving.disks.check()
        assert not of.bookie.read_only
        await write(of, 2)
        assert logs(of, TWO) == before
        of.disk.mounts[ONE] = 64 << 10
        await of.bookie.serving.disks.check()
        assert of.bookie.read_only
        await until_exists(of, paths.read_only_bookie("bookie-1:3181"))
        of.disk.mounts = {}
        await of.bookie.serving.disks.check()
        assert not of.bookie.read_only
        await write(of, 3)
        assert logs(of, TWO) != before
        assert await is_whole(of, 1)
        assert await is_whole(of, 2)


async def test_a_directory_that_fills_between_two_checks_is_left_for_another() -> None:
    of = machine(ONE, TWO)
    async with of:
        await write(of, 1)
        of.disk.mounts = {
            TWO: sum(of.disk.open(f"{TWO}/current/{n}").size() for n in logs(of, TWO))
        }
        before = of.bookie.serving.checkpointer.flushes
        await write(of, 2)
        assert of.bookie.serving.checkpointer.flushes > before
        assert not of.bookie.read_only
        assert await is_whole(of, 2)


async def test_a_first_directory_without_room_for_the_index_makes_it_read_only() -> None:
    of = machine(ONE, TWO)
    of.disk.mounts = {ONE: 64 * MIB, TWO: 64 * MIB}
    async with of:
        await write(of, 1)
        used = of.disk.mounts[ONE] - of.disk.free_bytes(f"{ONE}/x")
        of.disk.mounts[ONE] = used * 103 // 100
        await of.bookie.serving.disks.check()
        assert of.bookie.read_only
        assert await is_whole(of, 1)
        of.disk.mounts[ONE] = 64 * MIB
        await of.bookie.serving.disks.check()
        assert not of.bookie.read_only


async def test_any_full_directory_makes_it_read_only_when_that_is_wanted() -> None:
    of = machine(ONE, TWO, read_only_mode_on_any_disk_full_enabled=True)
    of.disk.mounts = {ONE: 64 * MIB, TWO: 64 * MIB}
    async with of:
        of.disk.mounts[TWO] = 0
        await of.bookie.serving.disks.check()
        assert of.bookie.read_only


async def test_a_disk_that_is_removed_or_swapped_while_running_stops_the_bookie() -> None:
    of = machine(ONE, TWO, disk_check_interval_s=0.01)
    async with of:
        of.disk.rename(f"{TWO}/current/{COOKIE_NAME}", "/disks/elsewhere")
        await of.bookie.over.wait()
        assert isinstance(of.bookie.failed, DamagedError)
        assert TWO in str(of.bookie.failed)
        of.disk.rename("/disks/elsewhere", f"{TWO}/current/{COOKIE_NAME}")


@pytest.mark.parametrize("directory", ["/data/journal", ONE, TWO])
@pytest.mark.parametrize("how", ["wiped", "foreign"])
async def test_a_wiped_or_foreign_directory_is_refused(directory: str, how: str) -> None:
    of = machine(ONE, TWO)
    async with of:
        await write(of, 1)
    other = machine(ONE, TWO, bookie_id="bookie-2:3181")
    other.metadata = of.metadata
    async with other:
        pass
    for name in of.disk.listdir(f"{directory}/current"):
        if name != "index":
            of.disk.remove(f"{directory}/current/{name}")
    if how == "foreign":
        text = other.disk.open(f"{directory}/current/{COOKIE_NAME}").pread(1000, 0)
        of.disk.open(f"{directory}/current/{COOKIE_NAME}", create=True).pwritev([text], 0)
    with pytest.raises(IdentityError, match="no cookie" if how == "wiped" else "another bookie"):
        async with of:
            pass


@pytest.mark.parametrize("again", [False, True])
async def test_a_bookie_whose_metadata_was_deleted_says_what_to_do(again: bool) -> None:
    of = machine(ONE)
    async with of:
        await write(of, 1)
    of.metadata = MemoryServer()
    if again:  # a new bookie has begun a cluster in the empty store
        await of.metadata.session().create(paths.INSTANCE_ID, b"another", make_parents=True)
    with pytest.raises(IdentityError) as refused:
        async with of:
            pass
    text = str(refused.value)
    assert ("belong to cluster" if again else "/ledgers/INSTANCEID is missing") in text
    assert STORE_LOST in text
    assert "\n" not in text


async def test_a_damaged_cookie_is_refused_as_one() -> None:
    of = machine(ONE)
    async with of:
        await write(of, 1)
    of.disk.damage(f"{ONE}/current/{COOKIE_NAME}", 0, 0xFF)
    with pytest.raises(IdentityError, match="damaged"):
        async with of:
            pass


@pytest.mark.parametrize("roots", [(ONE,), (TWO, ONE), (ONE, THREE), (ONE, TWO, THREE)])
async def test_other_directories_than_the_cookies_are_refused(roots: tuple[str, ...]) -> None:
    of = machine(ONE, TWO)
    async with of:
        await write(of, 1)
    of.changes["ledger_directories"] = ",".join(roots)
    with pytest.raises(IdentityError):
        async with of:
            pass
    assert not of.disk.exists(f"{THREE}/current/{COOKIE_NAME}")


async def test_a_new_bookie_does_not_take_directories_that_hold_logs() -> None:
    of = machine(ONE, TWO)
    of.disk.makedirs(f"{TWO}/current")
    of.disk.open(f"{TWO}/current/00000001.log", create=True)
    with pytest.raises(IdentityError, match="entry logs"):
        async with of:
            pass


async def test_directories_are_added_when_expansion_is_allowed() -> None:
    of = machine(ONE)
    async with of:
        await write(of, 1)
        client = await of.client()
        assert await client.read(1, -1, fence=KEY) == bytes([1]) * 1500
        await client.close()
    of.changes |= {"ledger_directories": f"{ONE},{TWO}", "allow_storage_expansion": True}
    for _ in range(2):  # the second time there is nothing to add
        async with of:
            assert await is_whole(of, 1)
            stored = (await of.store.get(paths.cookie("bookie-1:3181")))[0]
            assert Cookie.decode(stored).ledger_dirs == [ONE, TWO]
    async with of:
        await write(of, 2)
        assert logs(of, TWO)
        client = await of.client()
        assert await client.add(1, 999, b"late") == Code.FENCED
        await client.close()


@pytest.mark.parametrize("flaw", ["lost cookie", "foreign new", "logs in new", "first changed"])
async def test_expansion_does_not_hide_a_loss(flaw: str) -> None:
    of = machine(ONE, TWO)
    async with of:
        await write(of, 1)
    roots = [THREE, ONE, TWO] if flaw == "first changed" else [ONE, TWO, THREE]
    of.changes |= {"ledger_directories": ",".join(roots), "allow_storage_expansion": True}
    of.disk.makedirs(f"{THREE}/current")
    if flaw == "lost cookie":
        of.disk.remove(f"{TWO}/current/{COOKIE_NAME}")
    elif flaw == "foreign new":
        of.disk.open(f"{THREE}/current/{COOKIE_NAME}", create=True).pwritev([b"5\nother"], 0)
    elif flaw == "logs in new":
        of.disk.open(f"{THREE}/current/00000009.log", create=True)
    with pytest.raises(IdentityError):
        async with of:
            pass


async def test_an_expansion_that_is_cut_off_anywhere_is_finished_by_the_next_start() -> None:
    at = 0
    while True:
        at += 1
        of = machine(ONE)
        async with of:
            pass
        of.changes |= {"ledger_directories": f"{ONE},{TWO}", "allow_storage_expansion": True}
        stop = of.disk.operations + at

        def plan(op: str, path: str, of: Machine = of, stop: int = stop) -> None:
            if of.disk.operations >= stop:
                raise OSError(5, f"stopped at {op} {path}")

        of.disk.plan = plan
        store = of.metadata.session()
        bookie = make(of.disk, store, **of.changes)
        try:
            await bookie._directories.identify(store, *await identity(bookie, store))
            break
        except OSError:
            of.disk.crash()
        finally:
            await store.close()
        async with of:
            stored = (await of.store.get(paths.cookie("bookie-1:3181")))[0]
            assert Cookie.decode(stored).ledger_dirs == [ONE, TWO]
    assert at > 10


async def identity(bookie: Any, store: Any) -> tuple[str, bytes]:
    bookie._directories.make()
    instance = (await store.get(paths.INSTANCE_ID))[0].decode()
    return "bookie-1:3181", bookie._directories.cookie("bookie-1:3181", instance)


async def test_directories_whose_disks_were_swapped_are_refused() -> None:
    of = machine(ONE, TWO)
    async with of:
        await write(of, 1)
    for root, other in ((ONE, "/disks/aside"), (TWO, ONE), ("/disks/aside", TWO)):
        of.disk.makedirs(f"{other}/current")
        for name in of.disk.listdir(f"{root}/current"):
            if name != "index":
                of.disk.rename(f"{root}/current/{name}", f"{other}/current/{name}")
    with pytest.raises(DamagedError, match="lastMark"):
        async with of:
            pass
