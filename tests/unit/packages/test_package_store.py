"""Packages on real bookies: versions, uploads that end early, and no ledger left behind."""

from collections.abc import AsyncIterator

import pytest

from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import AlreadyExists, Failed, InvalidRequest, NotFound
from engine.base.names import NamespaceName
from engine.managed.settings import LedgerConfig
from engine.metadata import paths
from engine.metadata.store import NoNodeError
from engine.packages.package_name import PackageName
from engine.packages.package_store import ABANDONED_AFTER_MS, PART_BYTES_MAX, PackageStore, shown
from tests.support.ledger_cluster import Cluster

pytestmark = pytest.mark.virtual_time

NAMESPACE = NamespaceName.parse("public/default")
NAME = PackageName("function", NAMESPACE, "a b.ü%2", "v 1")
CONTENT = {"size": 3, "sha256": "x", "fileName": "f.py"}


class LateClock(LoopClock):
    """A clock whose wall time can be set forward."""

    ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    await made.start("b0")
    yield made
    await made.close()


@pytest.fixture
async def clock() -> LateClock:
    return LateClock()


@pytest.fixture
async def packages(cluster: Cluster, clock: LateClock) -> PackageStore:
    single = LedgerConfig(ensemble=1, write_quorum=1, ack_quorum=1)
    return PackageStore(cluster.store, cluster.client(), single, clock, RandomEntropy())


async def stored(packages: PackageStore, name: PackageName, *parts: bytes) -> None:
    upload = await packages.begin(name)
    for part in parts:
        await packages.add(name, upload, part)
    await packages.finish(name, upload, CONTENT)


async def ledgers(cluster: Cluster) -> int:
    """Return the number of ledgers that exist."""

    async def below(path: str) -> int:
        children = await cluster.store.children(path)
        here = sum(child.startswith("L") and child[1:].isdigit() for child in children)
        deeper = [child for child in children if child.isdigit()]
        return here + sum([await below(f"{path}/{child}") for child in deeper])

    return await below(paths.LEDGERS)


async def uploads(cluster: Cluster) -> list[str]:
    try:
        return await cluster.store.children(paths.PACKAGE_UPLOADS)
    except NoNodeError:
        return []


async def test_a_package_is_read_as_it_was_stored(packages: PackageStore) -> None:
    big = bytes(PART_BYTES_MAX)
    await stored(packages, NAME, b"abc", big)
    described = await packages.metadata(NAME)
    assert (described["parts"], described["fileName"], described["version"]) == (2, "f.py", "v 1")
    assert [await packages.part(NAME, number) for number in (0, 1)] == [b"abc", big]
    assert await packages.names("function", NAMESPACE) == ["a b.ü%2"]
    assert await packages.versions("function", NAMESPACE, NAME.name) == ["v 1"]
    assert await packages.names("sink", NAMESPACE) == []


async def test_a_version_is_stored_once(packages: PackageStore, cluster: Cluster) -> None:
    first, second = await packages.begin(NAME), await packages.begin(NAME)
    await packages.add(NAME, second, b"late")
    await packages.finish(NAME, first, CONTENT)
    reason = f"Package '{NAME}' metadata already exists"
    with pytest.raises(AlreadyExists) as refused:
        await packages.finish(NAME, second, CONTENT)
    assert refused.value.reason == reason
    with pytest.raises(AlreadyExists):
        await packages.begin(NAME)
    await packages.abandon(NAME, second)
    assert (await ledgers(cluster), await uploads(cluster)) == (0, [])


async def test_the_latest_version_is_the_one_stored_last(
    packages: PackageStore, clock: LateClock
) -> None:
    for version in ("9", "10"):
        await stored(packages, NAME._replace(version=version), version.encode())
        clock.ahead_ms += 1
    latest = NAME._replace(version="latest")
    await packages.change_metadata(NAME._replace(version="9"), {"description": "d"})
    assert (await packages.metadata(latest))["version"] == "10"
    assert await packages.part(latest, 0) == b"10"
    with pytest.raises(InvalidRequest, match="version: must not be latest"):
        await packages.begin(latest)


async def test_metadata_are_replaced_as_a_whole(packages: PackageStore, clock: LateClock) -> None:
    await stored(packages, NAME, b"abc")
    before = await packages.metadata(NAME)
    clock.ahead_ms = 5_000
    await packages.change_metadata(NAME, {"description": "d", "properties": {"a": "b"}})
    await packages.change_metadata(NAME, {"contact": "c"})
    after = await packages.metadata(NAME)
    assert after["createTime"] == before["createTime"]
    assert after["modificationTime"] >= before["createTime"] + 5_000
    assert set(shown(after)) == {"contact", "createTime", "modificationTime"}
    assert await packages.part(NAME, 0) == b"abc"


async def test_missing_things_are_named_with_apaches_texts(packages: PackageStore) -> None:
    with pytest.raises(NotFound, match=r"metadata does not exist"):
        await packages.metadata(NAME)
    with pytest.raises(NotFound, match=r"metadata does not exist"):
        await packages.change_metadata(NAME, {})
    for call in (packages.part(NAME, 0), packages.delete(NAME)):
        with pytest.raises(NotFound, match=r"' does not exist"):
            await call
    await stored(packages, NAME, b"abc")
    with pytest.raises(NotFound, match="has no part 1"):
        await packages.part(NAME, 1)


async def test_a_deleted_package_leaves_nothing(packages: PackageStore, cluster: Cluster) -> None:
    await stored(packages, NAME, b"abc", b"def")
    await packages.delete(NAME)
    assert await packages.names("function", NAMESPACE) == []
    assert (await ledgers(cluster), await uploads(cluster)) == (0, [])


@pytest.mark.parametrize("data", [b"", bytes(PART_BYTES_MAX + 1)])
async def test_a_part_has_bounds(packages: PackageStore, data: bytes) -> None:
    upload = await packages.begin(NAME)
    with pytest.raises(InvalidRequest, match=f"data: must have 1 to {PART_BYTES_MAX} bytes"):
        await packages.add(NAME, upload, data)


@pytest.mark.parametrize("upload", ["", "../packages", "1-0123456789abcdef"])
async def test_an_unknown_upload_is_refused(packages: PackageStore, upload: str) -> None:
    with pytest.raises(NotFound):
        await packages.add(NAME, upload, b"abc")
    with pytest.raises(NotFound):
        await packages.finish(NAME, upload, CONTENT)
    await packages.abandon(NAME, upload)


async def test_an_upload_of_another_package_is_refused(packages: PackageStore) -> None:
    upload = await packages.begin(NAME)
    with pytest.raises(NotFound, match="There is no upload"):
        await packages.add(NAME._replace(name="other"), upload, b"abc")


async def test_an_abandoned_upload_is_deleted_by_a_later_one(
    packages: PackageStore, cluster: Cluster, clock: LateClock
) -> None:
    abandoned = await packages.begin(NAME)
    await packages.add(NAME, abandoned, b"abc")
    young = await packages.begin(NAME)
    assert len(await uploads(cluster)) == 2
    clock.ahead_ms = ABANDONED_AFTER_MS + 60_000
    await stored(packages, NAME._replace(name="other"), b"def")
    assert await uploads(cluster) == []
    assert await ledgers(cluster) == 1
    with pytest.raises(NotFound):
        await packages.add(NAME, young, b"late")
    assert await ledgers(cluster) == 1


async def test_parts_of_a_stored_version_are_kept_when_its_upload_was_not_forgotten(
    packages: PackageStore, cluster: Cluster, clock: LateClock
) -> None:
    upload = await packages.begin(NAME)
    await packages.add(NAME, upload, b"abc")
    pending, _ = await cluster.store.get(paths.package_upload(upload))
    await packages.finish(NAME, upload, CONTENT)
    await cluster.store.create(paths.package_upload(upload), pending)  # the process ended here
    clock.ahead_ms = ABANDONED_AFTER_MS + 60_000
    await packages.begin(NAME._replace(name="other"))
    assert await packages.part(NAME, 0) == b"abc"


async def test_a_damaged_record_is_named(packages: PackageStore, cluster: Cluster) -> None:
    await stored(packages, NAME, b"abc")
    path = paths.package_version("function", str(NAMESPACE), NAME.name, NAME.version)
    for value in (b"{", b'{"parts": 1}'):
        await cluster.store.put(path, value)
        with pytest.raises(Failed, match="damaged record"):
            await packages.metadata(NAME)
