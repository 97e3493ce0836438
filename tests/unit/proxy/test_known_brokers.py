"""The proxy knows the registered brokers, and only those."""

import asyncio

import pytest

from engine.client.errors import NoBrokerError
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.store import StoreUnavailableError
from engine.ownership.registration import BrokerRecord, live_brokers
from engine.proxy.known_brokers import (
    KNOWN_FOR_S,
    BrokerUrls,
    KnownBrokers,
    TargetRefused,
    registered_in,
)

pytestmark = pytest.mark.virtual_time


class Records:
    """The records in the store; ``reads`` counts."""

    def __init__(self) -> None:
        self.brokers = [BrokerUrls("pulsar://a:6650", "pulsar+ssl://a:6651")]
        self.error: Exception | None = None
        self.reads = 0

    async def __call__(self) -> list[BrokerUrls]:
        self.reads += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return self.brokers


async def refusal(known: KnownBrokers, target: str) -> str:
    with pytest.raises(TargetRefused) as refused:
        await known.url_of(target)
    return str(refused.value)


@pytest.mark.parametrize(
    ("encrypted", "url"), [(False, "pulsar://a:6650"), (True, "pulsar+ssl://a:6651")]
)
async def test_either_advertised_address_names_the_broker(encrypted: bool, url: str) -> None:
    known = KnownBrokers(Records(), encrypted=encrypted)
    for target in ("a:6650", "a:6651", "A:6650", "pulsar://a:6650", "pulsar+ssl://a:6651"):
        assert await known.url_of(target) == url
    for target in ("a:6652", "b:6650", "a.:6650", "127.0.0.1:6650"):
        assert await refusal(known, target) == "Target broker isn't available."
    for target in ("", "a", "a:", "a:x", ":6650", "http://a:6650", "a:6650/x"):
        assert await refusal(known, target) == "Target broker cannot be validated."


async def test_brokers_are_read_once_in_a_while_by_all_together() -> None:
    records = Records()
    known = KnownBrokers(records, encrypted=False)
    await asyncio.gather(*(known.url_of("a:6650") for _ in range(5)))
    assert records.reads == 1
    await asyncio.sleep(KNOWN_FOR_S + 0.1)
    await known()
    assert records.reads == 2


async def test_a_broker_that_has_just_registered_is_found_at_once() -> None:
    records = Records()
    known = KnownBrokers(records, encrypted=False)
    await known()
    records.brokers = [*records.brokers, BrokerUrls("pulsar://b:6650", "")]
    await asyncio.sleep(0.2)
    assert await known.url_of("b:6650") == "pulsar://b:6650"
    before = records.reads
    for _ in range(50):
        await refusal(known, "c:6650")
    assert records.reads <= before + 1  # an attacker does not burden the store


async def test_a_broker_that_has_gone_is_no_target_any_more() -> None:
    records = Records()
    known = KnownBrokers(records, encrypted=False)
    await known()
    records.brokers = []
    await asyncio.sleep(KNOWN_FOR_S + 0.1)
    assert await refusal(known, "a:6650") == "Target broker isn't available."
    assert await known() == []


async def test_while_the_store_is_away_the_brokers_known_last_serve() -> None:
    error = StoreUnavailableError("away")
    records = Records()
    known = KnownBrokers(records, encrypted=False)
    records.error = error
    assert await refusal(known, "a:6650") == "Target broker cannot be validated."
    with pytest.raises(NoBrokerError):
        await known()
    records.error = None
    await asyncio.sleep(KNOWN_FOR_S + 0.1)
    assert await known() == ["pulsar://a:6650"]
    records.error = error
    await asyncio.sleep(KNOWN_FOR_S + 0.1)
    assert await known.url_of("a:6650") == "pulsar://a:6650"


async def test_a_broker_without_a_port_of_the_used_scheme_is_no_target() -> None:
    records = Records()
    records.brokers = [BrokerUrls("pulsar://a:6650", "")]
    known = KnownBrokers(records, encrypted=True)
    assert await known() == []
    assert await refusal(known, "a:6650") == "Target broker isn't available."


async def test_registered_brokers_are_those_in_the_store() -> None:
    store = MemoryServer().session()
    record = BrokerRecord(
        "b:1", "pulsar://b:6650", "http://b:1", 0, "4.0.8", service_url_tls="pulsar+ssl://b:6651"
    )
    await store.create(paths.broker("b:1"), record.encode(), make_parents=True)
    assert list(await registered_in(store)()) == [
        BrokerUrls("pulsar://b:6650", "pulsar+ssl://b:6651")
    ]


@pytest.mark.parametrize("value", [b"no JSON", b"[]", b'{"startTimestamp": "now"}'])
async def test_an_unreadable_registration_leaves_the_other_brokers(value: bytes) -> None:
    store = MemoryServer().session()
    record = BrokerRecord("b:1", "pulsar://b:6650", "http://b:1", 0, "4.0.8")
    await store.create(paths.broker("a:1"), value, make_parents=True)
    await store.create(paths.broker("b:1"), record.encode())
    assert await live_brokers(store) == {"b:1": record}


@pytest.mark.parametrize("url", ["b:6650", "http://x:1", "pulsar://b", "pulsar://b:99999"])
async def test_an_address_that_is_none_leaves_the_other_brokers(url: str) -> None:
    records = Records()
    records.brokers = [BrokerUrls(url, ""), *records.brokers, BrokerUrls("pulsar://c:6650", url)]
    known = KnownBrokers(records, encrypted=False)
    assert await known.url_of("a:6650") == "pulsar://a:6650"
    assert await known.url_of("c:6650") == "pulsar://c:6650"
    assert await known() == ["pulsar://a:6650", "pulsar://c:6650"]
