"""Lookups of a topic's broker, over one connection for each address."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.names import TopicName
from engine.broker.ports import LookupResult
from engine.client.broker_link import BrokerLink
from engine.client.errors import LostError, RedirectedError, UnreachableError
from engine.client.lookup import Links
from engine.client.raw_producer import RawProducer
from engine.net.listener import Listener
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles, ServerFiles
from engine.wire.errors import REFUSALS, ServerError
from tests.support.broker_bench import NAME, PATIENT, Bench, Everything, served
from tests.support.net.certificates import Authority


class Elsewhere(Everything):
    """A broker's requests whose lookups all answer with another broker."""

    def __init__(self, to: LookupResult) -> None:
        super().__init__()
        self.owner = to
        self.listeners: list[str] = []
        """The listener that each lookup named; empty for none."""

    async def lookup(self, topic: TopicName, *, authoritative: bool, listener: str) -> LookupResult:
        self.listeners.append(listener)
        return self.owner


class Signpost:
    """Another broker of the cluster, which owns nothing."""

    def __init__(self, bench: Bench, to: LookupResult) -> None:
        self.elsewhere = Elsewhere(to)
        self._sessions = bench.sessions(self.elsewhere)

    async def start(self) -> str:
        self.server = await LoopNetwork().listen("127.0.0.1", 0, self._sessions.accept)
        return f"pulsar://127.0.0.1:{self.server.port}"

    async def close(self) -> None:
        self.server.close()
        await self._sessions.close()


async def test_concurrent_lookups_share_one_connection(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, sessions, url):
        links = Links(LoopNetwork(), PATIENT, BrokerLink)
        links_used = await asyncio.gather(*(links.owner(NAME.full, url) for _ in range(5)))
        assert len(set(links_used)) == 1
        assert sessions.accepted == 1
        assert await links.partitions(NAME.full, url) == 0
        await links.close()
        with pytest.raises(LostError):
            await links.get(url)


async def test_a_dead_connection_is_replaced(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, sessions, url):
        links = Links(LoopNetwork(), PATIENT, BrokerLink)
        first = await links.get(url)
        first.abort()
        second = await links.get(url)
        assert second is not first
        assert sessions.accepted == 2
        await links.close()


@pytest.mark.parametrize("redirect", [True, False])
async def test_the_owner_is_found_over_another_broker(tmp_path: Path, redirect: bool) -> None:
    async with served(tmp_path) as (bench, sessions, url):
        post = Signpost(bench, LookupResult(url, redirect=redirect))
        links = Links(LoopNetwork(), PATIENT, BrokerLink)
        link = await links.owner(NAME.full, await post.start())
        assert link is await links.get(url)
        assert sessions.accepted == 1
        producer = await RawProducer.open(link, NAME.full)
        assert producer.name in bench.topic.producers
        await links.close()
        await post.close()


async def test_redirections_in_a_circle_are_an_error(tmp_path: Path) -> None:
    async with served(tmp_path) as (bench, _, url):
        bench.everything.owner = LookupResult(url, redirect=True)
        links = Links(LoopNetwork(), PATIENT, BrokerLink)
        with pytest.raises(RedirectedError):
            await links.owner(NAME.full, url)
        await links.close()


@pytest.mark.parametrize("listener", [None, "abroad"])
async def test_lookups_name_the_listener_whose_addresses_can_be_reached(
    tmp_path: Path, listener: str | None
) -> None:
    async with served(tmp_path) as (bench, _, url):
        post = Signpost(bench, LookupResult(url))
        links = Links(LoopNetwork(), replace(PATIENT, listener_name=listener), BrokerLink)
        assert await links.owner(NAME.full, await post.start()) is await links.get(url)
        assert post.elsewhere.listeners == [listener or ""]
        await links.close()
        await post.close()


async def test_a_refused_lookup_and_an_unreachable_broker_are_errors(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, _, url):
        links = Links(LoopNetwork(), replace(PATIENT, connect_timeout_s=5.0), BrokerLink)
        with pytest.raises(REFUSALS[ServerError.InvalidTopicName]):
            await links.owner("bogus://topic", url)
        with pytest.raises(UnreachableError):
            await links.owner(NAME.full, "pulsar://127.0.0.1:1")
        await links.close()


@asynccontextmanager
async def served_in_tls(
    directory: Path, *hosts: str
) -> AsyncIterator[tuple[Bench, str, str, ClientFiles]]:
    """Yield a broker with sessions in clear and in TLS for ``hosts``, their URLs, and files that trust it."""
    async with served(directory) as (bench, sessions, url):
        authority = Authority(directory)
        context = ServerFiles(*authority.issue("broker", *hosts)).context()
        listener = Listener(LoopNetwork(), sessions.accept, connections_max=0)
        port = await listener.start("127.0.0.1", 0, tls=context)
        url_tls = f"pulsar+ssl://127.0.0.1:{port}"
        bench.everything.owner = LookupResult(url, url_tls)
        yield bench, url, url_tls, ClientFiles(authority.cert)
        await listener.drain(1.0)


async def test_a_lookup_in_tls_leads_to_a_connection_in_tls(tmp_path: Path) -> None:
    async with served_in_tls(tmp_path, "127.0.0.1") as (bench, url, url_tls, trusted):
        links = Links(LoopNetwork(), replace(PATIENT, tls=trusted.context), BrokerLink)
        clear = await links.owner(NAME.full, url)
        link = await links.owner(NAME.full, url_tls)
        assert (clear.encrypted, link.encrypted) == (False, True)
        assert link is await links.get(url_tls)
        producer = await RawProducer.open(link, NAME.full)
        assert producer.name in bench.topic.producers
        bench.everything.owner = LookupResult(url)  # moved to a broker without TLS
        with pytest.raises(RedirectedError, match="without TLS only"):
            await links.owner(NAME.full, url_tls)
        await links.close()


async def test_a_broker_that_cannot_be_verified_is_not_used(tmp_path: Path) -> None:
    async with served_in_tls(tmp_path, "elsewhere.example") as (_, _, url_tls, trusted):
        for tls, reason in (
            (trusted.context, r"not valid for '127\.0\.0\.1'"),
            (ClientFiles().context, "certificate verify failed"),
            (None, "in TLS, which is not set up"),
        ):
            links = Links(LoopNetwork(), replace(PATIENT, tls=tls), BrokerLink)
            with pytest.raises(UnreachableError, match=reason):
                await links.owner(NAME.full, url_tls)
            await links.close()
        anywhere = replace(trusted, verify_hostname=False).context
        links = Links(LoopNetwork(), replace(PATIENT, tls=anywhere), BrokerLink)
        assert (await links.owner(NAME.full, url_tls)).encrypted
        with pytest.raises(ValueError, match="is not a URL"):
            await links.get("http://127.0.0.1:1")
        await links.close()
