"""Large parts over a real socket: in order and complete, however little the kernel takes at once."""

import asyncio
from pathlib import Path

import pytest

from engine.net.network import JOINED_BYTES_MAX, PARTS_MAX, LoopNetwork, write_parts
from engine.net.tls import ClientFiles, ServerFiles
from engine.net.transport import Connection
from tests.support.net.certificates import Authority
from tests.support.waiting import until


class Reader(asyncio.Protocol):
    """A protocol that keeps the received bytes and is paused until the test resumes it."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set()


@pytest.mark.parametrize(
    "sizes",
    [[5, 0, 70_000], [64, 65_536] * 300, [1] * (PARTS_MAX + 500), [16 << 20]],
    ids=["small", "more than the kernel takes", "more parts than one call takes", "one large"],
)
async def test_parts_arrive_in_order_and_complete(sizes: list[int]) -> None:
    reader = Reader()
    network = LoopNetwork()
    server = await network.listen("127.0.0.1", 0, lambda: reader)
    transport, _ = await network.connect("127.0.0.1", server.port, asyncio.Protocol)
    parts = [bytes([i % 251]) * size for i, size in enumerate(sizes)]
    write_parts(transport, [memoryview(part) if i % 2 else part for i, part in enumerate(parts)])
    write_parts(transport, [b"behind"])  # must not overtake what is still unsent
    transport.close()
    while not hasattr(reader, "transport"):
        await asyncio.sleep(0)
    reader.transport.resume_reading()
    await reader.ended.wait()
    assert bytes(reader.data) == b"".join(parts) + b"behind"
    server.close()
    await server.wait_closed()


async def test_parts_are_joined_before_a_tls_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    reader = Reader()
    network = LoopNetwork()
    server = await network.listen(
        "127.0.0.1",
        0,
        lambda: reader,
        tls=ServerFiles(*authority.issue("a", "127.0.0.1")).context(),
    )
    transport, connection = await network.connect(
        "127.0.0.1",
        server.port,
        lambda: Connection(1 << 20),
        tls=ClientFiles(authority.cert).context(),
    )
    assert isinstance(connection, Connection)
    writes: list[int] = []
    write = transport.write

    def counting(data: bytes | memoryview) -> None:
        writes.append(len(data))
        write(data)

    monkeypatch.setattr(transport, "write", counting)
    parts = [b"h" * 50, b"p" * 20_000] * 16 + [b"large" * 100_000]  # mean above 16 KiB: not joined
    connection.send_parts(parts)
    connection.flush()
    assert sum(writes) == sum(map(len, parts))
    assert len(writes) <= sum(map(len, parts[:-1])) // (JOINED_BYTES_MAX - 20_050) + 2
    assert writes[-1] == 500_000  # joins nothing large
    await until(lambda: hasattr(reader, "transport"))
    reader.transport.resume_reading()
    await until(lambda: len(reader.data) == sum(writes))
    assert bytes(reader.data) == b"".join(parts)
    transport.close()
    await reader.ended.wait()
    server.close()
    await server.wait_closed()
