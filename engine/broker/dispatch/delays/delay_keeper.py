"""Maintenance of the delay index in ledgers: runs are stored, read back part by part, merged and deleted.

Storage that is slow or unavailable delays the entries in stored runs and nothing else. A lost run costs time, not
messages: it is forgotten, and its entries are read again (D5).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from engine.base.backoff import Backoff
from engine.base.entropy import Entropy
from engine.base.errors import WorldError
from engine.base.tasks import TaskScope
from engine.broker.dispatch.delays.delay_format import DelayIndexError
from engine.broker.dispatch.delays.delay_parts import (
    Packing,
    Span,
    in_parts,
    merged,
    open_run,
    read_part,
)
from engine.broker.dispatch.delays.delayed import DelayIndex, Run
from engine.broker.dispatch.ports import DelayCursor
from engine.ledger.errors import (
    CorruptEntryError,
    LedgerError,
    NoSuchEntryError,
    NoSuchLedgerError,
)
from engine.ledger.reading.reader import LedgerReader
from engine.managed.cursors.index_ledgers import IndexLedgers
from engine.managed.errors import ManagedLedgerError

log = logging.getLogger(__name__)

LOAD_S = 5.0
"""Time limit for opening stored runs. The entries of runs that are not open by then are read again instead."""
MERGE_AGAIN_S = 5.0
"""Pause before a failed merge is tried again."""
_LOST = (NoSuchLedgerError, NoSuchEntryError, CorruptEntryError, DelayIndexError)
_UNAVAILABLE = (LedgerError, WorldError)


class DelayKeeper:
    """Stores and loads the delay index of one dispatcher.

    ``ready`` is called when more of the index is in memory. ``lost`` must disconnect the consumers, so that everything
    is read again.
    """

    def __init__(
        self,
        index: DelayIndex,
        cursor: DelayCursor,
        scope: TaskScope,
        entropy: Entropy,
        runs_max: int,
        ready: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        """Create a keeper that loads nothing until ``open``. More than ``runs_max`` stored runs are merged."""
        self.loading = False
        """True while stored runs are being opened: nothing is read before it is known which entries are in them."""
        self._index = index
        self._cursor = cursor
        self._scope = scope
        self._entropy = entropy
        self._runs_max = runs_max
        self._ready = ready
        self._lost = lost
        self._readers: dict[int, LedgerReader] = {}
        self._putting = asyncio.Lock()
        self._opening: asyncio.Task[None] | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def keeps(self) -> bool:
        """True when a run is stored."""
        stores = self._cursor.index
        return stores is not None and bool(stores.stored)

    # --- begin and end --------------------------------------------------------------------------

    def open(self) -> None:
        """Load the stored runs for the first consumer, so that their entries are not read again."""
        stores = self._cursor.index
        if stores is not None and self.keeps and not self._scope.closed:
            self.loading = True
            self._opening = self._scope.spawn("delay index", self._load(stores))

    def close(self) -> None:
        """Forget the index in memory. Entries that are not in stored runs are read again for the next consumer."""
        for task in (self._opening, self._fetching, self._keeping):
            if task is not None:
                task.cancel()
        self._opening = self._fetching = self._keeping = None
        stores = self._cursor.index
        if stores is not None:
            for run in self._index.runs:
                # Does not delete ledgers that the cursor's record names.
                stores.discard(run.ledger_id)
        self._readers.clear()
        self._index.clear()
        self._cursor.set_aside(())
        self.loading = False

    async def _load(self, stores: IndexLedgers) -> None:
        runs: list[Run] = []
        spans: list[Span] = []
        deadline_s = asyncio.get_running_loop().time() + LOAD_S
        for ledger_id in stores.stored:
            try:
                async with asyncio.timeout_at(deadline_s):
                    reader = self._readers[ledger_id] = await stores.reader(ledger_id)
                    run, own = await open_run(reader)
            except ManagedLedgerError:
                return  # the topic is closing
            except (*_UNAVAILABLE, DelayIndexError, TimeoutError) as error:
                self._warn_lost(ledger_id, error)
            else:
                runs.append(run)
                spans += own
        self._index.runs = runs
        self._cursor.set_aside(spans)
        self.loading = False
        self.tend()
        self._ready()

    def _warn_lost(self, ledger_id: int, error: Exception) -> None:
        log.warning(
            "delay index is lost, its entries are read again cursor=%s ledger=%d error=%s",
            self._cursor.name,
            ledger_id,
            str(error) or type(error).__name__,
        )

    # --- reading back ---------------------------------------------------------------------------

    def tend(self) -> None:
        """Start reading parts and storing, merging or deleting runs where that is needed. Cheap when nothing is."""
        stores = self._cursor.index
        if self.loading or stores is None or self._scope.closed:
            return
        if self._fetching is None and any(run.wants for run in self._index.runs):
            self._fetching = self._scope.spawn("delay parts", self._fetch(stores))
        if self._keeping is None and self._step(stores) is not None:
            self._keeping = self._scope.spawn("delay runs", self._keep(stores))

    async def _fetch(self, stores: IndexLedgers) -> None:
        """Read the parts that runs want, the ones due first before the others."""
        backoff = Backoff()
        failed: Run | None = None
        while wanting := [run for run in self._index.runs if run.wants]:
            run = min(wanting, key=lambda run: (run is failed, run.next_ms or 0))
            try:
                columns = await read_part(await self._reader(stores, run), run.part)
            except _LOST as error:
                self._warn_lost(run.ledger_id, error)
                await self._give_up(stores, run)
                return  # ``_fetching`` stays set until ``close``: the consumers are disconnected
            except _UNAVAILABLE as error:
                log.info("delay index is not read cursor=%s: %s", self._cursor.name, error)
                failed = run  # parts of other runs are tried before it
                await asyncio.sleep(backoff.next_s(self._entropy.random()))
            else:
                failed = None
                backoff.reset()
                if run in self._index.runs:
                    run.loaded(*columns)
                    self._ready()
        self._fetching = None

    async def _reader(self, stores: IndexLedgers, run: Run) -> LedgerReader:
        reader = self._readers.get(run.ledger_id)
        if reader is None:
            reader = self._readers[run.ledger_id] = await stores.reader(run.ledger_id)
        return reader

    async def _give_up(self, stores: IndexLedgers, run: Run) -> None:
        """Remove a run of which a part is lost, and have the entries in it read again."""
        self._index.runs = [kept for kept in self._index.runs if kept is not run]
        backoff = Backoff()
        # The record is changed first: the next ``open`` would leave the entries of the lost run out again.
        while run.ledger_id in stores.stored:
            try:
                await self._put(stores)
            except _UNAVAILABLE:
                await asyncio.sleep(backoff.next_s(self._entropy.random()))
            except ManagedLedgerError:
                return  # the topic is closing
        self._lost()

    # --- storing --------------------------------------------------------------------------------

    async def _keep(self, stores: IndexLedgers) -> None:
        """Store, delete and merge runs, one step after the other, until no step is needed."""
        backoff = Backoff()
        while (step := self._step(stores)) is not None:
            try:
                await step(stores)
                backoff.reset()
                self._ready()  # the index may no longer be crowded
            except _UNAVAILABLE as error:
                log.info("delay index is not stored cursor=%s: %s", self._cursor.name, error)
                await asyncio.sleep(backoff.next_s(self._entropy.random()))
            except ManagedLedgerError:
                break  # the topic is closing
        self._keeping = None

    def _step(self, stores: IndexLedgers) -> Callable[[IndexLedgers], Awaitable[None]] | None:
        """Return the next step of ``_keep``; None when no step is needed."""
        ledger_ids = {run.ledger_id for run in self._index.runs}
        if -1 in ledger_ids:
            return self._save
        if ledger_ids != stores.stored.keys():
            return self._put
        return self._merge if len(ledger_ids) > self._runs_max else None

    async def _put(self, stores: IndexLedgers) -> None:
        """Record the present stored runs as the index; others are deleted."""
        async with self._putting:
            runs = {run.ledger_id: run.entries for run in self._index.runs if run.ledger_id >= 0}
            await stores.put(runs)
            self._readers = {i: reader for i, reader in self._readers.items() if i in runs}

    async def _save(self, stores: IndexLedgers) -> None:
        """Store a run that is in memory only."""
        run = next(run for run in self._index.runs if run.ledger_id < 0)
        part_max = self._index.part_max
        ledger_id = await stores.write(Packing(part_max).of(in_parts(run.in_memory(0), part_max)))
        if run not in self._index.runs:
            stores.discard(ledger_id)  # all of its entries were taken or acknowledged meanwhile
            return
        run.stored(ledger_id)
        await self._put(stores)

    async def _merge(self, stores: IndexLedgers) -> None:
        """Merge the smaller half of the runs into one.

        Entries that are taken during the merge are skipped in the new run by their time. When some due entries were not
        taken, the time does not separate them: the runs stay and the merge is tried again later.
        """
        runs = sorted(self._index.runs, key=lambda run: run.left)[: self._runs_max // 2 + 1]
        packing, cursor = Packing(self._index.part_max), self._cursor
        try:
            readers = [(run, await self._reader(stores, run)) for run in runs]
            rows = merged(readers, lambda position: not cursor.is_acknowledged(position))
            ledger_id = await stores.write(packing.of(rows))
        except _LOST as error:
            log.info("delay index is not merged cursor=%s: %s", cursor.name, error)
            await asyncio.sleep(MERGE_AGAIN_S)  # ``_fetch`` handles the loss when it needs the part
            return
        taken_ms = max(run.taken_ms for run in runs)
        waiting = [at_ms for run in runs if (at_ms := run.next_ms) is not None]
        if waiting and min(waiting) <= taken_ms:
            stores.discard(ledger_id)
            await asyncio.sleep(MERGE_AGAIN_S)
            return
        others = [run for run in self._index.runs if run not in runs]
        if packing.ends:
            new = Run(packing.firsts, packing.ends, packing.last)
            new.ledger_id = ledger_id
            new.begin_behind(taken_ms)
            others.append(new)
        else:
            stores.discard(ledger_id)
        self._index.runs = others
        self.tend()
        await self._put(stores)
