"""Opening of a topic's ledgers for reading: the one place that decides where their entries are read from."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.managed.errors import OffloadedError
from engine.managed.positions import LedgerSpan
from engine.managed.stored.offloads import Offload, offload_of
from engine.offload.errors import DamagedObjectError, OffloadError
from engine.offload.object_names import ObjectName
from engine.offload.object_reader import ObjectReader
from engine.offload.object_store import ObjectStores

log = logging.getLogger(__name__)


class EntryReader(Protocol):
    """Reader of the entries of one ledger, wherever they are stored."""

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]:
        """Read contiguous entries as ``LedgerReader.read``: from ``first`` on, at least one, at most to ``last``."""
        ...

    def confirm(self, entry_id: int) -> None:
        """Note that the ledger's writer has confirmed all entries up to ``entry_id``."""
        ...


class TwoPlacesReader:
    """Reader of a ledger that is both in tiered storage and on bookies: from the former until that fails once."""

    def __init__(
        self, stored: ObjectReader, open_other: Callable[[], Awaitable[EntryReader]]
    ) -> None:
        self._stored = stored
        self._open_other = open_other
        self._other: EntryReader | None = None

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]:
        """Read as ``EntryReader.read``."""
        if self._other is None:
            try:
                return await self._stored.read(first, last, bytes_max)
            except OffloadError as error:
                _log_other_place(self._stored.ledger_id, error)
                self._other = await self._open_other()
        return await self._other.read(first, last, bytes_max)

    def confirm(self, entry_id: int) -> None:
        """Do nothing: the ledger is closed."""


def _log_other_place(ledger_id: int, error: OffloadError) -> None:
    log.warning("read from bookies, not from tiered storage ledger=%d error=%s", ledger_id, error)


async def open_entries(
    ledgers: LedgerClient,
    span: LedgerSpan,
    *,
    owner: bool,
    password: bytes = b"",
    objects: ObjectStores | None = None,
    bookies_first: bool = False,
) -> EntryReader:
    """Open the ledger of ``span``, a topic's. Cancel-safe.

    The ``owner`` of the topic, which reads the ledger that it is writing through its writer, recovers one that is not
    closed: a crash left it open. Others read what the bookies report as confirmed and change nothing.

    A ledger with a complete copy in tiered storage is read from ``objects`` where the bookies do not have it any more;
    where they do, from either with ``bookies_first``, and from the other when that fails. Raises NoSuchLedgerError,
    OffloadedError when tiered storage is needed and there is none, OffloadError, LedgerError, the store's errors.
    """
    from_bookies = partial(_open_on_bookies, ledgers, span, owner=owner, password=password)
    offload = offload_of(span)
    moved = offload.complete or offload.deleted_from_bookies
    if not moved or (bookies_first and not offload.deleted_from_bookies):
        return await from_bookies()
    if objects is None:
        if offload.deleted_from_bookies:
            raise OffloadedError(
                f"ledger {span.ledger_id} was offloaded ({offload.bucket}) and deleted from the bookies: "
                "tiered storage is not read here"
            )
        return await from_bookies()
    try:
        stored = await _open_object(objects, span, offload)
    except OffloadError as error:
        if offload.deleted_from_bookies:
            raise
        _log_other_place(span.ledger_id, error)
        return await from_bookies()
    return stored if offload.deleted_from_bookies else TwoPlacesReader(stored, from_bookies)


async def _open_object(objects: ObjectStores, span: LedgerSpan, offload: Offload) -> ObjectReader:
    if offload.attempt is None:
        raise DamagedObjectError(f"ledger {span.ledger_id}: the record names no object")
    name = ObjectName(offload.attempt, span.ledger_id)
    stored = await ObjectReader.open(objects.open(offload.bucket), name)
    # Callers outside of the topic's broker may not know the number of entries.
    if span.timestamp_ms and stored.last_confirmed != span.entries - 1:
        raise DamagedObjectError(
            f"object {name.index_key}: the last entry is {stored.last_confirmed}, not {span.entries - 1}"
        )
    return stored


async def _open_on_bookies(
    ledgers: LedgerClient, span: LedgerSpan, *, owner: bool, password: bytes
) -> EntryReader:
    reader = await ledgers.open(
        span.ledger_id, password=password, recover=False, unconfirmed=not owner
    )
    if owner and not reader.closed:
        reader = await ledgers.open(span.ledger_id, password=password, recover=True)
    return reader
