"""A bucket that is away, slow, forbids, is full or answers with other bytes: each is named, and no other entries are
returned. A proxy stands in front of a real server of the S3 protocol."""

import urllib.request
from collections.abc import Iterator

import pytest

from engine.offload.bucket import S3, Bucket
from engine.offload.errors import OffloadError, StoreTrouble
from engine.offload.ledger_writing import write_ledger
from engine.offload.object_store import ObjectStore
from engine.offload.reading.object_reader import ObjectReader
from engine.offload.stores import obstore_stores
from engine.offload.stores.obstore_stores import ConfiguredStores
from tests.support.stores.s3_proxy import BUSY, FORBIDDEN, FULL, NO_BUCKET, S3Proxy
from tests.unit.offload.test_ledger_writing import ATTRIBUTES, NAME, ListedLedger, read_all

PAYLOADS = [b"payload %d" % i for i in range(50)]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    moto = pytest.importorskip("moto.server", reason="needs moto, a server of the S3 protocol")
    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    url = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{url}/cold", method="PUT")).close()
    yield url
    running.stop()


@pytest.fixture
def proxy(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Proxy]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(obstore_stores, "RETRIES", 0)
    monkeypatch.setattr(obstore_stores, "ANSWER_S", 1)
    made = S3Proxy(server)
    yield made
    made.close()


def store_at(url: str, bucket: str = "cold") -> ObjectStore:
    return ConfiguredStores(None).open(Bucket(S3, bucket, "us-east-1", url))


@pytest.mark.parametrize(
    ("refusal", "trouble"),
    [
        (FORBIDDEN, StoreTrouble.FORBIDDEN),
        (FULL, StoreTrouble.FULL),
        (BUSY, StoreTrouble.SLOW),
        (NO_BUCKET, StoreTrouble.MISSING),
    ],
)
async def test_a_refusal_is_named_by_its_kind_in_writing_and_in_reading(
    proxy: S3Proxy, refusal: tuple[int, str], trouble: StoreTrouble
) -> None:
    store = store_at(proxy.url)
    await write_ledger(store, NAME, ListedLedger(PAYLOADS), ATTRIBUTES, 300)
    reader = await ObjectReader.open(store, NAME)
    proxy.refusal = refusal
    with pytest.raises(OffloadError) as written:
        await write_ledger(store, NAME, ListedLedger(PAYLOADS), ATTRIBUTES, 300)
    assert written.value.trouble is trouble
    with pytest.raises(OffloadError) as read:
        await reader.read(0, 9, 1 << 20)
    assert read.value.trouble is trouble
    proxy.refusal = None
    assert await read_all(reader, 0, 1 << 20) == PAYLOADS


async def test_a_bucket_that_does_not_answer_is_slow_and_one_without_a_server_is_away(
    proxy: S3Proxy,
) -> None:
    proxy.silent = True
    with pytest.raises(OffloadError) as slow:
        await store_at(proxy.url).get("k")
    assert slow.value.trouble is StoreTrouble.SLOW
    with pytest.raises(OffloadError) as away:
        await store_at("http://127.0.0.1:1").get("k")
    assert away.value.trouble is StoreTrouble.AWAY


@pytest.mark.parametrize("fault", ["short", "changed"])
async def test_a_damaged_answer_is_requested_again_and_one_that_stays_is_never_entries(
    proxy: S3Proxy, fault: str
) -> None:
    store = store_at(proxy.url)
    await write_ledger(store, NAME, ListedLedger(PAYLOADS), ATTRIBUTES, 300)
    reader = await ObjectReader.open(store, NAME)
    proxy.kept, proxy.changed = (100, False) if fault == "short" else (None, True)
    proxy.faults = 1
    assert await read_all(reader, 0, 1 << 20) == PAYLOADS
    proxy.faults = -1
    with pytest.raises(OffloadError) as damaged:
        await reader.read(0, 9, 1 << 20)
    assert damaged.value.trouble is StoreTrouble.DAMAGED
    with pytest.raises(OffloadError):
        await write_ledger(store, NAME, ListedLedger(PAYLOADS), ATTRIBUTES, 300)
