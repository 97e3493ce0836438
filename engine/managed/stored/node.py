"""A record in the metadata store that its one owner writes by compare-and-set.

The version read at opening is the owner's claim. A write that meets another version shows that another owner opened the
topic (I39). A write whose answer was lost is tried again and its outcome is settled by reading; it is never taken for a
lost race.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from engine.base.backoff import Backoff
from engine.base.entropy import Entropy
from engine.managed.errors import ManagedLedgerFencedError, RecordTooLargeError
from engine.managed.settings import ManagedSettings
from engine.managed.stored.records import LogRecord
from engine.metadata.store import (
    BadVersionError,
    Found,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    Stat,
    StoreUnavailableError,
)
from engine.metadata.tree import VALUE_MAX


class StoredNode:
    """A node and its version as last known here. One write at a time.

    ``children``: names of its children when it was read with them. ``children_hold``: whether these still were all its
    children at this owner's last write, False when the store does not count such changes.
    """

    __slots__ = (
        "_children_version",
        "_entropy",
        "_settings",
        "_store",
        "_unsure",
        "children",
        "children_hold",
        "path",
        "version",
    )

    def __init__(
        self, store: MetadataStore, path: str, entropy: Entropy, settings: ManagedSettings
    ) -> None:
        self.path = path
        self.version = -1
        self.children: list[str] = []
        self.children_hold = False
        self._children_version: int | None = None
        self._store = store
        self._entropy = entropy
        self._settings = settings
        self._unsure: bytes | None = None

    def child(self, name: str) -> "StoredNode":
        """Return the node ``name`` below this one, not read yet."""
        return StoredNode(self._store, f"{self.path}/{name}", self._entropy, self._settings)

    async def read(self) -> bytes:
        """Return the present value and adopt its version. Raises NoNodeError."""
        return self.adopt(await self._store.get(self.path))

    async def read_with_children(self, others: Sequence[str] = ()) -> tuple[bytes, list[Found]]:
        """Read as ``read`` does, and ``children`` and the nodes ``others`` in the same request. Raises NoNodeError."""
        (row, *rows), names = await self._store.get_all([self.path, *others], self.path)
        if row is None:
            raise NoNodeError(self.path)
        self.children, self._children_version = names, row[1].children_version
        return self.adopt(row), rows

    def adopt(self, row: tuple[bytes, Stat]) -> bytes:
        """Adopt the version of a value that was just read together with something else, and return the value."""
        value, stat = row
        self.version = stat.version
        self._unsure = None
        return value

    async def create(self, value: bytes) -> bool:
        """Create the node. Return False when it exists already, also when an unanswered attempt from here created it.

        Raises RecordTooLargeError, the store's errors.
        """
        self._check_size(value)
        try:
            await self._store.create(self.path, value, make_parents=True)
        except NodeExistsError:
            return False
        self.version = 0
        self._unsure = None
        return True

    async def write(self, value: bytes) -> None:
        """Replace the value unless another owner did. Raises ManagedLedgerFencedError then.

        Raises RecordTooLargeError, with nothing written; StoreUnavailableError when the outcome is unknown, which the
        next write settles first.
        """
        self._check_size(value)
        backoff = Backoff(self._settings.retry_initial_s, self._settings.retry_max_s)
        for attempt in range(self._settings.metadata_attempts_max):
            try:
                if self._unsure is not None:
                    await self._settle()
                self._unsure = value  # before the request, since a cancelled one may be carried out
                self._wrote(await self._store.put(self.path, value, self.version))
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

    def _check_size(self, value: bytes) -> None:
        if len(value) > VALUE_MAX:
            raise RecordTooLargeError(
                f"the record of {self.path} has {len(value)} bytes, at most {VALUE_MAX} can be stored"
            )

    def _wrote(self, stat: Stat) -> None:
        self.version = stat.version
        self._unsure = None
        counted = stat.children_version is not None
        self.children_hold = counted and stat.children_version == self._children_version

    async def _settle(self) -> None:
        """Find out whether the write without an answer was made."""
        value, stat = await self._store.get(self.path)
        if stat.version == self.version + 1 and value == self._unsure:
            self._wrote(stat)
        elif stat.version != self.version:
            raise BadVersionError(self.path)
        self._unsure = None

    async def unchanged(self) -> bool:
        """Return whether no other owner has changed the node since it was read or written here."""
        if self._unsure is not None:
            with contextlib.suppress(BadVersionError, NoNodeError):
                await self._settle()
        stat = await self._store.exists(self.path)
        return stat is not None and stat.version == self.version

    async def delete(self) -> None:
        """Remove the node if it exists. Raises ManagedLedgerFencedError when another owner changed it."""
        try:
            if self._unsure is not None:  # a write from here was cancelled
                await self._settle()
            await self._store.delete(self.path, self.version)
        except NoNodeError:
            return
        except BadVersionError as error:
            raise ManagedLedgerFencedError(f"{self.path} was changed by another owner") from error


async def read_to_open(
    node: StoredNode, others: Sequence[str], *, make: bool
) -> tuple[LogRecord, list[Found]]:
    """Return the topic's record and the nodes ``others``, and read the names of its cursors into ``node``. When there
    is no record, create an empty one if ``make``, else raise NoNodeError."""
    while True:
        try:
            value, rows = await node.read_with_children(others)
            return LogRecord.decode(value), rows
        except NoNodeError:
            if not make:
                raise
            await node.create(b"")
            # The loop reads it in any case, because an attempt without an answer leaves the version unknown.
