"""Ledgers written through the shipped client until their bookie dies, and what they must hold afterwards."""

import asyncio
import random
from dataclasses import dataclass, field

from bookie.storage.codes import Code
from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.ledger.client import LedgerClient
from engine.ledger.digest import master_key
from engine.ledger.reading.reader import LedgerReader
from engine.ledger.settings import LedgerSettings
from engine.ledger.writing.writer import LedgerWriter
from engine.metadata.store import MetadataStore
from engine.net.network import LoopNetwork
from tests.support.bookies import Client
from tests.support.ledger_cluster import Listener, payloads_of, run_of

KEPT_MAX = 8
"""Closed ledgers that are kept; older ones are deleted, for garbage collection to find."""
PATIENT = LedgerSettings(suspect_s=0.5, recovery_timeout_s=60.0)
WRITERS = 2
WINDOW = 60
READ_BYTES = 4 << 20


def payload(ledger_id: int, entry_id: int) -> bytes:
    """Return the content of an entry, the same in every life: its name and padding, up to about 1,600 bytes."""
    name = b"%d:%d." % (ledger_id, entry_id)
    return name + b"x" * ((ledger_id * 7919 + entry_id * 104_729) % 1600)


@dataclass
class Written:
    """One ledger. ``stop``: number of entries once it is closed; None while its end is not known. ``fenced``: it
    was recovered, so its bookie accepts no more from its writer."""

    sent: int = 0
    listener: Listener = field(default_factory=Listener)
    stop: int | None = None
    fenced: bool = False

    @property
    def confirmed(self) -> int:
        return self.listener.below


class LedgerLoad:
    """Everything written over all lives of a bookie, and who writes on."""

    def __init__(self, store: MetadataStore, seed: int) -> None:
        self.ledgers: dict[int, Written] = {}
        self._deleted = 0
        self._store = store
        self._draw = random.Random(seed)

    @property
    def confirmed(self) -> int:
        """Entries confirmed, those of deleted ledgers included."""
        return self._deleted + self.confirmed_kept

    @property
    def confirmed_kept(self) -> int:
        return sum(written.confirmed for written in self.ledgers.values())

    def client(self, settings: LedgerSettings = PATIENT) -> LedgerClient:
        return LedgerClient(
            store=self._store,
            network=LoopNetwork(),
            clock=SystemClock(),
            entropy=RandomEntropy(),
            settings=settings,
        )

    async def write(self, *, ledgers_max: int | None = None) -> None:
        """Write ledger after ledger, some at a time, until LedgerErrors end it, which come as a group."""
        client = self.client()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(WRITERS):
                    group.create_task(self._write(client, ledgers_max))
        finally:
            await client.close()

    async def _write(self, client: LedgerClient, ledgers_max: int | None) -> None:
        made = 0
        while ledgers_max is None or made < ledgers_max:
            written = Written()
            writer = await client.create(1, 1, 1, listener=written.listener)
            self.ledgers[writer.ledger_id] = written
            made += 1
            await self._fill(writer, written, self._draw.randrange(50, 400))
            if self._draw.random() < 0.3:  # another client recovers, and so fences, it
                await check(await client.open(writer.ledger_id, recover=True), written)
                written.fenced = True
            else:
                await writer.close()
                written.stop = written.sent
            await self._delete_old(client)

    async def _fill(self, writer: LedgerWriter, written: Written, entries: int) -> None:
        while written.sent < entries:
            count = self._draw.randrange(1, 20)
            first = written.sent
            written.sent += count
            writer.append(run_of(*(payload(writer.ledger_id, first + i) for i in range(count))))
            await written.listener.reach(written.sent - WINDOW)
        await written.listener.reach(written.sent)

    async def _delete_old(self, client: LedgerClient) -> None:
        closed = [number for number, ledger in self.ledgers.items() if ledger.stop is not None]
        for ledger_id in sorted(closed)[:-KEPT_MAX]:
            if ledger_id in self.ledgers:
                self._deleted += self.ledgers.pop(ledger_id).confirmed
                await client.delete(ledger_id)

    async def verify(self) -> int:
        """Recover what was left open and read everything; number of entries read. Raises AssertionError."""
        client = self.client()
        entries = 0
        try:
            for ledger_id, written in sorted(self.ledgers.items()):
                reader = await client.open(ledger_id, recover=False)
                if not reader.closed:  # else its writer closed it, perhaps without hearing of that
                    reader = await client.open(ledger_id, recover=True)
                    written.fenced = True
                entries += await check(reader, written)
        finally:
            await client.close()
        return entries

    async def verify_fences(self, port: int) -> int:
        """Try to add to every ledger that was recovered, as its writer would; number of refusals."""
        fenced = [ledger_id for ledger_id, written in self.ledgers.items() if written.fenced]
        bookie = Client(*await asyncio.open_connection("127.0.0.1", port))
        try:
            for ledger_id in fenced:
                late = self.ledgers[ledger_id].sent
                answer = await bookie.add(ledger_id, late, b"late", key=master_key(b""))
                assert answer == Code.FENCED, f"ledger {ledger_id} was fenced, an add got {answer}"
        finally:
            await bookie.close()
        return len(fenced)


async def check(reader: LedgerReader, written: Written) -> int:
    """Check that a closed ledger holds everything confirmed, nothing unsent, and each entry as it was sent."""
    stop = reader.last_confirmed + 1
    about = f"ledger {reader.ledger_id}: {stop} entries, {written.confirmed} confirmed of {written.sent} sent"
    assert reader.closed, about
    assert written.confirmed <= stop <= written.sent, about
    assert written.stop in (None, stop), f"{about}, closed with {written.stop}"
    written.stop = stop
    first = 0
    while first < stop:
        payloads = payloads_of(await reader.read(first, stop - 1, READ_BYTES))
        wanted = [payload(reader.ledger_id, first + i) for i in range(len(payloads))]
        assert payloads, f"{about}, nothing read at {first}"
        assert payloads == wanted, f"{about}, others at {first} to {first + len(payloads) - 1}"
        first += len(payloads)
    assert first == stop, f"{about}, read up to {first}"
    return stop
