"""CPU of the ledger writer per entry: appends to connections that swallow bytes, answers fed at once.

Run: python -m tests.bench.micro_ledger_writer
"""

import asyncio
import ssl
import time
from struct import Struct

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.ledger.quorum import holds
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.records import BookieRegistration
from engine.net.network import LoopNetwork, ProtocolFactory

REPLY = Struct(">IIiqq")
ROUNDS = 200


class EchoTransport(asyncio.Transport):
    """Counts what is written; the bench feeds the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def write(self, data: object) -> None:
        self.bytes += len(data)  # type: ignore[arg-type]

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass


class EchoNetwork(LoopNetwork):
    """Connections that lead nowhere."""

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        protocol, transport = factory(), EchoTransport()
        protocol.connection_made(transport)
        return transport, protocol


class Sink:
    def __init__(self) -> None:
        self.below = 0

    def confirmed(self, below: int) -> None:
        self.below = below

    def failed(self, error: Exception) -> None:
        print(f"  (end: {error})")


async def measure(entry_bytes: int, per_run: int, shape: tuple[int, int, int]) -> None:
    server = MemoryServer(SystemClock())
    store = server.session()
    for i in range(shape[0]):
        path = paths.available_bookie(f"b{i}")
        await store.create(path, BookieRegistration.at("h", i).encode(), make_parents=True)
    client = LedgerClient(
        store=store, network=EchoNetwork(), clock=SystemClock(), entropy=RandomEntropy()
    )
    sink = Sink()
    writer = await client.create(*shape, listener=sink)
    channels = [client.bookies.links.channel(b) for b in writer.metadata.segments[0].bookies]
    while any(channel.transport is None for channel in channels):
        await asyncio.sleep(0)
    buf = bytes(entry_bytes * per_run)
    spans = [x for i in range(per_run) for x in (i * entry_bytes, (i + 1) * entry_bytes)]
    append_s = answer_s = 0.0
    for _ in range(ROUNDS):
        run = Slice(buf, spans, len(buf))
        at = time.process_time()
        first = writer.append(run)
        append_s += time.process_time() - at
        answers = [
            b"".join(
                REPLY.pack(24, 0x02010000, 0, writer.ledger_id, first + i)
                for i in range(per_run)
                if holds(position, first + i, shape[0], shape[1])
            )
            for position in range(shape[0])
        ]
        await asyncio.sleep(0)
        at = time.process_time()
        for channel, answer in zip(channels, answers, strict=True):
            channel.data_received(answer)
        await asyncio.sleep(0)
        answer_s += time.process_time() - at
    assert sink.below == ROUNDS * per_run
    entries = ROUNDS * per_run
    print(
        f"{entry_bytes:>6} B, {per_run:>4} per run, E/WQ/AQ {shape}: append "
        f"{append_s / entries * 1e6:.2f} us/entry, answers {answer_s / entries * 1e6:.2f} us/entry"
    )
    await writer.close()
    await client.close()
    await store.close()


async def main() -> None:
    for shape in ((1, 1, 1), (3, 3, 2), (3, 2, 2)):
        for entry_bytes, per_run in ((100, 1), (100, 50), (100, 500), (1024, 60), (65536, 4)):
            await measure(entry_bytes, per_run, shape)


if __name__ == "__main__":
    asyncio.run(main())
