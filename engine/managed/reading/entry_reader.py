"""Opening of a topic's ledgers for reading: the one place that decides where their entries are read from, which is
always the bookies. A ledger that another broker offloaded is read from them as long as they keep it."""

from typing import Protocol

from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.managed.errors import OffloadedError
from engine.managed.positions import LedgerSpan
from engine.managed.stored.records import offload_of


class EntryReader(Protocol):
    """Reader of the entries of one ledger, wherever they are stored."""

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]:
        """Read contiguous entries as ``LedgerReader.read``: from ``first`` on, at least one, at most to ``last``."""
        ...

    def confirm(self, entry_id: int) -> None:
        """Note that the ledger's writer has confirmed all entries up to ``entry_id``."""
        ...


async def open_entries(
    ledgers: LedgerClient, span: LedgerSpan, *, owner: bool, password: bytes = b""
) -> EntryReader:
    """Open the ledger of ``span``, a topic's. Cancel-safe.

    The ``owner`` of the topic, which reads the ledger that it is writing through its writer, recovers one that is not
    closed: a crash left it open. Others read what the bookies report as confirmed and change nothing. Raises
    NoSuchLedgerError, OffloadedError, LedgerError, the store's errors.
    """
    if span.extra and (offload := offload_of(span)).deleted_from_bookies:
        raise OffloadedError(
            f"ledger {span.ledger_id} was offloaded ({offload.driver}) and deleted from the bookies:"
            " tiered storage is not read"
        )
    reader = await ledgers.open(
        span.ledger_id, password=password, recover=False, unconfirmed=not owner
    )
    if owner and not reader.closed:
        reader = await ledgers.open(span.ledger_id, password=password, recover=True)
    return reader
