"""Contract of every metadata store, run against the in-memory reference, the embedded metadata server, a real
ZooKeeper and a real etcd, each with and without a cache before it, and two stores behind one. The embedded server and
ZooKeeper are also asked in the bare protocol (raw), so that kazoo hides nothing of what they answer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count

import pytest

from engine.base.errors import MisuseError
from engine.metadata.apart.routed import CONFIGURATION, PREFIXES, OtherStore, RoutedStore
from engine.metadata.cached import CachedStore
from engine.metadata.connect import connect
from engine.metadata.memory import MemoryServer
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SessionState,
)
from engine.metadata.update import update
from engine.net.network import LoopNetwork
from tests.support.zookeeper.metadata_rig import MetadataRig
from tests.support.zookeeper.raw_store import RawStore

Opener = Callable[[], Awaitable[MetadataStore]]
_chroots = count()
SECOND = ("/a", "/w")
"""Trees that lie in the second store where there are two; other trees of the tests have ephemeral nodes."""


KINDS = [
    "memory",
    "embedded",
    "raw embedded",
    "routed memory",
    "zookeeper",
    "raw zookeeper",
    "etcd",
]
CACHED = [f"cached {kind}" for kind in KINDS if "raw" not in kind]
counted = pytest.mark.parametrize(
    "opener",
    [kind for kind in [*KINDS, *CACHED] if not kind.endswith("etcd")],
    indirect=True,
)
"""Mark of tests for stores with times of nodes and with counts of their children's creations."""


async def open_raw(port: int, chroot: str = "/contract") -> MetadataStore:
    return await RawStore.open(LoopNetwork(), port, chroot=chroot, session_timeout_s=5.0)


@pytest.fixture(params=[*KINDS, *CACHED])
async def opener(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Opener]:
    """A function that opens sessions on one empty tree."""
    stores: list[MetadataStore] = []
    *kinds, kind = request.param.split()

    def wrapped(store: MetadataStore) -> MetadataStore:
        return CachedStore(store) if "cached" in kinds else store

    def opened(store: MetadataStore) -> MetadataStore:
        stores.append(store)
        return store

    if kind == "memory":
        server, second = MemoryServer(), MemoryServer()
        monkeypatch.setitem(PREFIXES, CONFIGURATION, SECOND)

        async def open_memory() -> MetadataStore:
            store = wrapped(server.session(5.0))
            if "routed" not in kinds:
                return opened(store)
            other = OtherStore((CONFIGURATION,), "memory", wrapped(second.session(5.0)))
            return opened(RoutedStore(store, other))

        yield open_memory
    elif kind == "etcd":
        url = f"{request.getfixturevalue('etcd').url}/contract-{next(_chroots)}"

        async def open_etcd() -> MetadataStore:
            return opened(wrapped(await connect(url, session_timeout_s=5.0)))

        yield open_etcd
    elif kind == "embedded":
        rig = MetadataRig(network=LoopNetwork(), tick_time_ms=200)
        await rig.start()

        async def open_embedded() -> MetadataStore:
            if "raw" in kinds:
                return opened(wrapped(await open_raw(rig.server.port)))
            url = f"zk:127.0.0.1:{rig.server.port}/contract"
            return opened(wrapped(await connect(url, session_timeout_s=5.0)))

        yield open_embedded
        for store in stores:
            await store.close()
        await rig.stop()
        return
    else:
        hosts = request.getfixturevalue("zookeeper_hosts")
        chroot = f"/contract-{next(_chroots)}"

        async def open_zookeeper() -> MetadataStore:
            if "raw" in kinds:
                return opened(wrapped(await open_raw(int(hosts.rpartition(":")[2]), chroot)))
            return opened(wrapped(await connect(f"zk:{hosts}{chroot}", session_timeout_s=5.0)))

        yield open_zookeeper
    for store in stores:
        await store.close()


@pytest.fixture
async def store(opener: Opener) -> MetadataStore:
    return await opener()


class Watcher:
    """A watch callback that collects its calls."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._event = asyncio.Event()

    def __call__(self, path: str) -> None:
        self.paths.append(path)
        self._event.set()

    async def next(self) -> str:
        async with asyncio.timeout(120):
            await self._event.wait()
        self._event.clear()
        return self.paths[-1]


async def test_created_node_is_read_back_at_version_zero(store: MetadataStore) -> None:
    assert await store.create("/a", b"one") == "/a"
    value, stat = await store.get("/a")
    assert (value, stat.version, stat.ephemeral_owner) == (b"one", 0, 0)


@counted
async def test_a_created_node_has_its_time(store: MetadataStore) -> None:
    await store.create("/a")
    stat = (await store.get("/a"))[1]
    assert stat.ctime_ms == stat.mtime_ms > 0


async def test_a_node_created_again_has_another_creation(store: MetadataStore) -> None:
    await store.create("/a")
    first = (await store.get("/a"))[1]
    assert (await store.put("/a", b"1")).creation == first.creation
    await store.delete("/a")
    await store.create("/a")
    again = (await store.get("/a"))[1]
    assert (again.version, again.creation > first.creation) == (first.version, True)


async def test_empty_value_is_empty_bytes(store: MetadataStore) -> None:
    await store.create("/a")
    assert (await store.get("/a"))[0] == b""


async def test_second_create_is_refused(store: MetadataStore) -> None:
    await store.create("/a")
    with pytest.raises(NodeExistsError):
        await store.create("/a")


async def test_missing_parent_is_refused_unless_made(store: MetadataStore) -> None:
    with pytest.raises(NoNodeError):
        await store.create("/a/b/c", b"x")
    await store.create("/a/b/c", b"x", make_parents=True)
    assert await store.children("/a") == ["b"]
    assert (await store.get("/a/b"))[0] == b""


async def test_put_raises_version_by_one_and_compares(store: MetadataStore) -> None:
    await store.create("/a", b"0")
    assert (await store.put("/a", b"1", 0)).version == 1
    assert await store.put("/a", b"2") == await store.exists("/a")
    with pytest.raises(BadVersionError):
        await store.put("/a", b"3", 1)
    assert (await store.get("/a"))[0] == b"2"
    with pytest.raises(NoNodeError):
        await store.put("/none", b"")


async def test_several_nodes_are_read_in_one_request(store: MetadataStore) -> None:
    await store.create("/a", b"1")
    for name in ("c", "b"):
        await store.create(f"/a/{name}", name.encode())
    await store.put("/a/b", b"")
    values, names = await store.get_all(["/a", "/none", "/a/b", "/a/c"], "/a")
    assert names == ["b", "c"]
    assert values == [await store.get("/a"), None, await store.get("/a/b"), await store.get("/a/c")]
    assert await store.get_all([], "/none") == ([], [])
    assert await store.get_all(["/a/b"]) == (values[2:3], [])
    with pytest.raises(MisuseError):
        await store.get_all(["/a", "b"])


@counted
async def test_the_answer_of_a_put_has_the_version_of_the_children(
    store: MetadataStore,
) -> None:
    await store.create("/a")
    (node,), _ = await store.get_all(["/a"])
    assert node is not None
    before = (await store.put("/a", b"1")).children_version
    assert before is not None
    assert before == node[1].children_version
    await store.create("/a/b")
    made = (await store.put("/a", b"2")).children_version
    assert made is not None
    assert made > before
    await store.delete("/a/b")
    gone = (await store.put("/a", b"3")).children_version
    assert gone is not None
    assert gone > made


async def test_delete_compares_and_spares_parents_of_children(store: MetadataStore) -> None:
    await store.create("/a/b", make_parents=True)
    with pytest.raises(NotEmptyError):
        await store.delete("/a")
    with pytest.raises(BadVersionError):
        await store.delete("/a/b", 5)
    await store.delete("/a/b", 0)
    await store.delete("/a")
    assert await store.exists("/a") is None
    with pytest.raises(NoNodeError):
        await store.delete("/a")


async def test_reads_of_missing_nodes(store: MetadataStore) -> None:
    assert await store.exists("/none") is None
    with pytest.raises(NoNodeError):
        await store.get("/none")
    with pytest.raises(NoNodeError):
        await store.children("/none")


async def test_children_are_sorted_names(store: MetadataStore) -> None:
    for name in ("b", "a", "c"):
        await store.create(f"/p/{name}", make_parents=True)
    assert await store.children("/p") == ["a", "b", "c"]


@counted
async def test_sequence_counts_creations_under_the_parent(store: MetadataStore) -> None:
    await store.create("/s")
    assert await store.create("/s/id-", sequence=True) == "/s/id-0000000000"
    assert await store.create("/s/other") == "/s/other"
    assert await store.create("/s/id-", sequence=True) == "/s/id-0000000002"
    await store.delete("/s/id-0000000002")
    assert await store.create("/s/", sequence=True) == "/s/0000000003"


async def test_numbers_of_a_sequence_grow_and_have_ten_digits(opener: Opener) -> None:
    session, peer = await opener(), await opener()
    with pytest.raises(NoNodeError):
        await session.create("/s/id-", sequence=True)
    numbers: list[str] = []
    for store in (session, peer, session, peer):
        path = await store.create("/s/id-", sequence=True, ephemeral=True, make_parents=True)
        numbers.append(path.removeprefix("/s/id-"))
        await store.delete(path)
    assert all(len(number) == 10 and number.isdigit() for number in numbers)
    assert [int(number) for number in numbers] == sorted({int(number) for number in numbers})


async def test_ephemerals_belong_to_the_session_and_are_deleted_with_it(opener: Opener) -> None:
    session, peer = await opener(), await opener()
    watcher = Watcher()
    await session.create("/e", b"x", ephemeral=True)
    peer.watch("/e", watcher)
    stat = await peer.exists("/e")
    assert stat is not None
    assert stat.ephemeral_owner == session.session_id != peer.session_id
    with pytest.raises(MisuseError):
        await session.create("/e/child")
    await session.close()
    while await peer.exists("/e") is not None:
        await watcher.next()
    with pytest.raises(SessionExpiredError):
        await session.get("/e")


async def test_a_watch_reports_creation_change_children_and_deletion(opener: Opener) -> None:
    session, peer = await opener(), await opener()
    watcher = Watcher()
    session.watch("/w", watcher)
    await session.exists("/w")  # the watch was sent before: it is set now
    await peer.create("/w", b"1")
    assert await watcher.next() == "/w"
    assert (await session.get("/w"))[0] == b"1"
    for step in range(3):
        await peer.put("/w", b"%d" % step)
        await watcher.next()
        assert (await session.get("/w"))[0] == b"%d" % step
    await peer.create("/w/c")
    await watcher.next()
    assert await session.children("/w") == ["c"]
    await peer.put("/w/c", b"grandchild values are not reported")
    await peer.delete("/w/c")
    await watcher.next()
    assert await session.children("/w") == []
    await peer.delete("/w")
    while await session.exists("/w") is not None:
        await watcher.next()


async def test_a_stopped_watch_is_silent_and_others_continue(opener: Opener) -> None:
    session, peer = await opener(), await opener()
    first, second = Watcher(), Watcher()
    stop = session.watch("/w", first)
    session.watch("/w", second)
    await session.exists("/w")
    stop()
    stop()
    await peer.create("/w")
    await second.next()
    assert first.paths == []


async def test_the_watch_of_a_read_is_called_once(opener: Opener) -> None:
    session, peer = await opener(), await opener()
    present, absent, listed = Watcher(), Watcher(), Watcher()
    await peer.create("/w", b"0")
    await session.get("/w", present)
    assert await session.exists("/w/c", absent) is None
    await session.children("/w", listed)
    await peer.create("/w/c")
    assert await absent.next() == "/w/c"
    assert await listed.next() == "/w"
    await peer.put("/w", b"1")
    assert await present.next() == "/w"
    seen = len(present.paths), len(absent.paths), len(listed.paths)
    await peer.put("/w", b"2")
    await peer.delete("/w/c")
    await session.exists("/w")
    assert (len(present.paths), len(absent.paths), len(listed.paths)) == seen == (1, 1, 1)


async def test_reads_of_a_missing_node_are_watched(opener: Opener) -> None:
    session, peer = await opener(), await opener()
    got, listed = Watcher(), Watcher()
    with pytest.raises(NoNodeError):
        await session.get("/a", got)
    with pytest.raises(NoNodeError):
        await session.children("/b", listed)
    await peer.create("/a")
    await peer.create("/b")
    assert await got.next() == "/a"
    assert await listed.next() == "/b"


async def test_an_ended_watch_is_silent_and_can_be_set_again(opener: Opener) -> None:
    session, peer = await opener(), await opener()
    ended, other, again = Watcher(), Watcher(), Watcher()
    await peer.create("/w")
    await session.get("/w", ended)
    await session.children("/w", ended)
    session.unwatch("/w", ended)
    session.unwatch("/w", ended)
    await session.get("/w", again)
    await session.exists("/w/other", other)
    await peer.put("/w", b"1")
    await again.next()
    session.unwatch("/w", again)  # it fired already: unwatch has no effect
    await peer.create("/w/other")
    await other.next()
    assert ended.paths == []
    assert (await session.get("/w"))[0] == b"1"


async def test_a_read_after_the_event_of_another_sessions_write_returns_that_write(
    opener: Opener,
) -> None:
    session, peer = await opener(), await opener()
    for step in range(20):
        change = Watcher()
        await session.exists("/n", change)
        if step:
            await peer.put("/n", b"%d" % step)
        else:
            await peer.create("/n", b"0")
        await change.next()
        assert (await session.get("/n"))[0] == b"%d" % step


async def test_update_loop_loses_no_increment(opener: Opener) -> None:
    stores = [await opener() for _ in range(3)]
    await stores[0].create("/n", b"0")

    async def add(store: MetadataStore) -> None:
        for _ in range(10):
            await update(store, "/n", lambda value: b"%d" % (int(value) + 1))

    async with asyncio.TaskGroup() as group:
        for store in stores:
            group.create_task(add(store))
    value, stat = await stores[0].get("/n")
    assert (value, stat.version) == (b"30", 30)


async def test_update_creates_or_leaves_alone(store: MetadataStore) -> None:
    with pytest.raises(NoNodeError):
        await update(store, "/x/y", lambda value: value)
    assert await update(store, "/x/y", lambda value: value, create=lambda: b"new") == b"new"
    assert await update(store, "/x/y", lambda value: None) == b"new"
    stat = await store.exists("/x/y")
    assert stat is not None
    assert stat.version == 0


@pytest.mark.parametrize(
    "path", ["", "a", "/a/", "//a", "/a//b", "/a/./b", "/..", "/a\x00", "/a\x1f"]
)
async def test_bad_paths_are_misuse(store: MetadataStore, path: str) -> None:
    for call in (store.get, store.exists, store.children, store.create, store.delete):
        with pytest.raises(MisuseError):
            await call(path)


async def test_values_over_the_limit_are_misuse(store: MetadataStore) -> None:
    await store.create("/a")
    with pytest.raises(MisuseError, match="limit"):
        await store.put("/a", b"x" * (1 << 20))


async def test_a_connected_session_has_that_state_and_an_id(store: MetadataStore) -> None:
    assert store.state is SessionState.CONNECTED
    assert store.session_id != 0
