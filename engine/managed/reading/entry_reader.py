"""Opening of a topic's ledgers for reading: the one place that decides where their entries are read from."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError, NoSuchEntryError
from engine.managed.errors import OffloadedError, UnreadableLedgerError
from engine.managed.positions import LedgerSpan
from engine.managed.stored.offloads import Offload, offload_of
from engine.offload.errors import DamagedObjectError
from engine.offload.object_names import ObjectName
from engine.offload.object_store import ObjectStores
from engine.offload.reading.block_cache import BlockCache
from engine.offload.reading.object_reader import ObjectReader

log = logging.getLogger(__name__)

NAMED = 5
"""Ledgers that a sentence names."""


class EntryReader(Protocol):
    """Reader of the entries of one ledger, wherever they are stored."""

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]:
        """Read contiguous entries as ``LedgerReader.read``: from ``first`` on, at least one, at most to ``last``."""
        ...

    def confirm(self, entry_id: int) -> None:
        """Note that the ledger's writer has confirmed all entries up to ``entry_id``."""
        ...


class TwoPlacesReader:
    """Reader of a ledger that is both in tiered storage and on bookies: from one of them until that fails once."""

    def __init__(
        self, ledger_id: int, first: EntryReader, open_other: Callable[[], Awaitable[EntryReader]]
    ) -> None:
        self._ledger_id = ledger_id
        self._reader = first
        self._open_other: Callable[[], Awaitable[EntryReader]] | None = open_other

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]:
        """Read as ``EntryReader.read``."""
        if self._open_other is None:
            return await self._reader.read(first, last, bytes_max)
        try:
            return await self._reader.read(first, last, bytes_max)
        except NoSuchEntryError:
            raise
        except LedgerError as error:
            _log_other_place(self._ledger_id, error)
            other = await self._open_other()
        self._reader, self._open_other = other, None
        return await other.read(first, last, bytes_max)

    def confirm(self, entry_id: int) -> None:
        """Do nothing: the ledger is closed."""


def _log_other_place(ledger_id: int, error: LedgerError) -> None:
    log.warning("ledger is read from its other place ledger=%d error=%s", ledger_id, error)


async def open_entries(
    ledgers: LedgerClient,
    span: LedgerSpan,
    *,
    owner: bool,
    password: bytes = b"",
    objects: ObjectStores | None = None,
    bookies_first: bool = False,
    blocks: BlockCache | None = None,
) -> EntryReader:
    """Open the ledger of ``span``, a topic's. Cancel-safe.

    The ``owner`` of the topic, which reads the ledger that it is writing through its writer, recovers one that is not
    closed: a crash left it open. Others read what the bookies report as confirmed and change nothing.

    A ledger with a complete copy in tiered storage is read from ``objects``, through ``blocks``, where the bookies do
    not have it any more; where they do, from the bookies with ``bookies_first``, else from the copy, and from the other
    when that fails. Raises NoSuchLedgerError, OffloadedError when tiered storage is needed and there is none,
    UnreadableLedgerError, OffloadError, LedgerError, the store's errors.
    """
    from_bookies = partial(_open_on_bookies, ledgers, span, owner=owner, password=password)
    offload = offload_of(span)
    if not offload.complete and not offload.deleted_from_bookies:
        return await from_bookies()
    if objects is None:
        if offload.deleted_from_bookies:
            raise OffloadedError(
                f"ledger {span.ledger_id} was offloaded ({offload.bucket}) and deleted from the bookies: "
                "tiered storage is not read here"
            )
        return await from_bookies()
    if offload.is_unreadable:
        raise UnreadableLedgerError(unreadable_text([span.ledger_id]))
    from_objects = partial(open_object, objects, span, offload, blocks)
    if offload.deleted_from_bookies:
        return await from_objects()
    places: tuple[Callable[[], Awaitable[EntryReader]], ...] = (from_objects, from_bookies)
    preferred, other = reversed(places) if bookies_first else places
    try:
        reader = await preferred()
    except LedgerError as error:
        _log_other_place(span.ledger_id, error)
        return await other()
    return TwoPlacesReader(span.ledger_id, reader, other)


def unreadable_text(ledger_ids: Sequence[int]) -> str:
    """Return a sentence on ledgers that are only in tiered storage and are not read here."""
    many = len(ledger_ids) > 1
    named = ", ".join(map(str, ledger_ids[:NAMED])) + (", …" if len(ledger_ids) > NAMED else "")
    return (
        f"ledger{'s' if many else ''} {named}: only in objects of several ledgers (streaming offload of Apache's "
        "brokers), which are not read here"
    )


async def open_object(
    objects: ObjectStores, span: LedgerSpan, offload: Offload, blocks: BlockCache | None = None
) -> ObjectReader:
    """Open the copy of a ledger in tiered storage. Raises OffloadError, also for one that ends with another entry."""
    if offload.attempt is None:
        raise DamagedObjectError(f"ledger {span.ledger_id}: the record names no object")
    name = ObjectName(offload.attempt, span.ledger_id)
    stored = await ObjectReader.open(objects.open(offload.bucket), name, blocks)
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
