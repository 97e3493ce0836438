"""A bookie in memory for tests: real sockets on loopback, a disk that can crash, metadata in memory."""

import asyncio
import random
import struct
from typing import Any

from bookie.server import Bookie
from bookie.settings import BookieSettings
from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.metadata.memory import MemoryServer, MemoryStore
from engine.net.network import LoopNetwork
from tests.sim.kit.disk import FaultDisk, InlineLane

KEY = bytes.fromhex("850bf1071c5e3d8c24235676f8816ae0cbe2f14f")
OTHER_KEY = b"x" * 20


def settings(**changes: Any) -> BookieSettings:
    values: dict[str, Any] = {
        "data_dir": "/data",
        "bookie_port": 0,
        "bookie_id": "bookie-1:3181",
        "journal_file_bytes": 256 << 10,
        "write_cache_bytes": 64 << 10,
        "min_usable_size_for_high_priority_writes": 1 << 20,
    }
    return BookieSettings(**values | changes)


def make(disk: FaultDisk, store: MemoryStore, **changes: Any) -> Bookie:
    return Bookie(
        settings(**changes),
        clock=SystemClock(),
        entropy=RandomEntropy(random.Random(disk.operations)),
        network=LoopNetwork(),
        store=store,
        disk=disk,
        lanes=lambda name: InlineLane(),
    )


class Machine:
    """A bookie on its disk with its metadata; ``async with`` starts and stops it."""

    def __init__(self, **changes: Any) -> None:
        self.disk = FaultDisk()
        self.metadata = MemoryServer()
        self.changes = changes

    async def __aenter__(self) -> "Machine":
        self.store = self.metadata.session()
        self.bookie = make(self.disk, self.store, **self.changes)
        try:
            await self.bookie.start()
        except BaseException:
            await self.bookie.stop()
            await self.store.close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.bookie.stop()
        await self.store.close()

    async def kill(self) -> None:
        """Crash: unsynced bytes are lost, the session ends, nothing is flushed."""
        self.bookie.failed = self.bookie.failed or RuntimeError("killed")
        await self.bookie.stop()
        await self.store.close()
        self.disk.crash()

    async def client(self) -> "Client":
        reader, writer = await asyncio.open_connection("127.0.0.1", self.bookie.port)
        return Client(reader, writer)


class Client:
    """A connection to a bookie whose frames the test writes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, request: bytes) -> bytes:
        """Send a frame and return the answer's frame; empty when the bookie closed the connection."""
        self.writer.write(request)
        return await self.answer()

    async def answer(self) -> bytes:
        try:
            head = await self.reader.readexactly(4)
            return head + await self.reader.readexactly(int.from_bytes(head, "big"))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return b""

    async def add(self, ledger: int, entry: int, payload: bytes, **kwargs: Any) -> int:
        """Add an entry and return the result code."""
        return code(await self.ask(add(ledger, entry, payload, **kwargs)))

    async def read(self, ledger: int, entry: int, *, fence: bytes = b"") -> bytes | int:
        """Return the payload, or the result code."""
        answer = await self.ask(read(ledger, entry, fence=fence))
        return answer[28 + 32 :] if code(answer) == 0 else code(answer)

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


def code(answer: bytes) -> int:
    assert answer, "connection closed"
    return int(struct.unpack_from(">i", answer, 8)[0])


def add(ledger: int, entry: int, payload: bytes, *, key: bytes = KEY, flags: int = 0) -> bytes:
    return (
        struct.pack(
            ">II20sqqqq", 56 + len(payload), 0x02010000 | flags, key, ledger, entry, entry - 1, 0
        )
        + payload
    )


def read(ledger: int, entry: int, *, fence: bytes = b"") -> bytes:
    return struct.pack(">IIqq", 20 + len(fence), 0x02020000 | bool(fence), ledger, entry) + fence
