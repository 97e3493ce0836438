"""Packages through the brokers' operations: content of any size, rights, and files on a worker."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.auth.actions import Action
from engine.base.clock import LoopClock
from engine.base.disk.files import SystemDisk
from engine.base.entropy import RandomEntropy
from engine.base.errors import AlreadyExists, Failed, NotFound, NotReady, UnusableField
from engine.base.names import NamespaceName
from engine.functions.definitions.functions_pb2 import FunctionMetaData
from engine.functions.definitions.records import FunctionName
from engine.functions.packages.package_client import PackageClient
from engine.functions.packages.package_files import (
    UPLOADED_WITH,
    OversizedPackageError,
    PackageFetcher,
    UnusablePackageUrlError,
    UploadedPackages,
)
from engine.managed.settings import LedgerConfig
from engine.metadata import paths
from engine.packages.package_name import PackageName
from engine.packages.package_operations import OF_NAMESPACE, OnPackage, PackageDescription
from engine.packages.package_store import PART_BYTES_MAX, PackageStore
from tests.sim.kit.disk import InlineLane
from tests.support.functions.package_brokers import PackageServers
from tests.support.ledger_cluster import Cluster

pytestmark = pytest.mark.virtual_time

NAMESPACE = NamespaceName.parse("public/default")
NAME = PackageName("function", NAMESPACE, "a b.ü", "1")
BIG = bytes(range(256)) * (2 * PART_BYTES_MAX // 256) + b"end"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    await made.start("b0")
    yield made
    await made.close()


@pytest.fixture
async def servers(cluster: Cluster) -> PackageServers:
    single = LedgerConfig(ensemble=1, write_quorum=1, ack_quorum=1)
    store = PackageStore(cluster.store, cluster.client(), single, LoopClock(), RandomEntropy())
    return PackageServers(store, count=2)


async def content(client: PackageClient, name: PackageName = NAME) -> bytes:
    return b"".join([piece async for piece in await client.content(name)])


@pytest.mark.parametrize("data", [b"", b"x", BIG])
async def test_content_of_any_size_is_read_as_it_was_stored(
    servers: PackageServers, data: bytes
) -> None:
    client = PackageClient(servers, principal="alice")
    await client.store(NAME, data, "f.py", PackageDescription("d", "c", {"a": "b"}))
    assert await content(client) == data
    described = await client.metadata(NAME)
    assert (described["size"], described["properties"]) == (len(data), {"a": "b"})
    assert {principal for _, principal in servers.calls} == {"alice"}
    assert await client.names("function", NAMESPACE) == ["a b.ü"]
    assert await client.resolved(NAME._replace(version="latest")) == NAME


async def test_a_failed_upload_leaves_nothing(servers: PackageServers, cluster: Cluster) -> None:
    client = PackageClient(servers)
    servers.failing["store_package"] = UnusableField("size", "is not liked")
    with pytest.raises(UnusableField):
        await client.store(NAME, b"abc")
    assert await cluster.store.children(paths.PACKAGE_UPLOADS) == []
    servers.failing.clear()
    await client.store(NAME, b"abc")
    with pytest.raises(AlreadyExists):
        await client.store(NAME, b"abc")


async def test_damaged_content_is_refused_at_its_end(
    servers: PackageServers, cluster: Cluster
) -> None:
    client = PackageClient(servers)
    await client.store(NAME, b"abc")
    await client.store(NAME._replace(version="2"), b"abd")
    path = paths.package_version("function", str(NAMESPACE), NAME.name, "1")
    other = paths.package_version("function", str(NAMESPACE), NAME.name, "2")
    value, stat = await cluster.store.get(path)
    digest = b'"sha256":"'
    start = value.index(digest) + len(digest)
    other_value, _ = await cluster.store.get(other)
    other_start = other_value.index(digest) + len(digest)
    damaged = value[:start] + other_value[other_start : other_start + 64] + value[start + 64 :]
    await cluster.store.put(path, damaged, stat.version)
    with pytest.raises(Failed, match="another SHA-256"):
        await content(client)


async def test_reads_go_to_another_broker_and_changes_do_not(servers: PackageServers) -> None:
    client = PackageClient(servers)
    await client.store(NAME, b"abc")
    servers.down = 1
    assert await content(client) == b"abc"
    with pytest.raises(NotReady, match="Broker b0 does not answer"):
        await client.delete(NAME)
    servers.down = 2
    with pytest.raises(NotReady):
        await client.metadata(NAME)


async def test_a_description_is_replaced_and_a_version_deleted(servers: PackageServers) -> None:
    client = PackageClient(servers)
    await client.store(NAME, b"abc")
    await client.describe(NAME, PackageDescription(contact="c"))
    assert (await client.metadata(NAME))["contact"] == "c"
    await client.delete(NAME)
    assert await client.versions("function", NAMESPACE, NAME.name) == []
    with pytest.raises(NotFound):
        await content(client)


def test_the_right_is_that_of_the_way_by_which_a_package_is_reached() -> None:
    for via, kind, action in (
        ("packages", "sink", Action.PACKAGES),
        ("functions", "function", Action.FUNCTIONS),
        ("sources", "source", Action.SOURCES),
        ("sinks", "sink", Action.SINKS),
    ):
        args = OnPackage(NAMESPACE, kind, via, "a")  # type: ignore[arg-type]
        needed = {right.action: right.of(args) for right in OF_NAMESPACE if right.of(args)}
        assert needed == {action: (NAMESPACE,)}
    with pytest.raises(ValueError, match="sinks have no packages of the kind function"):
        OnPackage(NAMESPACE, "function", "sinks", "a")


# Files


def fetcher(servers: PackageServers, bytes_max: int = len(BIG)) -> PackageFetcher:
    return PackageFetcher(PackageClient(servers), SystemDisk(), InlineLane(), bytes_max)


async def test_a_package_is_fetched_to_a_file(servers: PackageServers, tmp_path: Path) -> None:
    await PackageClient(servers).store(NAME, BIG)
    target = tmp_path / "f.py"
    await fetcher(servers)(str(NAME), target)
    assert target.read_bytes() == BIG
    with pytest.raises(OversizedPackageError, match=f"more than {len(BIG) - 1} bytes"):
        await fetcher(servers, len(BIG) - 1)(str(NAME), tmp_path / "g.py")


@pytest.mark.parametrize("url", ["http://127.0.0.1/f.py", "file:///etc/passwd", "builtin://x", ""])
async def test_a_worker_fetches_nothing_but_packages(
    servers: PackageServers, tmp_path: Path, url: str
) -> None:
    with pytest.raises(UnusablePackageUrlError):
        await fetcher(servers)(url, tmp_path / "f.py")
    assert servers.calls == []


async def test_uploads_of_a_function_are_removed_with_it_and_others_are_kept(
    servers: PackageServers,
) -> None:
    client, function = PackageClient(servers), FunctionName("public", "default", "f")
    uploads = UploadedPackages(client)
    first = await uploads.next_version("function", function)
    assert str(first) == "function://public/default/f@0"
    marked = PackageDescription(properties={UPLOADED_WITH: str(function)})
    await client.store(first, b"1", "f.py", marked)
    await client.store(first._replace(version="mine"), b"own")
    second = await uploads.next_version("function", function)
    assert second.version == "1"
    await client.store(second, b"2", "f.py", marked)
    await uploads.remove("function", function, but=str(second))
    assert await client.versions("function", NAMESPACE, "f") == ["1", "mine"]
    metadata = FunctionMetaData()
    details = metadata.functionDetails
    details.tenant, details.namespace, details.name = function
    for _ in range(2):
        await uploads.remove_of(metadata)
        assert await client.versions("function", NAMESPACE, "f") == ["mine"]
