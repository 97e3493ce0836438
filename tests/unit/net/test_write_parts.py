"""Large parts over a real socket: in order and complete, however little the kernel takes at once."""

import asyncio

import pytest

from engine.net.network import PARTS_MAX, LoopNetwork, write_parts


class Reader(asyncio.Protocol):
    """Keeps what arrives and reads only when told."""

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
