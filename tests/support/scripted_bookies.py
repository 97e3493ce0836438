"""Bookies on a network in memory whose every answer a test decides, beside a metadata store in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.ledger.client import LedgerClient
from engine.ledger.settings import LedgerSettings
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.records import BookieRegistration
from engine.wire import bookie_commands as wire
from tests.support.ledger_cluster import PATIENT
from tests.support.net.pipe_network import PipeNetwork

Request = wire.AddRequest | wire.ReadRequest
Answer = Callable[["Scripted", Request], list[bytes]]


def honest(bookie: "Scripted", request: Request) -> list[bytes]:
    """Answer as a correct bookie does, from memory."""
    ledger, entry = request.ledger_id, request.entry_id
    if isinstance(request, wire.AddRequest):
        if ledger in bookie.fenced and not request.flags & wire.RECOVERY_ADD:
            return [wire.add_reply(wire.EFENCED, ledger, entry)]
        bookie.entries[ledger, entry] = request.entry
        return [wire.add_reply(wire.EOK, ledger, entry)]
    if request.flags & wire.DO_FENCING:
        bookie.fenced[ledger] = None
    wanted = entry
    if entry == wire.LAST_ENTRY:
        wanted = max((e for held, e in bookie.entries if held == ledger), default=-1)
    stored = bookie.entries.get((ledger, wanted))
    if stored is None:
        return [wire.read_reply(wire.ENOENTRY, ledger, entry)]
    return [wire.read_reply(wire.EOK, ledger, entry, stored)]


def silent(_bookie: "Scripted", _request: object) -> list[bytes]:
    return []


def refusing(rc: int) -> Answer:
    """Return a script that answers every request with ``rc``."""

    def answer(_bookie: "Scripted", request: Request) -> list[bytes]:
        reply = wire.add_reply if isinstance(request, wire.AddRequest) else wire.read_reply
        return [reply(rc, request.ledger_id, request.entry_id)]

    return answer


def numbered(count: int) -> list[bytes]:
    return [b"entry %d" % i for i in range(count)]


class Scripted:
    """A bookie whose answers a test decides. A batch read is answered from the answers to its single reads; without
    ``batches`` it closes the connection, as bookies without that request do."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.answer: Answer = honest
        self.batches = True
        self.batch_code = 0
        self.entries: dict[tuple[int, int], bytes] = {}
        self.fenced: dict[int, None] = {}
        self.requests: list[Request] = []
        self.batch_requests: list[wire.BatchReadRequest] = []
        self.transports: list[asyncio.Transport] = []
        self.port = 0

    def protocol(self) -> "ScriptedProtocol":
        return ScriptedProtocol(self)

    def batch(self, request: wire.BatchReadRequest) -> bytes | None:
        """Return the answer to a batch read; None when there is none."""
        if self.batch_code:
            return self._batch_reply(request, self.batch_code, [])
        entries: list[bytes] = []
        left = request.bytes_max - 36
        for entry in range(request.first_entry, request.first_entry + request.count_max):
            read = wire.ReadRequest(2, 0, request.ledger_id, entry, None)
            frames = self.answer(self, read)
            if not frames:
                return None if not entries else self._batch_reply(request, 0, entries)
            rc = int.from_bytes(frames[0][8:12], "big")
            left -= len(frames[0]) - 28 + 4
            if rc and not entries:
                return self._batch_reply(request, rc, [])
            if rc or (entries and left < 0):
                break
            entries.append(frames[0][28:])
        return self._batch_reply(request, 0, entries)

    def _batch_reply(self, request: wire.BatchReadRequest, rc: int, entries: list[bytes]) -> bytes:
        return b"".join(
            wire.batch_read_reply(
                rc, request.ledger_id, request.first_entry, request.request_id, entries
            )
        )


class ScriptedProtocol(asyncio.Protocol):
    def __init__(self, bookie: Scripted) -> None:
        self._bookie = bookie
        self._buf = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._bookie.transports.append(transport)

    def data_received(self, data: bytes) -> None:
        self._buf += data
        while len(self._buf) >= 4:
            stop = 4 + int.from_bytes(self._buf[:4], "big")
            if len(self._buf) < stop:
                return
            request = wire.parse_request(self._buf, 0, stop)
            self._buf = self._buf[stop:]
            if isinstance(request, wire.BatchReadRequest):
                self._batch(request)
                continue
            assert isinstance(request, wire.AddRequest | wire.ReadRequest)
            self._bookie.requests.append(request)
            for frame in self._bookie.answer(self._bookie, request):
                self._transport.write(frame)

    def _batch(self, request: wire.BatchReadRequest) -> None:
        self._bookie.batch_requests.append(request)
        if not self._bookie.batches:
            self._transport.abort()
            return
        reply = self._bookie.batch(request)
        if reply is not None:
            self._transport.write(reply)


class World:
    """Scripted bookies ``b0``, ``b1``, … and clients."""

    def __init__(self) -> None:
        self.server = MemoryServer(LoopClock())
        self.store = self.server.session()
        self.bookies: dict[str, Scripted] = {}
        self._closers: list[Callable[[], object]] = []
        self.clients: list[LedgerClient] = []

    async def start(self, count: int) -> None:
        for _ in range(count):
            bookie = Scripted(f"b{len(self.bookies)}")
            listener = await PipeNetwork().listen("127.0.0.1", 0, bookie.protocol)
            self._closers.append(listener.close)
            self.bookies[bookie.name] = bookie
            bookie.port = listener.port
            record = BookieRegistration.at("127.0.0.1", listener.port).encode()
            path = paths.available_bookie(bookie.name)
            await self.store.create(path, record, make_parents=True)

    def disconnect(self) -> None:
        """Make all bookies unreachable, though they stay registered."""
        for close in self._closers:
            close()
        for bookie in self.bookies.values():
            for transport in bookie.transports:
                transport.abort()

    async def make_read_only(self, name: str) -> None:
        record, _ = await self.store.get(paths.available_bookie(name))
        await self.store.create(paths.read_only_bookie(name), record, make_parents=True)
        await self.store.delete(paths.available_bookie(name))

    def client(self, **settings: object) -> LedgerClient:
        """Return a client. ``settings`` replace those of ``PATIENT``, by name."""
        made: LedgerSettings = replace(PATIENT, **settings)  # type: ignore[arg-type]
        client = LedgerClient(
            store=self.server.session(),
            network=PipeNetwork(),
            clock=LoopClock(),
            entropy=RandomEntropy(),
            settings=made,
        )
        self.clients.append(client)
        return client

    async def close(self) -> None:
        for client in self.clients:
            await client.close()
        for _ in range(4):  # a connection accepted at the last moment appears some turns later
            self.disconnect()
            await asyncio.sleep(0)


@asynccontextmanager
async def scripted_world() -> AsyncIterator[World]:
    made = World()
    try:
        yield made
    finally:
        await made.close()
