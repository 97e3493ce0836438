"""Requested decommissions of bookies. A request is a node; the auditor carries it out, over restarts of
all processes, and keeps its progress in the node. Nothing is removed while a ledger names the bookie (I44). A read-only
bookie is drained before it is stopped (I49)."""

import json
import logging
from dataclasses import asdict, dataclass, replace

from engine.base.clock import Clock
from engine.metadata import paths
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
)
from engine.repair.bookie_changes import is_registered, ledgers_of, remove_cookie
from engine.repair.ledger_listing import children
from engine.repair.marks import MarkFormatError, RepairRecords

log = logging.getLogger(__name__)

RESTS = 10
"""A count of ledgers is followed by a pause of this many times its duration."""
PAUSE_MIN_S = 2.0
DRAINED = "nothing is left on it: stop it"


@dataclass(frozen=True, slots=True)
class Decommission:
    """A request, and its progress as the auditor stored it last.

    ``by`` is who asked, ``at_ms`` when. ``first`` is the number of ledgers that named the bookie at the begin, ``left``
    that of those that still do at ``counted_ms``; None before the first count. ``waits`` is the reason why nothing is
    copied, empty without one. ``drain``: the bookie makes itself read-only, and is copied while it serves.
    """

    by: str
    at_ms: int
    first: int | None = None
    left: int | None = None
    counted_ms: int | None = None
    waits: str = ""
    drain: bool = False

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, bookie: str, value: bytes) -> "Decommission":
        """Decode a node's value. Raises MarkFormatError."""
        try:
            return cls(**json.loads(value))
        except (ValueError, TypeError) as error:
            raise MarkFormatError(f"{paths.decommission(bookie)}: {error}") from error


async def request_decommission(
    store: MetadataStore, clock: Clock, bookie: str, by: str, *, drain: bool = False
) -> bool:
    """Ask the auditor to take a bookie out; return False when that is asked already. Raises the store's errors."""
    value = Decommission(by, clock.wall_ms(), drain=drain).encode()
    try:
        await store.create(paths.decommission(bookie), value, make_parents=True)
    except NodeExistsError:
        return False
    return True


async def withdraw_decommission(store: MetadataStore, bookie: str) -> bool:
    """Withdraw a request; return False when there is none. Ledgers that are marked are copied all the same."""
    try:
        await store.delete(paths.decommission(bookie))
    except NoNodeError:
        return False
    return True


async def read_decommission(store: MetadataStore, bookie: str) -> Decommission | None:
    """Return the request for a bookie. Raises MarkFormatError."""
    try:
        value, _ = await store.get(paths.decommission(bookie))
    except NoNodeError:
        return None
    return Decommission.decode(bookie, value)


async def decommissions(store: MetadataStore) -> dict[str, Decommission]:
    """Return all requests by bookie. Raises MarkFormatError."""
    bookies = await children(store, paths.DECOMMISSIONS)
    requests = {bookie: await read_decommission(store, bookie) for bookie in sorted(bookies)}
    return {bookie: request for bookie, request in requests.items() if request is not None}


async def draining(store: MetadataStore) -> list[str]:
    """Return the read-only bookies that are to be taken out: their copies count as lost, although they serve them."""
    bookies = await children(store, paths.DECOMMISSIONS)
    return [
        bookie
        for bookie in sorted(bookies)
        if await store.exists(paths.read_only_bookie(bookie)) is not None
    ]


class Decommissioning:
    """The auditor's part. ``look`` is called by the auditor while it leads."""

    def __init__(self, store: MetadataStore, records: RepairRecords, clock: Clock) -> None:
        self._store = store
        self._records = records
        self._clock = clock
        self._marked: dict[str, int] = {}
        """Requests whose ledgers this auditor has marked, by the time of the request."""
        self._due_s = 0.0

    def begin(self) -> None:
        """Forget what an earlier reign marked: another auditor may not have finished it."""
        self._marked.clear()
        self._due_s = 0.0

    async def look(self) -> float | None:
        """Carry the requests on, and return the seconds until the next look is due; None without requests. Raises the
        store's errors."""
        now = self._clock.monotonic_s()
        if now < self._due_s:
            return self._due_s - now
        requests = sorted(await children(self._store, paths.DECOMMISSIONS))
        for bookie in requests:
            try:
                request = await read_decommission(self._store, bookie)
            except MarkFormatError as error:
                log.error("a request to take a bookie out is passed over reason=%s", error)
                continue
            if request is not None:
                await self._carry_on(bookie, request)
        if not requests:
            return None
        took = self._clock.monotonic_s() - now
        pause = max(RESTS * took, PAUSE_MIN_S)
        self._due_s = now + took + pause
        return pause

    async def _carry_on(self, bookie: str, request: Decommission) -> None:
        if await self._store.exists(paths.available_bookie(bookie)) is not None:
            self._marked.pop(bookie, None)
            waits = "it takes writes: stop it, or make it read-only"
            await self._keep(bookie, replace(request, waits=waits))
            return
        is_marked = self._marked.get(bookie) == request.at_ms
        left = 0
        unread: list[int] = []
        async for ledger_id, _, _ in ledgers_of(self._store, bookie, unread):
            left += 1
            # One may have begun on it since, or was found whole while the bookie was known to serve.
            if not is_marked or not await self._records.is_marked(ledger_id):
                await self._records.mark(ledger_id, [bookie])
        self._marked[bookie] = request.at_ms
        if left:
            first = max(left, request.first or 0)
            counted_ms = self._clock.wall_ms()
            await self._keep(
                bookie, replace(request, first=first, left=left, counted_ms=counted_ms, waits="")
            )
            return
        counted_ms = self._clock.wall_ms()
        if unread:
            waits = f"the metadata of {len(unread)} ledgers cannot be read, such as {unread[0]}"
            await self._keep(
                bookie, replace(request, left=len(unread), counted_ms=counted_ms, waits=waits)
            )
            return
        if await is_registered(self._store, bookie):
            await self._keep(bookie, replace(request, left=0, counted_ms=counted_ms, waits=DRAINED))
            return
        if await read_decommission(self._store, bookie) is None:
            return  # withdrawn during the count
        if not await remove_cookie(self._store, bookie):
            return  # it has registered at this moment
        await withdraw_decommission(self._store, bookie)
        log.info("bookie is decommissioned bookie=%s", bookie)

    async def _keep(self, bookie: str, request: Decommission) -> None:
        """Store progress, unless the request was withdrawn."""
        path = paths.decommission(bookie)
        try:
            value, stat = await self._store.get(path)
            if value != request.encode():
                await self._store.put(path, request.encode(), stat.version)
        except (NoNodeError, BadVersionError):
            return
