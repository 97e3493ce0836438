"""The index of waiting entries and its ledgers: runs are stored, read back part by part, merged, and deleted.

Storage that is slow or away delays what waits in it and nothing else. A run that is lost costs time, not messages: it
is forgotten, and its entries are read again (D5).
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
"""Runs that cannot be opened within this time are given up: their entries are read again instead."""
MERGE_AGAIN_S = 5.0
"""Before a merge is tried again whose runs were not in step."""
_LOST = (NoSuchLedgerError, NoSuchEntryError, CorruptEntryError, DelayIndexError)
_AWAY = (LedgerError, WorldError)


class DelayKeeper:
    """Of one dispatcher. ``ready`` is called when more is in memory; ``lost`` must send the consumers away, so that
    everything is read anew."""

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
        """More than ``runs_max`` stored runs are merged."""
        self.loading = False
        """Whether it is not known yet what waits: nothing may be read."""
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
        """Whether anything is stored."""
        stores = self._cursor.index
        return stores is not None and bool(stores.stored)

    # --- begin and end --------------------------------------------------------------------------

    def open(self) -> None:
        """The first consumer is here: have what is stored, so that nothing of it is read again."""
        stores = self._cursor.index
        if stores is not None and self.keeps and not self._scope.closed:
            self.loading = True
            self._opening = self._scope.spawn("delay index", self._load(stores))

    def close(self) -> None:
        """Forget what is not stored: it is read again for the next consumer."""
        for task in (self._opening, self._fetching, self._keeping):
            if task is not None:
                task.cancel()
        self._opening = self._fetching = self._keeping = None
        stores = self._cursor.index
        if stores is not None:
            for run in self._index.runs:
                stores.discard(run.ledger_id)  # those that are named by the node stay
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
                return  # the topic is on its way out
            except (*_AWAY, DelayIndexError, TimeoutError) as error:
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
            *(self._cursor.name, ledger_id, str(error) or type(error).__name__),
        )

    # --- reading back ---------------------------------------------------------------------------

    def tend(self) -> None:
        """See to what has changed: parts to be read, runs to be stored, ledgers to be deleted. Often called."""
        stores = self._cursor.index
        if self.loading or stores is None or self._scope.closed:
            return
        if self._fetching is None and any(run.wants for run in self._index.runs):
            self._fetching = self._scope.spawn("delay parts", self._fetch(stores))
        if self._keeping is None and self._work(stores) is not None:
            self._keeping = self._scope.spawn("delay runs", self._keep(stores))

    async def _fetch(self, stores: IndexLedgers) -> None:
        """Read the parts that are wanted, those due first before the others."""
        backoff = Backoff()
        failed: Run | None = None
        while wanting := [run for run in self._index.runs if run.wants]:
            run = min(wanting, key=lambda run: (run is failed, run.next_ms or 0))
            try:
                columns = await read_part(await self._reader(stores, run), run.part)
            except _LOST as error:
                self._warn_lost(run.ledger_id, error)
                await self._give_up(stores, run)
                return
            except _AWAY as error:
                log.info("delay index is not read cursor=%s: %s", self._cursor.name, error)
                failed = run
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
        """Part of a stored run is lost: nobody knows any more which entries wait in it."""
        self._index.runs = [one for one in self._index.runs if one is not run]
        backoff = Backoff()
        while run.ledger_id in stores.stored:
            try:
                await self._put(stores)
            except _AWAY:
                await asyncio.sleep(backoff.next_s(self._entropy.random()))
            except ManagedLedgerError:
                return  # the topic is on its way out
        self._lost()

    # --- storing --------------------------------------------------------------------------------

    async def _keep(self, stores: IndexLedgers) -> None:
        """One thing after the other, until all is stored, and nothing without need."""
        backoff = Backoff()
        while (work := self._work(stores)) is not None:
            try:
                await work(stores)
                backoff.reset()
                self._ready()  # there may be room again
            except _AWAY as error:
                log.info("delay index is not stored cursor=%s: %s", self._cursor.name, error)
                await asyncio.sleep(backoff.next_s(self._entropy.random()))
            except ManagedLedgerError:
                break  # the topic is on its way out
        self._keeping = None

    def _work(self, stores: IndexLedgers) -> Callable[[IndexLedgers], Awaitable[None]] | None:
        """What is to be done next."""
        here = {run.ledger_id for run in self._index.runs}
        if -1 in here:
            return self._save
        if here != stores.stored.keys():
            return self._put
        return self._merge if len(here) > self._runs_max else None

    async def _put(self, stores: IndexLedgers) -> None:
        """Make the stored runs of now the index."""
        async with self._putting:
            runs = {run.ledger_id: run.entries for run in self._index.runs if run.ledger_id >= 0}
            await stores.put(runs)
            self._readers = {one: self._readers[one] for one in self._readers if one in runs}

    async def _save(self, stores: IndexLedgers) -> None:
        """Store a run that is in memory as a whole."""
        run = next(one for one in self._index.runs if one.ledger_id < 0)
        part_max = self._index.part_max
        ledger_id = await stores.write(Packing(part_max).of(in_parts(run.in_memory(0), part_max)))
        if run not in self._index.runs:
            stores.discard(ledger_id)  # all of it was due meanwhile
            return
        run.stored(ledger_id)
        await self._put(stores)

    async def _merge(self, stores: IndexLedgers) -> None:
        """Make one run of the smaller half.

        What is taken of them meanwhile is passed over in the new one by its time. Where that does not tell, because
        some are due and were not taken, all stays as it is for a while.
        """
        runs = sorted(self._index.runs, key=lambda run: run.left)[: self._runs_max // 2 + 1]
        packing, cursor = Packing(self._index.part_max), self._cursor
        try:
            readers = [(run, await self._reader(stores, run)) for run in runs]
            rows = merged(readers, lambda position: not cursor.is_acknowledged(position))
            ledger_id = await stores.write(packing.of(rows))
        except _LOST as error:
            log.info("delay index is not merged cursor=%s: %s", cursor.name, error)
            await asyncio.sleep(MERGE_AGAIN_S)  # whoever needs what is lost will see to it
            return
        over_ms = max(run.taken_ms for run in runs)
        waiting = [at_ms for run in runs if (at_ms := run.next_ms) is not None]
        if waiting and min(waiting) <= over_ms:
            stores.discard(ledger_id)
            await asyncio.sleep(MERGE_AGAIN_S)
            return
        left = [run for run in self._index.runs if run not in runs]
        if packing.ends:
            new = Run(packing.firsts, packing.ends, packing.last)
            new.ledger_id = ledger_id
            new.begin_behind(over_ms)
            left.append(new)
        else:
            stores.discard(ledger_id)
        self._index.runs = left
        self.tend()
        await self._put(stores)
