"""CPU of the ledger reader per entry: a closed ledger read from its start, off a process that has the answers ready.

Run: python -m tests.bench.micro_ledger_reader [batch|single]
"""

import asyncio
import multiprocessing
import sys
import time
from dataclasses import replace

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.ledger.client import LedgerClient
from engine.ledger.digest import Digest, DigestType, Header
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment, encode
from engine.ledger.settings import LedgerSettings
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.records import BookieRegistration
from engine.net.network import LoopNetwork
from engine.wire import bookie_commands as wire

TOTAL_BYTES = 100 << 20
ENTRIES_MAX = 200_000
RANGE_BYTES = 1 << 20


class Canned(asyncio.Protocol):
    """Answers reads of ledger 0 from entries made beforehand."""

    def __init__(self, entries: list[bytes]) -> None:
        self._entries = entries
        self._buf = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buf += data
        out: list[bytes] = []
        pos = 0
        while len(self._buf) - pos >= 4:
            stop = pos + 4 + int.from_bytes(self._buf[pos : pos + 4], "big")
            if stop > len(self._buf):
                break
            request = wire.parse_request(self._buf, pos, stop)
            pos = stop
            if isinstance(request, wire.ReadRequest):
                entry = self._entries[request.entry_id]
                out.append(wire.read_reply(0, 0, request.entry_id, entry))
            elif isinstance(request, wire.BatchReadRequest):
                out.append(self._batch(request))
        self._buf = self._buf[pos:]
        self._transport.write(b"".join(out))

    def _batch(self, request: wire.BatchReadRequest) -> bytes:
        left = min(request.bytes_max, 5 << 20) - 36
        batch: list[bytes] = []
        for entry in self._entries[request.first_entry : request.first_entry + request.count_max]:
            left -= len(entry) + 4
            if batch and left < 0:
                break
            batch.append(entry)
        return b"".join(wire.batch_read_reply(0, 0, request.first_entry, request.request_id, batch))


def serve(entry_bytes: int, count: int, port: "multiprocessing.Queue[int]") -> None:
    digest = Digest(DigestType.CRC32C, b"")
    payload = b"x" * entry_bytes
    entries = [
        digest.seal(Header(0, i, i - 1, (i + 1) * entry_bytes), payload) for i in range(count)
    ]

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(
            lambda: Canned(entries), "127.0.0.1", 0
        )
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


async def measure(entry_bytes: int, count: int, port: int, batch: bool, ranges: int) -> None:
    store = MemoryServer(SystemClock()).session()
    registration = BookieRegistration.at("127.0.0.1", port).encode()
    await store.create(paths.available_bookie("b0"), registration, make_parents=True)
    metadata = LedgerMetadata(
        *(1, 1, 1),
        segments=(Segment(0, ("b0",)),),
        state=LedgerState.CLOSED,
        last_entry=count - 1,
        length=count * entry_bytes,
    )
    await store.create(paths.ledger(0), encode(metadata), make_parents=True)
    client = LedgerClient(
        store=store,
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        settings=replace(LedgerSettings(), batch_read=batch),
    )
    reader = await client.open(0, recover=False)
    await reader.read(0, 0, 1)
    begun, cpu = time.perf_counter(), time.process_time()
    entries = 0
    async with reader.scan(0, count - 1, RANGE_BYTES, ranges) as scan:
        async for slices in scan:
            entries += sum(run.count for run in slices)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - begun
    assert entries == count
    print(
        f"{'batch' if batch else 'single':6} {entry_bytes:6} B, {ranges} ranges:"
        f" {cpu / count * 1e6:7.2f} us CPU per entry, {count * entry_bytes / wall / 1e6:6.0f} MB/s"
    )
    await client.close()


def main() -> None:
    kinds = sys.argv[1:] or ["batch", "single"]
    for entry_bytes in (100, 1024, 65536):
        count = min(TOTAL_BYTES // entry_bytes, ENTRIES_MAX)
        ports: multiprocessing.Queue[int] = multiprocessing.Queue()
        server = multiprocessing.Process(target=serve, args=(entry_bytes, count, ports))
        server.start()
        port = ports.get()
        for kind in kinds:
            for ranges in (1, 3):
                asyncio.run(measure(entry_bytes, count, port, kind == "batch", ranges))
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
