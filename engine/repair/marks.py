"""The shared records of auto-recovery in the metadata store, in BookKeeper's layout: marked ledgers, locks, the switch,
the delay and the times of checks. BookKeeper's auditors, workers and shell read and write the same nodes."""

import logging
import re
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from typing import NamedTuple

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import MagnetarError, MisuseError
from engine.metadata import paths
from engine.metadata.protobuf.protobinary import put_int, take_fields
from engine.metadata.protobuf.prototext import escape, parse_text
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from engine.metadata.tree import parent_of

log = logging.getLogger(__name__)

LAYOUT = b'type: "BASIC"\nversion: 1\n'
LEVELS = 4
ATTEMPTS_MAX = 100
_MARK = re.compile(r"urL(\d{10,19})")


class MarkFormatError(MagnetarError):
    """A record of auto-recovery that cannot be read; the text names its path."""


class LedgerMark(NamedTuple):
    """A ledger's mark: the lost bookies that auditors have named, the time of the first, and the node's version."""

    ledger_id: int
    bookies: tuple[str, ...]
    since_ms: int
    version: int


def encode_mark(bookies: Collection[str], since_ms: int) -> bytes:
    lines = [f"replica: {escape(bookie.encode())}" for bookie in bookies]
    return "\n".join([*lines, f"ctime: {since_ms}", ""]).encode()


def decode_mark(ledger_id: int, value: bytes, version: int) -> LedgerMark:
    """Decode a mark. Raises MarkFormatError."""
    try:
        fields = parse_text(value.decode())
        bookies = tuple(
            name.decode() for name in fields.get("replica", []) if isinstance(name, bytes)
        )
        since = fields.get("ctime", [0])[-1]
    except (ValueError, KeyError) as error:
        raise MarkFormatError(f"{paths.marked_ledger(ledger_id)}: {error}") from error
    return LedgerMark(ledger_id, bookies, since if isinstance(since, int) else 0, version)


class RepairRecords:
    """The records through one session. All methods may raise the store's errors."""

    def __init__(self, store: MetadataStore, clock: Clock, entropy: Entropy) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy

    async def prepare(self) -> None:
        """Create the layout's node and the parents. Raises MarkFormatError for a layout of another kind."""
        try:
            await self._store.create(paths.UNDERREPLICATION_LAYOUT, LAYOUT, make_parents=True)
        except NodeExistsError:
            layout, _ = await self._store.get(paths.UNDERREPLICATION_LAYOUT)
            if layout.split() != LAYOUT.split():
                raise MarkFormatError(
                    f"{paths.UNDERREPLICATION_LAYOUT}: {layout[:80]!r} instead of {LAYOUT!r}"
                ) from None
        for path in (paths.MARKED_LEDGERS, paths.REPAIR_LOCKS):
            await self._create(path, b"")

    async def _create(self, path: str, value: bytes) -> bool:
        """Create a persistent node with its parents; return False when it exists."""
        try:
            await self._store.create(path, value, make_parents=True)
        except NodeExistsError:
            return False
        return True

    # The switch and the delay

    async def enabled(self) -> bool:
        """Return whether auto-recovery is on."""
        return await self._store.exists(paths.REPAIR_DISABLED) is None

    async def enable(self, on: bool) -> None:
        """Turn auto-recovery of the cluster on or off."""
        if not on:
            await self._create(paths.REPAIR_DISABLED, b"")
            return
        with suppress(NoNodeError):
            await self._store.delete(paths.REPAIR_DISABLED)

    async def delay_s(self, default: float | None = None) -> float:
        """Return the stored delay before a lost bookie's ledgers are marked. With ``default`` it is stored first when
        it is missing. Raises NoNodeError, MarkFormatError."""
        if default is not None:
            await self._create(paths.LOST_BOOKIE_DELAY, str(round(default)).encode())
        value, _ = await self._store.get(paths.LOST_BOOKIE_DELAY)
        try:
            return float(int(value))
        except ValueError:
            raise MarkFormatError(f"{paths.LOST_BOOKIE_DELAY}: {value[:20]!r}") from None

    async def set_delay(self, seconds: int) -> None:
        """Store the delay. Raises MisuseError for a negative one."""
        if seconds < 0:
            raise MisuseError(f"lostBookieRecoveryDelay must be 0 or more seconds, not {seconds}")
        value = str(seconds).encode()
        if not await self._create(paths.LOST_BOOKIE_DELAY, value):
            await self._store.put(paths.LOST_BOOKIE_DELAY, value)

    async def trigger_audit(self) -> None:
        """Ask the auditor for an audit at once: BookKeeper's way is to write the same delay again. Raises NoNodeError
        before an auditor has run."""
        value, stat = await self._store.get(paths.LOST_BOOKIE_DELAY)
        with suppress(BadVersionError):  # another change triggers as well
            await self._store.put(paths.LOST_BOOKIE_DELAY, value, stat.version)

    # Times of checks

    async def checked_ms(self, path: str) -> int:
        """Return the time of the last complete check; 0 without one."""
        try:
            value, _ = await self._store.get(path)
            times = [field for number, field in take_fields(value) if number == 1]
        except (NoNodeError, ValueError, IndexError):
            return 0
        return times[0] if times and isinstance(times[0], int) else 0

    async def set_checked(self, path: str, at_ms: int | None = None) -> None:
        """Store when a check ended, now if not given. An early time makes the check due."""
        body = bytearray()
        put_int(body, 1, self._clock.wall_ms() if at_ms is None else at_ms)
        if not await self._create(path, bytes(body)):
            await self._store.put(path, bytes(body))

    # Marks

    async def mark(self, ledger_id: int, bookies: Collection[str]) -> None:
        """Mark a ledger as under-replicated. A mark that exists gets the bookies that it does not name, and a new
        version in any case: a worker that repairs the ledger now must look again. One that cannot be read is written
        anew."""
        path = paths.marked_ledger(ledger_id)
        for _ in range(ATTEMPTS_MAX):
            try:
                value, stat = await self._store.get(path)
            except NoNodeError:
                with suppress(NodeExistsError, NoNodeError):  # NoNode: a parent was just removed
                    first = encode_mark(sorted(bookies), self._clock.wall_ms())
                    await self._store.create(path, first, make_parents=True)
                    return
                continue
            try:
                known = decode_mark(ledger_id, value, stat.version)
            except MarkFormatError as error:
                log.error("a damaged mark is written anew reason=%s", error)
                known = LedgerMark(ledger_id, (), self._clock.wall_ms(), stat.version)
            names = [*known.bookies, *(b for b in sorted(bookies) if b not in known.bookies)]
            try:
                await self._store.put(path, encode_mark(names, known.since_ms), stat.version)
            except (BadVersionError, NoNodeError):
                continue
            return
        raise BadVersionError(f"{path} changed under {ATTEMPTS_MAX} attempts to mark the ledger")

    async def read(self, ledger_id: int) -> LedgerMark | None:
        """Return a ledger's mark. Raises MarkFormatError."""
        try:
            value, stat = await self._store.get(paths.marked_ledger(ledger_id))
        except NoNodeError:
            return None
        return decode_mark(ledger_id, value, stat.version)

    async def is_marked(self, ledger_id: int) -> bool:
        return await self._store.exists(paths.marked_ledger(ledger_id)) is not None

    async def lost_bookies(self, ledger_id: int) -> tuple[str, ...]:
        """Return the bookies that a ledger's mark names; none without a mark, or where it cannot be read."""
        try:
            mark = await self.read(ledger_id)
        except MarkFormatError as error:
            log.warning("a damaged mark is listed without bookies reason=%s", error)
            mark = None
        return () if mark is None else mark.bookies

    async def remove(self, mark: LedgerMark) -> bool:
        """Remove a mark and the parents that become empty; return False when the ledger was marked anew since ``mark``
        was read (I35)."""
        path = paths.marked_ledger(mark.ledger_id)
        try:
            await self._store.delete(path, mark.version)
        except (BadVersionError, NoNodeError):
            return False
        for _ in range(LEVELS):
            path = parent_of(path)
            try:
                await self._store.delete(path)
            except (NotEmptyError, NoNodeError):
                break
        return True

    async def marked(self) -> AsyncIterator[int]:
        """Yield the marked ledgers in random order, so that several workers meet seldom."""
        async for ledger_id in self._below(paths.MARKED_LEDGERS, LEVELS):
            yield ledger_id

    async def _below(self, path: str, levels: int) -> AsyncIterator[int]:
        try:
            names = await self._store.children(path)
        except NoNodeError:
            return
        for name in self._entropy.shuffled(names):
            if levels:
                async for ledger_id in self._below(f"{path}/{name}", levels - 1):
                    yield ledger_id
            elif match := _MARK.fullmatch(name):
                yield int(match[1])

    # Locks

    async def lock(self, ledger_id: int, worker: str) -> bool:
        """Take the lock of a ledger's repair for this session, which may have it already; return False when it is
        taken (I52)."""
        path = paths.repair_lock(ledger_id)
        value = f"bookieId: {escape(worker.encode())}\n".encode()
        try:
            await self._store.create(path, value, ephemeral=True, make_parents=True)
        except NodeExistsError:
            stat = await self._store.exists(path)
            return stat is not None and stat.ephemeral_owner == self._store.session_id
        return True

    async def unlock(self, ledger_id: int) -> None:
        """Release a lock of this session."""
        path = paths.repair_lock(ledger_id)
        stat = await self._store.exists(path)
        if stat is not None and stat.ephemeral_owner == self._store.session_id:
            with suppress(NoNodeError, BadVersionError):
                await self._store.delete(path, stat.version)

    async def worker(self, ledger_id: int) -> str | None:
        """Return who repairs a ledger now."""
        return await read_label(self._store, paths.repair_lock(ledger_id))


async def read_label(store: MetadataStore, path: str) -> str | None:
    """Return the bookie id in a lock or a vote; None without a node."""
    try:
        value, _ = await store.get(path)
    except NoNodeError:
        return None
    return worker_in(path, value)


def worker_in(path: str, value: bytes) -> str:
    """Return the bookie id in the value of a lock or a vote; empty without one. Raises MarkFormatError."""
    try:
        names = parse_text(value.decode()).get("bookieId", [])
    except ValueError as error:
        raise MarkFormatError(f"{path}: {error}") from error
    return names[-1].decode() if names and isinstance(names[-1], bytes) else ""
