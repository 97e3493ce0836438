"""Objects in a real server of the S3 protocol, and in a folder, behave as the port of an object store says."""

import asyncio
import os
import threading
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from engine.base.clock import SystemClock
from engine.base.tasks import TaskScope
from engine.offload.bucket import AZURE, FILES, S3, Bucket
from engine.offload.errors import MissingObjectError, ObjectStoreError, OffloadError
from engine.offload.object_store import ObjectStore
from engine.offload.stores import ending
from engine.offload.stores.obstore_stores import ConfiguredStores, ObstoreStore
from tests.support.stores.azurite import ACCOUNT, KEY, running_azurite
from tests.support.stores.s3_proxy import S3Proxy, unfinished_uploads
from tests.support.waiting import until

MIB = 1 << 20


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    moto = pytest.importorskip("moto.server", reason="needs moto, a server of the S3 protocol")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{url}/cold", method="PUT")).close()
    yield url
    server.stop()


@pytest.fixture(scope="module")
def azure_endpoint() -> Iterator[str]:
    with running_azurite("cold") as url:
        yield url


@pytest.fixture(params=["s3", "azure", "folder"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ObjectStore:
    if request.param == "folder":
        return ConfiguredStores(None).open(Bucket(FILES, str(tmp_path / "cold")))
    if request.param == "azure":
        endpoint = request.getfixturevalue("azure_endpoint")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
        return ConfiguredStores(None).open(Bucket(AZURE, "cold", "", endpoint))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    endpoint = request.getfixturevalue("s3_endpoint")
    return ConfiguredStores(None).open(Bucket(S3, "cold", "us-east-1", endpoint))


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_an_object_is_read_as_it_was_put_whole_and_in_ranges(store: ObjectStore) -> None:
    parts = [b"a" * (3 * MIB), b"b" * (9 * MIB), b"c"]
    await store.put("k", pieces(*parts), {"name": "value"})
    stored = await store.get("k")
    assert stored.data == b"".join(parts)
    if store.keeps_attributes:
        assert stored.attributes["name"] == "value"
    assert await store.get_ranges("k", (3 * MIB - 1, 3 * MIB + 1, 3 * MIB + 2)) == [b"ab", b"b"]
    assert await store.get_ranges("k", (12 * MIB, 12 * MIB + 9, 12 * MIB + 10)) == [b"c", b""]
    await store.put("k", pieces(b"other"), {})
    assert (await store.get("k")).data == b"other"
    await store.delete(["k"])


async def test_an_object_that_is_missing_is_named_and_deleted_without_an_error(
    store: ObjectStore,
) -> None:
    with pytest.raises(MissingObjectError, match="object none does not exist"):
        await store.get("none")
    with pytest.raises(MissingObjectError, match="object none does not exist"):
        await store.get_ranges("none", (0, 1))
    await store.delete(["none"])


@pytest.fixture
def proxy(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Proxy]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    made = S3Proxy(s3_endpoint)
    yield made
    made.close()


async def test_an_object_of_one_part_is_put_by_one_request_and_a_larger_one_by_parts(
    proxy: S3Proxy,
) -> None:
    store = ConfiguredStores(None).open(Bucket(S3, "cold", "us-east-1", proxy.url))
    await store.put("k", pieces(b"a" * (3 * MIB), b"b" * (5 * MIB)), {"name": "value"})
    assert proxy.requests == [("PUT", "/cold/k")]
    stored = await store.get("k")
    assert (stored.data, stored.attributes["name"]) == (b"a" * 3 * MIB + b"b" * 5 * MIB, "value")
    proxy.requests.clear()
    await store.put("k", pieces(b"a" * (8 * MIB), b"b"), {})
    methods = [method for method, _path in proxy.requests]
    assert methods == ["POST", "PUT", "PUT", "POST"]
    await store.delete(["k"])


async def test_an_upload_whose_caller_is_cancelled_leaves_no_object_and_no_parts(
    store: ObjectStore, request: pytest.FixtureRequest
) -> None:
    sent = asyncio.Event()
    ended = asyncio.Event()

    async def stuck() -> AsyncIterator[bytes]:
        try:
            yield b"x" * (9 * MIB)
            yield b"x" * (9 * MIB)
            sent.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    scope = TaskScope("test")
    put = scope.spawn("put", store.put("k", stuck(), {}))
    await sent.wait()
    put.cancel()
    with pytest.raises(asyncio.CancelledError):
        await put
    await ended.wait()
    await store.delete(["k"])
    assert [key async for key in store.listed()] == []
    if isinstance(store, ObstoreStore) and store.driver == S3:
        endpoint: str = request.getfixturevalue("s3_endpoint")
        assert unfinished_uploads(endpoint) == 0


async def test_an_object_that_an_upload_may_still_write_is_not_deleted(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "ENDING_S", 0.01)
    store = ConfiguredStores(None).open(Bucket(S3, "cold", "us-east-1", proxy.url))
    arrived, answered = threading.Event(), threading.Event()

    def hold(method: str, _path: str) -> None:
        arrived.set()
        if method == "PUT":
            answered.wait(30)

    proxy.before = hold
    scope = TaskScope("test")
    put = scope.spawn("put", store.put("k", pieces(b"x"), {}))
    await asyncio.to_thread(arrived.wait)
    put.cancel()
    with pytest.raises(asyncio.CancelledError):
        await put
    with pytest.raises(ObjectStoreError, match="object k: its upload has not ended"):
        await store.delete(["k"])
    answered.set()
    await until_done(lambda: store.delete(["k"]))
    assert [key async for key in store.listed()] == []


async def until_done(delete: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                return await delete()
            except ObjectStoreError:
                await asyncio.sleep(0.01)


async def test_a_file_is_closed_behind_the_thread_that_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep the file open: its number may become that of a socket, to which the thread would then write."""
    monkeypatch.setattr(ending, "ENDING_S", 0.01)
    store = ConfiguredStores(None).open(Bucket(FILES, str(tmp_path)))
    began, may_end, numbers = threading.Event(), threading.Event(), list[int]()
    write = os.write

    def slow(descriptor: int, data: bytes) -> int:
        numbers.append(descriptor)
        began.set()
        may_end.wait(30)
        return write(descriptor, data)

    monkeypatch.setattr("engine.offload.stores.folder_store.os.write", slow)
    scope = TaskScope("test")
    put = scope.spawn("put", store.put("k", pieces(b"x"), {}))
    await asyncio.to_thread(began.wait)
    put.cancel()
    with pytest.raises(asyncio.CancelledError):
        await put
    os.fstat(numbers[0])
    may_end.set()

    def is_closed() -> bool:
        try:
            os.fstat(numbers[0])
        except OSError:
            return True
        return False

    await until(is_closed)
    assert list(tmp_path.iterdir()) == []


async def test_an_upload_that_fails_leaves_no_object(store: ObjectStore) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"x" * (9 * MIB)
        raise OSError("the source failed")

    with pytest.raises((ObjectStoreError, OSError), match="the source failed"):
        await store.put("k", failing(), {})
    assert [key async for key in store.listed()] == []
    await store.put("k", pieces(b"other"), {})
    await store.delete(["k"])


async def test_attributes_are_read_without_the_bytes(store: ObjectStore) -> None:
    await store.put("k", pieces(b"x"), {"name": "value"})
    attributes = await store.attributes("k")
    assert attributes.get("name") == ("value" if store.keeps_attributes else None)
    await store.delete(["k"])
    with pytest.raises(MissingObjectError):
        await store.attributes("k")


async def test_objects_are_listed_by_the_beginning_of_their_keys(store: ObjectStore) -> None:
    for key in ("a-1", "a-2", "b-1"):
        await store.put(key, pieces(b"x"), {})
    objects = [listed async for listed in store.listed("a-")]
    assert sorted((listed.key, listed.size) for listed in objects) == [("a-1", 1), ("a-2", 1)]
    assert all(abs(listed.modified_ms - SystemClock().wall_ms()) < 60_000 for listed in objects)
    await store.delete(["a-1", "a-2", "b-1"])
    assert [key async for key in store.listed()] == []


async def test_a_server_that_refuses_or_is_away_is_an_error_in_one_line(
    s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    stores = ConfiguredStores(None)
    for bucket in (
        Bucket(S3, "no-such-bucket", "us-east-1", s3_endpoint),
        Bucket(S3, "cold", "us-east-1", "http://127.0.0.1:1"),
    ):
        with pytest.raises((ObjectStoreError, MissingObjectError)) as raised:
            await stores.open(bucket).put("k", pieces(b"x"), {})
        assert "\n" not in str(raised.value)


async def test_files_of_writers_that_were_killed_are_no_objects_and_go_with_their_key(
    tmp_path: Path,
) -> None:
    store = ConfiguredStores(None).open(Bucket(FILES, str(tmp_path)))
    left = tmp_path / f"k.{os.getpid()}-9.partial"
    left.write_bytes(b"half")
    assert [key async for key in store.listed()] == []
    await store.delete(["k"])
    assert not left.exists()
    with pytest.raises(ObjectStoreError, match="no name of a file"):
        await store.get("../k")


async def test_a_container_that_is_missing_is_named_as_such(
    azure_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    store = ConfiguredStores(None).open(Bucket(AZURE, "none", "", azure_endpoint))
    with pytest.raises(ObjectStoreError, match="no such bucket"):
        await store.put("k", pieces(b"x"), {})


def test_a_bucket_without_a_name_is_that_of_the_settings(tmp_path: Path) -> None:
    default = Bucket(FILES, str(tmp_path))
    stores = ConfiguredStores(default)
    assert stores.open(Bucket(FILES)) is stores.open(default)
    with pytest.raises(OffloadError, match="azureblob: no bucket is configured"):
        stores.open(Bucket(AZURE))
    with pytest.raises(OffloadError, match="tape: no driver of that name"):
        stores.open(Bucket("tape", "x"))
