"""The copy of a metadata store: completeness, sequential numbers, interruptions, refusals."""

import pytest

from engine.metadata.copying import MARK, CopyError, copy, walk
from engine.metadata.memory import Fault, MemoryServer, MemoryStore
from engine.metadata.store import NoNodeError, StoreUnavailableError
from tests.support.zookeeper.metadata_rig import MetadataRig
from tests.support.zookeeper.raw_store import RawStore

pytestmark = pytest.mark.virtual_time
NAME = "zk:source:2181"


async def filled() -> MemoryStore:
    store = MemoryServer().session()
    for number in range(250):
        await store.create(f"/ledgers/L{number:04}", b"metadata %d" % number, make_parents=True)
    await store.create("/admin/policies/t/ns", b"{}", make_parents=True)
    await store.put("/admin/policies/t/ns", b'{"replication":[]}')
    await store.create("/loadbalance/brokers/b:1", b"x", ephemeral=True, make_parents=True)
    await store.create("/empty", b"")
    return store


async def contents(store: MemoryStore) -> dict[str, bytes]:
    return {node.path: node.value async for node in walk(store) if not node.stat.ephemeral_owner}


async def test_every_persistent_node_is_copied() -> None:
    source, target = await filled(), MemoryServer().session()
    progress: list[int] = []
    copied = await copy(source, target, NAME, progress.append)
    assert await contents(target) == await contents(source)
    assert (copied.nodes, copied.ephemerals) == (len(await contents(source)), 1)
    assert progress[-1] == copied.nodes
    with pytest.raises(NoNodeError):
        await target.get("/loadbalance/brokers/b:1")
    with pytest.raises(NoNodeError):
        await target.get(MARK)


@pytest.mark.parametrize("used", [1, 7, 1203])
async def test_numbers_of_sequential_nodes_are_not_given_again(used: int) -> None:
    source, target = await filled(), MemoryServer().session()
    await source.create("/counters/producer-name", make_parents=True)
    for _ in range(used):
        last = await source.create("/counters/producer-name/-", sequence=True)
        await source.delete(last)
    await copy(source, target, NAME)
    assert await target.create("/counters/producer-name/-", sequence=True) > last
    assert len(await target.children("/counters/producer-name")) == 1


async def test_numbers_of_ephemeral_nodes_are_not_given_again() -> None:
    source, target = MemoryServer().session(), MemoryServer().session()
    await source.create("/election", b"")
    await source.create("/election/-", sequence=True, ephemeral=True)
    last = await source.create("/election/-", sequence=True)
    await copy(source, target, NAME)
    assert await target.create("/election/-", sequence=True) > last


async def test_an_interrupted_copy_is_refused_as_a_source() -> None:
    source, target = await filled(), MemoryServer().session()
    await source.create(MARK, b"zk:first:2181")
    with pytest.raises(CopyError, match="the source holds an interrupted copy of zk:first:2181"):
        await copy(source, target, NAME)
    assert await contents(target) == {"/": b""}


async def test_a_target_in_the_source_is_refused() -> None:
    source, target = await filled(), MemoryServer().session()
    # The mark of the target, as a source sees it whose path is above the target's.
    await source.create("/prod" + MARK, NAME.encode(), make_parents=True)
    with pytest.raises(
        CopyError, match="the target is in the source, which has /prod/magnetar-copy"
    ):
        await copy(source, target, NAME)


@pytest.mark.parametrize("interrupted", [False, True])
async def test_a_target_in_the_source_is_refused_before_a_node_is_copied(interrupted: bool) -> None:
    rig = MetadataRig()
    await rig.start()
    source = await RawStore.open(rig.network, rig.server.port, session_timeout_s=5.0)
    for name in ("admin", "ledgers", "prod"):
        await source.create(f"/{name}", name.encode())
    inside = await RawStore.open(
        rig.network, rig.server.port, chroot="/prod", session_timeout_s=5.0
    )
    if interrupted:
        await inside.create(MARK, NAME.encode())
    with pytest.raises(CopyError, match="the target is in the source, which has it at /prod: "):
        await copy(source, inside, NAME, inside="/prod")
    left = [MARK.removeprefix("/")] if interrupted else []
    assert await inside.children("/") == left
    await inside.close()
    await source.close()
    await rig.stop()


async def test_a_mark_of_another_copy_in_the_source_is_no_target() -> None:
    source, target = await filled(), MemoryServer().session()
    await source.create(f"/prod{MARK}", b"zk:first:2181", make_parents=True)
    await copy(source, target, NAME, inside="/prod")
    assert await contents(target) == await contents(source)


async def test_a_target_with_nodes_is_refused_unchanged() -> None:
    source, target = await filled(), MemoryServer().session()
    await target.create("/mine", b"1")
    with pytest.raises(CopyError, match="the target is not empty: it has /mine"):
        await copy(source, target, NAME)
    assert await contents(target) == {"/": b"", "/mine": b"1"}


@pytest.mark.parametrize("calls", [1, 2, 3, 10, 60, 300])
async def test_an_interrupted_copy_is_continued(calls: int) -> None:
    failing = [calls]

    def on_call(session_id: int, operation: str, path: str) -> Fault | None:
        failing[0] -= 1
        return Fault(lose_reply=True) if failing[0] == 0 else None

    source, server = await filled(), MemoryServer(on_call=on_call)
    target = server.session()
    with pytest.raises(StoreUnavailableError):
        await copy(source, target, NAME)
    if calls > 2:
        with pytest.raises(CopyError, match="interrupted copy of zk:source:2181, not of zk:other"):
            await copy(source, target, "zk:other")
    # The source changed between the two.
    await source.put("/ledgers/L0000", b"changed")
    await copy(source, target, NAME)
    assert await contents(target) == await contents(source)


async def test_a_difference_between_source_and_copy_is_named() -> None:
    source, target = await filled(), MemoryServer().session()

    def progress(nodes: int) -> None:
        if nodes == copied_nodes:
            source._server.tree.put("/", b"late", -1, 0)

    copied_nodes = len(await contents(source))
    with pytest.raises(CopyError, match="/ differs in the copy: was the source changed"):
        await copy(source, target, NAME, progress)
    value, _ = await target.get(MARK)
    assert value == NAME.encode()
