"""A client that names a broker is joined with it: bytes are copied in both directions, and ends are passed on."""

import asyncio
import gc
import random
import weakref
from typing import Any

import pytest

from engine.net.transport import HIGH_WATER_BYTES
from engine.proxy.client_end import HANDSHAKE_S
from engine.wire import client_commands as say
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ServerError
from engine.wire.states import CommandType
from tests.support.net.pipe_network import HIGH_WATER, PipeNetwork
from tests.support.proxy.rig import (
    Peer,
    ScriptedBroker,
    body_of,
    dial,
    joined,
    page,
    program,
    proxied,
    rows_of,
    settled,
)
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time
CONNECTED = commands.connected(
    server_version="behind",
    protocol_version=19,
    max_message_size=12345,
    feature_flags={"supports_topic_watchers": True},
)
NOT_PARSED = b"\xff" * 40
"""Bytes that begin no frame."""


def connect_to(target: str, **more: object) -> bytes:
    return say.connect(
        "the client",
        protocol_version=18,
        proxy_to_broker_url=target,
        feature_flags={"supports_partial_producer": True},
        **more,  # type: ignore[arg-type]
    )


async def test_the_broker_sees_the_client_and_the_client_sees_the_broker() -> None:
    broker = ScriptedBroker()
    url = await broker.start()
    async with proxied(program(url)) as proxy:
        client = await dial(proxy, connect_to(url.removeprefix("pulsar://")))
        far = await broker.peer()
        asked = await far.next("connect")
        assert (asked.client_version, asked.protocol_version) == ("the client", 18)
        assert asked.feature_flags == pb.FeatureFlags(supports_partial_producer=True)
        assert not asked.HasField("proxy_to_broker_url")
        assert not asked.HasField("original_principal")  # authentication is off
        assert asked.proxy_version == commands.PULSAR_VERSION
        far.send(CONNECTED)
        answer = await client.next("connected")
        assert commands.with_body(CommandType.CONNECTED, answer) == CONNECTED
        broker.close()


async def test_bytes_are_copied_as_they_are() -> None:
    async with joined(connect_to, CONNECTED) as (proxy, client, far):
        client.send(NOT_PARSED)
        far.send(NOT_PARSED[::-1] * 3)
        await until(lambda: bytes(far.bytes) == NOT_PARSED)
        await until(lambda: len(client.bytes) == 120)
        [row] = await rows_of(proxy)
        sockets = [end.transport.get_extra_info("sockname") for end in (client, far)]
        addresses = [f"/{host}:{port}" for host, port in sockets]
        assert row["clientAddress"] == addresses[0]
        assert row["brokerAddress"] == f"127.0.0.1{addresses[1]}"
        assert 'pulsar_proxy_binary_bytes_total{cluster="standalone"} 160' in await body_of(
            await page(proxy, "/metrics")
        )


async def test_bytes_sent_before_the_answer_arrive_behind_the_handshake() -> None:
    broker = ScriptedBroker()
    url = await broker.start()
    async with proxied(program(url)) as proxy:
        first = connect_to(url.removeprefix("pulsar://")) + NOT_PARSED
        client = await dial(proxy, first, raw_when_connected=True)
        far = await broker.peer()
        await far.next("connect")
        far.raw = True
        client.send(b"more")
        await settled()
        assert not far.bytes
        far.send(CONNECTED + NOT_PARSED)
        await client.next("connected")
        await until(lambda: bytes(far.bytes) == NOT_PARSED + b"more")
        await until(lambda: bytes(client.bytes) == NOT_PARSED)
        broker.close()


async def test_a_reader_that_stops_stops_the_writer() -> None:
    async with joined(connect_to, CONNECTED) as (proxy, client, far):
        far.pause_reading()
        sent = 0
        for _ in range(200):
            if client.paused:
                break
            client.transport.write(bytes(HIGH_WATER // 2))
            sent += HIGH_WATER // 2
            await settled()
        assert client.paused
        assert sent <= 8 * HIGH_WATER
        assert [row["clientAddress"] for row in await rows_of(proxy)]
        far.resume_reading()
        await until(lambda: len(far.bytes) == sent)
        assert not client.paused


async def test_a_broker_that_does_not_read_from_the_start_stops_the_client() -> None:
    broker = ScriptedBroker()
    url = await broker.start()
    async with proxied(program(url)) as proxy:
        early = bytes(2 * HIGH_WATER)
        first = connect_to(url.removeprefix("pulsar://")) + early
        client = await dial(proxy, first, raw_when_connected=True)
        far = await broker.peer()
        await far.next("connect")
        far.raw = True
        far.pause_reading()
        far.send(CONNECTED)
        await client.next("connected")
        sent = len(early)
        while not client.paused:
            client.transport.write(bytes(HIGH_WATER // 2))
            sent += HIGH_WATER // 2
            await settled()
            assert sent <= 8 * HIGH_WATER
        far.resume_reading()
        await until(lambda: len(far.bytes) == sent)
        broker.close()


async def test_a_client_that_stops_reading_stops_the_broker() -> None:
    async with joined(connect_to, CONNECTED) as (_, client, far):
        client.pause_reading()
        sent = 0
        while not far.paused:
            far.transport.write(bytes(HIGH_WATER // 2))
            sent += HIGH_WATER // 2
            await settled()
            assert sent <= 8 * HIGH_WATER
        client.resume_reading()
        await until(lambda: len(client.bytes) == sent)
        assert not far.paused


@pytest.mark.parametrize("seed", range(12))
async def test_random_traffic_arrives_complete_in_order_and_bounded(seed: int) -> None:
    rng = random.Random(seed)
    broker = ScriptedBroker()
    url = await broker.start()
    async with proxied(program(url)) as proxy:
        early = rng.randbytes(rng.choice([0, 1, 100_000]))
        first = connect_to(url.removeprefix("pulsar://")) + early
        client = await dial(proxy, first, raw_when_connected=True)
        far = await broker.peer()
        await far.next("connect")
        far.raw = True
        if rng.random() < 0.5:
            far.pause_reading()
        behind = rng.randbytes(rng.choice([0, 1, 100_000]))
        far.send(CONNECTED + behind)
        await client.next("connected")
        [session] = proxy._sessions
        assert session.broker is not None
        ends = [end.transport for end in (session, session.broker)]
        sent = {client: bytearray(early), far: bytearray(behind)}
        for _ in range(150):
            end = rng.choice((client, far))
            match rng.randrange(4):
                case 0 if not end.paused:
                    data = rng.randbytes(rng.choice([1, 100, 20_000]))
                    end.transport.write(data)
                    sent[end] += data
                case 1:
                    end.pause_reading()
                case 2:
                    end.resume_reading()
            await asyncio.sleep(0)
            for transport in ends:
                assert transport.get_write_buffer_size() <= 4 * HIGH_WATER
        for end in (client, far):
            end.resume_reading()
        await until(lambda: len(far.bytes) == len(sent[client]))
        await until(lambda: len(client.bytes) == len(sent[far]))
        assert (far.bytes, client.bytes) == (sent[client], sent[far])
        broker.close()


@pytest.mark.parametrize("by_client", [True, False])
async def test_the_end_of_either_connection_ends_the_other_after_what_was_sent(
    by_client: bool,
) -> None:
    async with joined(connect_to, CONNECTED) as (proxy, client, far):
        ending, other = (client, far) if by_client else (far, client)
        ending.send(NOT_PARSED)
        ending.close()
        await until(lambda: other.half_closed)
        other.close()
        await other.gone()
        assert bytes(other.bytes) == NOT_PARSED
        await until(lambda: not proxy._sessions)


async def test_a_half_closed_client_still_receives() -> None:
    async with joined(connect_to, CONNECTED) as (proxy, client, far):
        client.transport.write_eof()
        await until(lambda: far.half_closed)
        far.send(NOT_PARSED)
        await until(lambda: bytes(client.bytes) == NOT_PARSED)
        assert not client.half_closed
        far.transport.write_eof()
        await until(lambda: not proxy._sessions, "both ends were half closed")


async def test_a_silent_broker_is_given_up_and_one_that_sends_is_not() -> None:
    async with joined(connect_to, CONNECTED, broker_proxy_read_timeout_ms=10_000) as joined_:
        _, client, far = joined_
        for _ in range(5):
            await asyncio.sleep(9)
            far.send(b"ping")
        assert not client.has_ended
        await asyncio.sleep(16)
        assert client.half_closed or client.has_ended


async def test_silence_of_a_broker_that_is_not_read_proves_nothing() -> None:
    async with joined(connect_to, CONNECTED, broker_proxy_read_timeout_ms=10_000) as joined_:
        proxy, client, far = joined_
        client.pause_reading()
        while not far.paused:
            far.transport.write(bytes(HIGH_WATER // 2))
            await settled()
        await asyncio.sleep(100)
        assert proxy._sessions
        client.resume_reading()
        await until(lambda: not far.paused)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("127.0.0.1:22", "Target broker isn't available."),
        ("169.254.169.254:80", "Target broker isn't available."),
        ("metadata.internal:6650", "Target broker isn't available."),
        ("/etc/passwd", "Target broker cannot be validated."),
        ("http://127.0.0.1:80", "Target broker cannot be validated."),
        ("127.0.0.1:99999", "Target broker cannot be validated."),
    ],
)
async def test_a_target_that_is_no_broker_is_refused(target: str, text: str) -> None:
    """Show that clients cannot reach other hosts through the proxy."""
    connections: list[object] = []

    def accept() -> Peer:
        connections.append(None)
        return Peer()

    other = await PipeNetwork().listen("127.0.0.1", 22, accept)
    async with proxied(program("pulsar://127.0.0.1:6650")) as proxy:
        client = await dial(proxy, connect_to(target))
        error = await client.next("error")
        assert (error.request_id, error.error) == (commands.NO_REQUEST, ServerError.ServiceNotReady)
        assert error.message == text
        await until(lambda: not proxy._sessions)
        assert 'magnetar_proxy_refused_targets_total{cluster="standalone"} 1' in await body_of(
            await page(proxy, "/metrics")
        )
    assert connections == []
    other.close()


async def test_a_broker_that_is_down_is_reported_as_such() -> None:
    async with proxied(program("pulsar://127.0.0.1:1")) as proxy:
        client = await dial(proxy, connect_to("127.0.0.1:1"))
        error = await client.next("error")
        assert (error.error, error.message) == (
            ServerError.ServiceNotReady,
            "Target broker isn't available.",
        )
        await until(lambda: not proxy._sessions)


async def test_a_refusal_of_the_broker_reaches_the_client() -> None:
    broker = ScriptedBroker()
    url = await broker.start()
    async with proxied(program(url)) as proxy:
        client = await dial(proxy, connect_to(url.removeprefix("pulsar://")))
        far = await broker.peer()
        far.send(commands.error(commands.NO_REQUEST, ServerError.AuthorizationError, "Invalid"))
        error = await client.next("error")
        assert (error.error, error.message) == (ServerError.AuthorizationError, "Invalid")
        await until(lambda: not proxy._sessions)
        broker.close()


@pytest.mark.parametrize("answer", [b"", commands.ping(), b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_broker_that_does_not_complete_the_handshake_is_given_up(answer: bytes) -> None:
    broker = ScriptedBroker()
    url = await broker.start()
    async with proxied(program(url, broker_proxy_connect_timeout_ms=2_000)) as proxy:
        client = await dial(proxy, connect_to(url.removeprefix("pulsar://")))
        (await broker.peer()).send(answer)
        error = await client.next("error")
        assert error.error == ServerError.ServiceNotReady
        await until(lambda: not proxy._sessions)
        broker.close()


async def test_a_client_that_leaves_meanwhile_leaves_no_connection() -> None:
    broker = ScriptedBroker()
    url = await broker.start()
    async with proxied(program(url)) as proxy:
        client = await dial(proxy, connect_to(url.removeprefix("pulsar://")))
        far = await broker.peer()
        client.close()
        await until(lambda: far.half_closed or far.has_ended)
        far.send(CONNECTED)
        await until(lambda: not proxy._sessions)
        broker.close()


@pytest.mark.parametrize("first", [b"", b"\x00\x00\x00", connect_to("h:1")[:-3]])
async def test_a_client_that_is_slow_in_the_handshake_is_disconnected(first: bytes) -> None:
    async with proxied(program("pulsar://127.0.0.1:1")) as proxy:
        client = await dial(proxy, first)
        await asyncio.sleep(HANDSHAKE_S + 1)
        assert client.half_closed
        client.close()
        await until(lambda: not proxy._sessions)


async def test_a_frame_above_the_limit_is_refused_before_it_is_read() -> None:
    async with proxied(program("pulsar://127.0.0.1:1")) as proxy:
        client = await dial(proxy, (HIGH_WATER_BYTES * 4).to_bytes(4, "big") + b"xxxx")
        await until(lambda: client.half_closed)
        client.close()


async def test_connections_above_a_limit_are_refused_and_counted() -> None:
    settings = program(
        "pulsar://127.0.0.1:1",
        max_concurrent_inbound_connections=3,
        max_concurrent_inbound_connections_per_ip=2,
    )
    async with proxied(settings) as proxy:
        kept = [await dial(proxy) for _ in range(2)]
        error = await (await dial(proxy)).next("error")
        assert error.error == ServerError.NotAllowedError
        assert error.message.endswith("on address 127.0.0.1")
        assert len(proxy._sessions) == len(kept)
        shown = await body_of(await page(proxy, "/metrics"))
        assert 'pulsar_proxy_rejected_connections_total{cluster="standalone"} 1' in shown
        assert 'pulsar_proxy_active_connections{cluster="standalone"} 2' in shown


async def test_the_end_of_the_proxy_ends_copied_connections() -> None:
    async with joined(connect_to, CONNECTED) as (proxy, client, far):
        await proxy.drain()
        assert client.half_closed or client.has_ended
        assert far.half_closed or far.has_ended


async def test_ended_connections_leave_no_cycles_of_references() -> None:
    """Break the references, because the garbage collector of a process hardly ever examines old objects."""
    async with joined(connect_to, CONNECTED) as (proxy, client, far):
        [session] = proxy._sessions
        ends: list[Any] = [session, session.broker]
        pipes = [end.transport for end in ends]
        references = [weakref.ref(end) for end in ends]
        gc.disable()
        try:
            client.close()
            far.close()
            await until(lambda: not proxy._sessions and all(pipe.is_closing() for pipe in pipes))
            await settled()
            for pipe in pipes:
                pipe.set_protocol(None)  # as a loop's transport forgets its protocol
            del session, ends
            await until(lambda: [reference() for reference in references] == [None, None])
        finally:
            gc.enable()
