"""Clients of a topic that is being moved: they notice nothing until it is known who serves it next."""

import asyncio

import pytest

from engine.broker.outlet import Moved, WithheldCloses, next_addresses
from engine.client.broker_link import BrokerLink
from engine.client.errors import RefusedError, SentAwayError
from engine.client.raw_consumer import FROM_EARLIEST, SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.net.listener_urls import ListenerUrls
from engine.ownership.owner import OwnerRecord
from engine.wire import client_commands as say
from engine.wire.errors import ServerError
from tests.support.broker_bench import NAME, Bench, Client, link_to, served
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

NEXT = OwnerRecord("pulsar://next:6650", "http://next:8080", "pulsar+ssl://next:6651")
OUTSIDE = ListenerUrls("pulsar://outside:6650")


class Attached:
    """A producer and a consumer on one link, and how many messages arrived."""

    producer: RawProducer
    consumer: RawConsumer

    def __init__(self, link: BrokerLink) -> None:
        self.link = link
        self.messages = 0

    async def open(self) -> None:
        self.producer = await RawProducer.open(self.link, NAME.full, name="p1", epoch=0)
        self.consumer = await RawConsumer.open(
            *(self.link, NAME.full, "s", SHARED),
            on_messages=self._count,
            initial=FROM_EARLIEST,
        )

    def _count(self, messages: object) -> None:
        self.messages += 1


async def answered(link: BrokerLink) -> None:
    """Return when the broker has handled everything that was sent on the link."""
    request_id = link.new_id()
    await link.request(request_id, say.partitioned_metadata(NAME.full, request_id))


async def moving(bench: Bench, attached: Attached) -> WithheldCloses:
    """Close the topic as a move does."""
    await attached.open()
    withheld = WithheldCloses()
    await bench.registry.unload(NAME, withheld)
    return withheld


async def test_closes_are_sent_with_the_address_of_the_next_broker() -> None:
    async with served() as (bench, _, url):
        attached = Attached(await link_to(url))
        withheld = await moving(bench, attached)
        await answered(attached.link)
        assert (attached.producer.error, attached.consumer.error) == (None, None)
        withheld.send(NEXT)
        await answered(attached.link)
        for error in (attached.producer.error, attached.consumer.error):
            assert isinstance(error, SentAwayError)
            assert (error.url, error.url_tls) == (NEXT.native_url, NEXT.native_url_tls)
        attached.link.close()


async def test_clients_of_older_protocols_get_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.broker.outlet.NEXT_BROKER_VERSION", 22)
    async with served() as (bench, _, url):
        attached = Attached(await link_to(url))
        (await moving(bench, attached)).send(NEXT)
        await answered(attached.link)
        error = attached.producer.error
        assert isinstance(error, SentAwayError)
        assert (error.url, error.url_tls) == ("", "")
        attached.link.close()


def test_clients_of_a_listener_get_its_addresses() -> None:
    client = Client()
    moved = Moved(client, NEXT._replace(listeners={"outside": OUTSIDE}))
    assert next_addresses(client, moved) == (None, None)  # its lookup may name a listener
    client.listener = "outside"
    assert next_addresses(client, moved) == (OUTSIDE.service_url, None)
    client.listener = "inside"
    assert next_addresses(client, moved) == (None, None)


async def test_messages_and_permits_of_clients_to_be_notified_are_ignored() -> None:
    async with served() as (bench, _, url):
        attached = Attached(await link_to(url))
        withheld = await moving(bench, attached)
        attached.producer.send([0], [b"\x00\x00\x00\x00"])
        attached.consumer.flow(10)
        await answered(attached.link)
        assert attached.producer.unanswered == 1  # it has no receipt, and is sent again
        withheld.send()
        await answered(attached.link)
        assert attached.producer.error is not None
        attached.link.close()


async def test_a_client_that_closes_meanwhile_is_not_notified() -> None:
    async with served() as (bench, _, url):
        attached = Attached(await link_to(url))
        withheld = await moving(bench, attached)
        closes: list[int] = []
        attached.link.unclaimed = lambda kind, body: closes.append(kind)  # type: ignore[method-assign]
        await attached.producer.close()
        await attached.consumer.close()
        withheld.send(NEXT)
        await answered(attached.link)
        assert closes == []
        attached.link.close()


async def test_requests_of_clients_to_be_notified_are_refused_as_passing() -> None:
    async with served() as (bench, _, url):
        attached = Attached(await link_to(url))
        withheld = await moving(bench, attached)
        with pytest.raises(RefusedError) as refused:
            await attached.consumer.unsubscribe()
        assert refused.value.code is ServerError.ServiceNotReady
        again = say.producer(
            *(NAME.full, attached.producer.producer_id, attached.link.new_id()),
            producer_name="p1",
            epoch=0,
        )
        with pytest.raises(RefusedError, match="is being unloaded"):
            await attached.link.request(attached.link._last_id, again)
        withheld.send(NEXT)
        await answered(attached.link)
        attached.link.close()


async def test_a_connection_that_ends_meanwhile_needs_no_notice() -> None:
    async with served() as (bench, sessions, url):
        attached = Attached(await link_to(url))
        withheld = await moving(bench, attached)
        attached.link.abort()
        await until(lambda: sessions.count == 0)
        withheld.send(NEXT)
        await asyncio.sleep(0)
