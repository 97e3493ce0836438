"""Headers of the PROXY protocol: read to the last byte, believed only where they are asked for."""

import asyncio
import socket
from pathlib import Path

import pytest

from engine.net.listener import Listener
from engine.net.network import LoopNetwork
from engine.net.proxy_header import BINARY, HEADER_TIMEOUT_S, HeaderError, missing, source
from engine.net.tls import ClientFiles, ServerFiles
from engine.net.transport import Connection
from tests.support.net.certificates import Authority
from tests.support.net.pipe_network import PipeNetwork
from tests.support.waiting import until

V4 = BINARY + b"\x21\x11\x00\x0c" + bytes([10, 1, 2, 3, 10, 0, 0, 1, 0x30, 0x39, 0x19, 0xFA])
V6 = BINARY + b"\x21\x21\x00\x24" + bytes(15) + b"\x01" + bytes(15) + b"\x02" + b"\x00\x07\x19\xfa"
WITH_FIELDS = BINARY + b"\x21\x11\x00\x10" + V4[16:] + b"\x04\x00\x01\x00"
LOCAL = BINARY + b"\x20\x00\x00\x00"
UNIX = BINARY + b"\x21\x31\x00\x02ab"
VALID = {
    b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 6650\r\n": ("192.0.2.7", 56324),
    b"PROXY TCP6 2001:db8::7 ::1 1 2\r\n": ("2001:db8::7", 1),
    b"PROXY UNKNOWN\r\n": None,
    b"PROXY UNKNOWN ff:: ff:: 1 1\r\n": None,
    V4: ("10.1.2.3", 12345),
    V6: ("::1", 7),
    WITH_FIELDS: ("10.1.2.3", 12345),
    LOCAL: None,
    UNIX: None,
}


@pytest.mark.parametrize("header", VALID)
def test_a_header_is_read_to_its_last_byte(header: bytes) -> None:
    behind, read = header + b"next bytes", b""
    while size := missing(read):
        read += behind[len(read) : len(read) + size]
    assert read == header
    assert source(read) == VALID[header]


@pytest.mark.parametrize(
    "header",
    [
        b"\x00\x00\x00\x10\x00\x00\x00\x0c\x08\x02",
        b"proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
        b"PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP6 fe80::1%eth0\nINFO ::1 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 99999 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 -1 2\r\n",
        b"PROXY SCTP 1.2.3.4 1.2.3.4 1 2\r\n",
        b"PROXY TCP4 \xff.2.3.4 1.2.3.4 1 2\r\n",
        b"PROXY TCP4 " + b"1" * 200,
        BINARY + b"\x11\x11\x00\x0c" + V4[16:],
        BINARY + b"\x2f\x11\x00\x0c" + V4[16:],
        BINARY + b"\x21\x11\x00\x04" + b"1234",
        BINARY + b"\x21\x11\xff\xff",
    ],
)
def test_another_beginning_is_refused(header: bytes) -> None:
    read = b""
    with pytest.raises(HeaderError):
        while size := missing(read):
            assert len(read) < len(header)
            read += header[len(read) : len(read) + size]
        source(read)


class Kept(Connection):
    """Keeps what it receives."""

    def __init__(self) -> None:
        super().__init__(1 << 20)
        self.bytes = b""

    def received(self, buf: bytes, pos: int, end: int) -> int:
        self.bytes += buf[pos:end]
        return end


class Accepting:
    """A listener behind a load balancer."""

    def __init__(self, network: LoopNetwork | PipeNetwork, **limits: int) -> None:
        self.accepted: list[Kept] = []
        self.listener = Listener(
            network,
            self._make,
            connections_max=limits.get("connections_max", 10),
            per_address_max=limits.get("per_address_max", 0),
            behind_balancer=True,
        )

    def _make(self) -> Kept:
        self.accepted.append(Kept())
        return self.accepted[-1]


async def test_the_address_of_the_header_counts(tmp_path: Path) -> None:
    accepting = Accepting(LoopNetwork(), per_address_max=1)
    port = await accepting.listener.start("127.0.0.1", 0)
    clients = []
    for header in (b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 6650\r\n", V4, V4):
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(header + b"behind")
        clients.append(client)
    await until(lambda: len(accepting.accepted) == 2 and accepting.listener.refused == 1)
    await until(lambda: all(kept.bytes == b"behind" for kept in accepting.accepted))
    assert sorted(kept.peer_name for kept in accepting.accepted) == [
        "10.1.2.3:12345",
        "192.0.2.7:56324",
    ]
    for client in clients:
        client.close()
    await accepting.listener.drain(1)


async def test_a_tls_handshake_follows_the_header(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("localhost", "127.0.0.1")
    accepting = Accepting(LoopNetwork())
    tls = ServerFiles(cert, key).context()
    port = await accepting.listener.start("127.0.0.1", 0, tls=tls)
    context = ClientFiles(ca=authority.cert).context()

    def talk() -> None:
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.sendall(b"PROXY TCP6 2001:db8::7 ::1 9 2\r\n")
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as client:
                client.sendall(b"secret")
                client.recv(1)

    talking = asyncio.get_running_loop().run_in_executor(None, talk)
    await until(lambda: accepting.accepted and accepting.accepted[0].bytes == b"secret")
    assert accepting.accepted[0].peer_name == "2001:db8::7:9"
    assert accepting.accepted[0].encrypted
    await accepting.listener.drain(1)
    await talking


@pytest.mark.virtual_time
@pytest.mark.parametrize("first", [b"", b"PROXY ", BINARY, V4[:20]])
async def test_a_slow_header_ends_the_connection_and_counts_until_then(first: bytes) -> None:
    network = PipeNetwork()
    accepting = Accepting(network, connections_max=1)
    port = await accepting.listener.start("127.0.0.1", 0)
    transport, _ = await network.connect("127.0.0.1", port, Kept)
    transport.write(first)
    other, _ = await network.connect("127.0.0.1", port, Kept)
    await until(lambda: other.is_closing() and accepting.listener.refused == 1)
    await asyncio.sleep(HEADER_TIMEOUT_S + 1)
    assert transport.is_closing()
    assert not accepting.accepted
    await accepting.listener.drain(1)


@pytest.mark.virtual_time
async def test_a_connection_without_a_header_is_closed() -> None:
    network = PipeNetwork()
    accepting = Accepting(network)
    port = await accepting.listener.start("127.0.0.1", 0)
    transport, _ = await network.connect("127.0.0.1", port, Kept)
    transport.write(b"\x00\x00\x00\x10\x00\x00\x00\x0c")
    await until(transport.is_closing)
    assert not accepting.accepted
    await accepting.listener.drain(1)
