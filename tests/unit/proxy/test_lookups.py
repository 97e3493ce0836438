"""Requests of connections that name no broker are answered by the brokers; a client produces and consumes through the
proxy alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.broker.connection.sessions import Sessions
from engine.client.client import PulsarClient
from engine.client.errors import RefusedError
from engine.proxy.proxy_service import ProxyService
from engine.proxy.requests_to_any import TOO_MANY
from engine.proxy.upstreams import IDLE_S
from engine.wire import client_commands as say
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ServerError
from engine.wire.states import REQUESTS, CommandType
from tests.support.broker_bench import NAME, PATIENT, Bench, served
from tests.support.net.pipe_network import PipeNetwork
from tests.support.proxy.rig import (
    Peer,
    ScriptedBroker,
    body_of,
    dial,
    page,
    program,
    proxied,
)
from tests.support.raw_client import entry_of
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time
CONNECT = say.connect("the client")
MISSING = "persistent://public/default/none"


@asynccontextmanager
async def before_a_broker(
    **settings: int,
) -> AsyncIterator[tuple[ProxyService, Bench, Sessions, str]]:
    """Yield a proxy, the broker behind it with its sessions, and the broker's URL."""
    async with served() as (bench, sessions, url), proxied(program(url, **settings)) as proxy:
        yield proxy, bench, sessions, url


async def connected(proxy: ProxyService) -> Peer:
    """Return a client's lookup connection."""
    client = await dial(proxy, CONNECT)
    await client.next("connected")
    return client


def client_of(proxy: ProxyService) -> PulsarClient:
    async def brokers() -> list[str]:
        return [f"pulsar://127.0.0.1:{proxy.port}"]

    return PulsarClient(
        network=PipeNetwork(),
        clock=LoopClock(),
        entropy=RandomEntropy(),
        brokers=brokers,
        settings=PATIENT,
    )


async def test_a_client_produces_and_consumes_through_the_proxy() -> None:
    async with before_a_broker() as (proxy, _, sessions, _):
        client = client_of(proxy)
        link = await client.owner(NAME.full)
        await link.request(1, say.subscribe(NAME.full, "s", 0, 1, 1))
        await link.request(2, say.producer(NAME.full, 1, 2))
        receipts: list[object] = []
        messages: list[object] = []
        link.receipts = receipts.append  # type: ignore[method-assign, assignment]
        link.messages = messages.append  # type: ignore[method-assign, assignment]
        link.send(say.flow(1, 10) + say.send(1, 0, entry_of(b"v")))
        await until(lambda: receipts and messages)
        assert sessions.accepted == 2  # a lookup connection, and that of the client
        await client.close()


async def test_a_lookup_names_the_owner_and_the_proxy() -> None:
    async with before_a_broker() as (proxy, _, _, url):
        client = await connected(proxy)
        client.send(say.lookup(NAME.full, 7))
        answer = await client.next("lookupTopicResponse")
        assert (answer.request_id, answer.response) == (7, answer.Connect)
        assert answer.brokerServiceUrl == answer.brokerServiceUrlTls == url
        assert answer.proxy_through_service_url
        assert answer.authoritative


async def test_connected_states_no_size_of_messages() -> None:
    """Java's client takes the last size that a connection stated for all of them."""
    async with before_a_broker() as (proxy, _, _, _):
        client = await dial(proxy, CONNECT)
        answer = await client.next("connected")
        assert not answer.HasField("max_message_size")
        assert not answer.feature_flags.supports_topic_watchers


async def test_other_requests_are_passed_on_with_all_their_fields() -> None:
    async with before_a_broker() as (proxy, bench, _, _):
        names = [f"persistent://public/default/{name}" for name in ("a", "b", "ab")]
        bench.everything.listed = names
        client = await connected(proxy)
        client.send(say.partitioned_metadata(NAME.full, 1, metadata_auto_creation_enabled=False))
        answer = await client.next("partitionMetadataResponse")
        assert (answer.request_id, answer.partitions) == (1, 0)
        pattern = "persistent://public/default/a.*"
        client.send(say.topics_of_namespace("public/default", 2, topics_pattern=pattern))
        answer = await client.next("getTopicsOfNamespaceResponse")
        assert (answer.request_id, list(answer.topics)) == (2, [names[0], names[2]])
        assert answer.filtered
        digest = answer.topics_hash
        client.send(
            say.topics_of_namespace("public/default", 3, topics_pattern=pattern, topics_hash=digest)
        )
        answer = await client.next("getTopicsOfNamespaceResponse")
        assert (answer.request_id, answer.changed, list(answer.topics)) == (3, False, [])
        client.send(say.get_schema(MISSING, 4))
        answer = await client.next("getSchemaResponse")
        assert (answer.request_id, answer.error_code) == (4, ServerError.TopicNotFound)
        shown = await body_of(await page(proxy, "/metrics"))
        assert (
            'pulsar_proxy_get_topics_of_namespace_requests_total{cluster="standalone"} 2' in shown
        )
        assert 'pulsar_proxy_partitions_metadata_requests_total{cluster="standalone"} 1' in shown
        assert 'pulsar_proxy_get_schema_requests_total{cluster="standalone"} 1' in shown


async def test_a_broker_that_would_create_the_topic_is_not_asked_to_look() -> None:
    broker = ScriptedBroker()
    url = await broker.start()
    async with proxied(program(url)) as proxy:
        client = await connected(proxy)
        client.send(say.partitioned_metadata(NAME.full, 1, metadata_auto_creation_enabled=False))
        far = await broker.peer()
        await far.next("connect")
        far.send(commands.connected(server_version="old", protocol_version=10))
        answer = await client.next("partitionMetadataResponse")
        assert (answer.request_id, answer.error) == (1, ServerError.NotAllowedError)
        assert "PARTITIONED_METADATA" not in far.kinds()
        broker.close()


async def test_a_refusal_of_the_broker_keeps_its_code_and_text() -> None:
    async with before_a_broker() as (proxy, _, _, _):
        client = await connected(proxy)
        client.send(say.lookup("persistent://nothing", 1))
        answer = await client.next("lookupTopicResponse")
        assert (answer.response, answer.error) == (answer.Failed, ServerError.InvalidTopicName)
        direct = client_of(proxy)
        with pytest.raises(RefusedError) as refused:
            await direct.partitions("persistent://nothing")
        assert refused.value.code == ServerError.InvalidTopicName
        await direct.close()


async def test_requests_without_a_broker_are_to_be_repeated() -> None:
    async with proxied(program("pulsar://127.0.0.1:1")) as proxy:
        client = await connected(proxy)
        client.send(say.lookup(NAME.full, 1))
        answer = await client.next("lookupTopicResponse")
        assert (answer.response, answer.error) == (answer.Failed, ServerError.ServiceNotReady)


async def test_requests_above_the_limit_are_refused() -> None:
    broker = ScriptedBroker()
    url = await broker.start()
    async with proxied(program(url, max_concurrent_lookup_requests=1)) as proxy:
        first, second = await connected(proxy), await connected(proxy)
        first.send(say.lookup(NAME.full, 1))
        far = await broker.peer()
        await far.next("connect")
        second.send(say.lookup(NAME.full, 2))
        answer = await second.next("lookupTopicResponse")
        assert (answer.error, answer.message) == (ServerError.ServiceNotReady, TOO_MANY)
        far.send(
            commands.connected(server_version="b", protocol_version=19)
            + commands.lookup_connect(1, url)
        )
        assert (await first.next("lookupTopicResponse")).request_id == 1
        shown = await body_of(await page(proxy, "/metrics"))
        assert 'pulsar_proxy_rejected_lookup_requests_total{cluster="standalone"} 1' in shown
        assert 'magnetar_proxy_requests_in_flight{cluster="standalone"} 0' in shown
        broker.close()


ANSWERED = {
    CommandType.LOOKUP,
    CommandType.PARTITIONED_METADATA,
    CommandType.GET_TOPICS_OF_NAMESPACE,
    CommandType.GET_SCHEMA,
    CommandType.PING,
    CommandType.PONG,
    CommandType.AUTH_RESPONSE,
}
ENDING = {"SEND", "ACK", "FLOW", "REDELIVER_UNACKNOWLEDGED_MESSAGES"}


@pytest.mark.parametrize("kind", sorted(set(REQUESTS) - ANSWERED), ids=lambda kind: kind.name)
async def test_a_command_for_a_broker_is_refused_or_ends_the_connection(kind: CommandType) -> None:
    async with before_a_broker() as (proxy, _, sessions, _):
        client = await connected(proxy)
        client.send(_command(kind))
        if kind.name in ENDING:
            await until(lambda: client.half_closed)
            client.close()
        else:
            error = await client.next("error")
            assert error.error == ServerError.NotAllowedError
            client.send(commands.ping())
            await client.next("pong")
        assert sessions.accepted == 0


def _command(kind: CommandType) -> bytes:
    """Return a valid command of a kind."""
    if kind is CommandType.SEND:
        return say.send(1, 0, entry_of(b"v"))
    command = pb.BaseCommand(type=kind)  # type: ignore[arg-type]
    body = getattr(command, commands.FIELD_OF_TYPE[kind])
    body.SetInParent()
    for field in body.DESCRIPTOR.fields:
        if field.is_required and field.message_type is None:
            setattr(body, field.name, "x" if field.type == field.TYPE_STRING else 1)
    if kind is CommandType.ACK:
        return say.ack(1, [])
    if kind is CommandType.GET_OR_CREATE_SCHEMA:
        return say.get_or_create_schema("t", 1, pb.Schema(name="s", schema_data=b"", type=1))
    return commands.with_body(kind, body)


async def test_connections_of_a_role_share_their_link_to_a_broker_and_keep_it_for_a_while() -> None:
    async with before_a_broker() as (proxy, _, sessions, _):
        for _ in range(3):
            client = await connected(proxy)
            client.send(say.lookup(NAME.full, 1))
            await client.next("lookupTopicResponse")
            client.close()
            await until(lambda: not proxy._sessions)
        assert (sessions.accepted, sessions.count) == (1, 1)
        await asyncio.sleep(IDLE_S + 1)
        await until(lambda: sessions.count == 0)


async def test_the_status_page_is_ok_while_a_broker_is_known() -> None:
    async with before_a_broker() as (proxy, _, _, _):
        assert (await page(proxy, "/status.html")).body == b"OK"
        assert (await page(proxy, "/proxy-stats/topics")).status == 412
        assert (await page(proxy, "/proxy-stats/logging")).body == b"0"
        assert (await page(proxy, "/no")).status == 404
