"""A topic's record in the metadata store, written by compare-and-set by its one owner.

The version read at opening is the owner's claim: a write that meets another version shows that somebody else opened the
topic (I39). A write whose answer was lost is tried again and settled by reading, never taken for a lost race.
"""

import asyncio
import contextlib

from engine.base.backoff import Backoff
from engine.base.entropy import Entropy
from engine.managed.errors import ManagedLedgerFencedError
from engine.managed.settings import ManagedSettings
from engine.managed.stored.records import LogRecord
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    StoreUnavailableError,
)


class StoredNode:
    """One node with the version we know. One write at a time."""

    def __init__(
        self, store: MetadataStore, path: str, entropy: Entropy, settings: ManagedSettings
    ) -> None:
        self.path = path
        self.version = -1
        self._store = store
        self._entropy = entropy
        self._settings = settings
        self._unsure: bytes | None = None

    async def read(self) -> bytes:
        """Value now; its version becomes ours. Raises NoNodeError."""
        value, stat = await self._store.get(self.path)
        self.version = stat.version
        self._unsure = None
        return value

    async def create(self, value: bytes) -> bool:
        """Make the node; False when it exists already (also when an unanswered attempt of ours made it)."""
        try:
            await self._store.create(self.path, value, make_parents=True)
        except NodeExistsError:
            return False
        self.version = 0
        self._unsure = None
        return True

    async def write(self, value: bytes) -> None:
        """Replace the value if nobody else did since. Raises ManagedLedgerFencedError when somebody did.

        Raises StoreUnavailableError when the store gives no certainty; the next write settles it first.
        """
        backoff = Backoff(self._settings.retry_initial_s, self._settings.retry_max_s)
        for attempt in range(self._settings.metadata_attempts_max):
            try:
                if self._unsure is not None:
                    await self._settle()
                self._unsure = value
                self.version = await self._store.put(self.path, value, self.version)
                self._unsure = None
                return
            except StoreUnavailableError:
                if attempt + 1 == self._settings.metadata_attempts_max:
                    raise
                await asyncio.sleep(backoff.next_s(self._entropy.random()))
            except (BadVersionError, NoNodeError) as error:
                self._unsure = None
                raise ManagedLedgerFencedError(
                    f"{self.path} was changed by another owner"
                ) from error

    async def _settle(self) -> None:
        """Find out whether the write without an answer happened."""
        value, stat = await self._store.get(self.path)
        if stat.version == self.version + 1 and value == self._unsure:
            self.version = stat.version
        elif stat.version != self.version:
            raise BadVersionError(self.path)
        self._unsure = None

    async def unchanged(self) -> bool:
        """Whether nobody else has changed the node since we read or wrote it."""
        if self._unsure is not None:
            with contextlib.suppress(BadVersionError, NoNodeError):
                await self._settle()
        stat = await self._store.exists(self.path)
        return stat is not None and stat.version == self.version

    async def delete(self) -> None:
        """Remove the node; gone already is fine. Raises ManagedLedgerFencedError when it was changed."""
        try:
            if self._unsure is not None:  # a write of ours was cancelled under way
                await self._settle()
            await self._store.delete(self.path, self.version)
        except NoNodeError:
            return
        except BadVersionError as error:
            raise ManagedLedgerFencedError(f"{self.path} was changed by another owner") from error


async def read_or_create(node: StoredNode) -> LogRecord:
    """The topic's record, made empty when there is none."""
    while True:
        try:
            return LogRecord.decode(await node.read())
        except NoNodeError:
            await node.create(b"")
            # Read it in any case: an attempt without an answer leaves the version unknown.
