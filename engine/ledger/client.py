"""The ledger client, one per process: creates, opens and deletes ledgers."""

import asyncio
import contextlib
import logging
from dataclasses import replace

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.ledger import metadata_update
from engine.ledger.access import LedgerAccess
from engine.ledger.cluster.cluster import BookieCluster
from engine.ledger.cluster.placement import Placement
from engine.ledger.errors import (
    LedgerClosedError,
    LedgerExistsError,
    LedgerFencedError,
    UnauthorizedError,
)
from engine.ledger.id_generator import LedgerIds
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment, encode
from engine.ledger.quorum import check_quorums
from engine.ledger.reading.reader import LedgerReader
from engine.ledger.recovery import recover as recover_ledger
from engine.ledger.settings import LedgerSettings
from engine.ledger.writing.writer import LedgerWriter, WriterListener
from engine.metadata import paths
from engine.metadata.layout import check_layout
from engine.metadata.store import (
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from engine.net.network import Network

log = logging.getLogger(__name__)

CREATE_ATTEMPTS = 5


class LedgerClient:
    """Creates, opens and deletes ledgers. Create it inside a running event loop; the first use starts the cluster's
    watches."""

    def __init__(
        self,
        *,
        store: MetadataStore,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        settings: LedgerSettings | None = None,
        placement: Placement | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self.settings = settings if settings is not None else LedgerSettings()
        self.bookies = BookieCluster(store, network, entropy, self.settings, placement)
        self._writers: dict[int, LedgerWriter] = {}
        self._layout_known = False
        self._ids = LedgerIds(store)

    async def create(
        self,
        ensemble: int,
        write_quorum: int,
        ack_quorum: int,
        password: bytes = b"",
        custom: dict[str, bytes] | None = None,
        listener: WriterListener | None = None,
    ) -> LedgerWriter:
        """Create a ledger and return its writer. Raises MisuseError (quorums), NotEnoughBookiesError, the store's
        errors.

        After a cancellation or StoreUnavailableError an empty ledger may remain in the metadata store.
        """
        check_quorums(ensemble, write_quorum, ack_quorum)
        await self._begin()
        members = await self.bookies.choice.ensemble(ensemble, write_quorum)
        metadata = LedgerMetadata(
            ensemble_size=ensemble,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            segments=(Segment(0, tuple(members)),),
            password=password,
            custom=dict(custom or {}),
            ctoken=self._entropy.bits(62) + 1,
            version=0,  # of the node that is about to be created
        )
        ledger_id = await self._store_new(encode(metadata))
        access = self.access(ledger_id, password)
        writer = LedgerWriter(access, metadata, listener, on_end=self._forget)
        self._writers[ledger_id] = writer
        return writer

    async def create_again(
        self, ledger_id: int, like: LedgerMetadata, listener: WriterListener | None = None
    ) -> LedgerWriter:
        """Create the ledger ``ledger_id`` of a backup, or begin it anew where an earlier attempt left it open.

        It has ``like``'s quorums as far as there are bookies, its password and its custom metadata; every copy of an
        entry counts for its confirmation. No other client may use the cluster meanwhile. Raises LedgerExistsError for
        a closed ledger, NotEnoughBookiesError, the store's errors.
        """
        await self._begin()
        await self.bookies.registrations.load()
        size = max(1, min(like.ensemble_size, len(self.bookies.registrations.writable)))
        copies = min(like.write_quorum, size)
        members = await self.bookies.choice.ensemble(size, copies)
        metadata = LedgerMetadata(
            ensemble_size=size,
            write_quorum=copies,
            ack_quorum=copies,
            segments=(Segment(0, tuple(members)),),
            password=like.password or b"",
            custom=dict(like.custom),
        )
        path = paths.ledger(ledger_id)
        try:
            await self._store.create(path, encode(metadata), make_parents=True)
            version = 0
        except NodeExistsError:
            stored = await metadata_update.read(self._store, ledger_id)
            if stored.state is LedgerState.CLOSED:
                raise LedgerExistsError(f"ledger {ledger_id} exists and is closed") from None
            version = (await self._store.put(path, encode(metadata), stored.version)).version
        access = self.access(ledger_id, metadata.password or b"")
        known = replace(metadata, version=version)
        writer = LedgerWriter(access, known, listener, on_end=self._forget)
        self._writers[ledger_id] = writer
        return writer

    def access(self, ledger_id: int, password: bytes) -> LedgerAccess:
        """Return what operations on a ledger share."""
        return LedgerAccess(ledger_id, password, self._store, self.bookies, self.settings)

    def _forget(self, ledger_id: int) -> None:
        self._writers.pop(ledger_id, None)

    async def _begin(self) -> None:
        """Check the cluster's layout once and start the watches. Raises LayoutError, the store's errors."""
        if not self._layout_known:
            await check_layout(self._store)
            self._layout_known = True
        self.bookies.start()

    async def _store_new(self, data: bytes) -> int:
        """Write metadata under a fresh id and return the id. Raises LedgerExistsError, the store's errors.

        An id in use is never adopted, because the ledger may have another writer (I18). Only a node with exactly these
        bytes, token included, is this client's own: the answer to its create was lost.
        """
        for _ in range(CREATE_ATTEMPTS):
            ledger_id = await self._ids.next()
            path = paths.ledger(ledger_id)
            try:
                await self._store.create(path, data, make_parents=True)
            except NodeExistsError:
                if not await self._is_stored(path, data):
                    continue
            except StoreUnavailableError:
                if not await self._is_stored(path, data):
                    raise
            return ledger_id
        raise LedgerExistsError(f"{CREATE_ATTEMPTS} fresh ledger ids were all taken")

    async def _is_stored(self, path: str, data: bytes) -> bool:
        """Return whether exactly ``data``, token included, is stored; False also when the store does not answer within
        ``metadata_timeout_s``."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.settings.metadata_timeout_s
        while True:
            try:
                stored, _ = await self._store.get(path)
            except StoreUnavailableError:
                if loop.time() >= deadline:
                    return False
                await asyncio.sleep(metadata_update.RETRY_S)
                continue
            except (NoNodeError, SessionExpiredError):
                return False
            return stored == data

    async def open(
        self,
        ledger_id: int,
        password: bytes = b"",
        *,
        recover: bool,
        unconfirmed: bool = False,
        known: LedgerMetadata | None = None,
    ) -> LedgerReader:
        """Open a ledger for reading. With ``recover`` it is fenced and closed first, so that its end is settled.

        Without ``recover`` a reader of an open ledger reads up to the last add confirmed that bookies know, which lags
        while the writer is idle. With ``unconfirmed`` it also reads entries that an ack quorum stores and that a
        recovery might still cut off. ``known`` saves a read: the metadata as just read, or with ``recover`` any earlier
        version. Raises NoSuchLedgerError, UnauthorizedError, LedgerRecoveryError, ReadError (no view of the open
        ledger's end).
        """
        await self._begin()
        access = self.access(ledger_id, password)
        metadata = known or await metadata_update.read(self._store, ledger_id)
        if metadata.password is not None and metadata.password != password:
            raise UnauthorizedError(f"ledger {ledger_id}: wrong password")
        if recover and metadata.state is not LedgerState.CLOSED:
            own_writer = self._writers.get(ledger_id)
            if own_writer is not None:
                own_writer.abandon(LedgerFencedError("this process recovers the ledger"))
            metadata = await recover_ledger(access, metadata)
        reader = LedgerReader(access, metadata, unconfirmed=unconfirmed)
        if not reader.closed:
            await reader.read_last_confirmed()
        return reader

    async def metadata(self, ledger_id: int) -> LedgerMetadata:
        """Return a ledger's stored metadata. Raises NoSuchLedgerError."""
        return await metadata_update.read(self._store, ledger_id)

    async def delete(self, ledger_id: int) -> None:
        """Delete a ledger's metadata; bookies collect its entries later. A missing ledger is not an error."""
        own_writer = self._writers.get(ledger_id)
        if own_writer is not None:
            own_writer.abandon(LedgerClosedError(f"ledger {ledger_id} was deleted"))
        with contextlib.suppress(NoNodeError):
            await self._store.delete(paths.ledger(ledger_id))

    async def close(self) -> None:
        """Close all connections. Open writers fail; their ledgers stay open for recovery."""
        for writer in list(self._writers.values()):
            writer.abandon(LedgerClosedError("the ledger client was closed"))
        self._ids.close()
        await self.bookies.close()
