"""A bookie that is to die, alone below a chroot of its own, and the ledgers on it."""

import asyncio
import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from engine.ledger.errors import LedgerError
from engine.metadata.store import MetadataStore, SessionExpiredError, StoreUnavailableError
from tests.crash.kit.lossy_disk import LAST_WORDS, Plan
from tests.crash.kit.processes import NOTHING, BookieProcess
from tests.crash.ledgers import LedgerLoad

REACH_S = 40.0
SMALL = {
    "journal_file_bytes": str(128 << 10),
    "write_cache_bytes": str(128 << 10),
    "entry_log_bytes_max": str(256 << 10),
    "entry_log_block_bytes_max": str(8 << 10),
    "flush_interval_s": "0.1",
    "gc_wait_time_s": "0.1",
    "minor_compaction_interval_s": "0.2",
    "major_compaction_interval_s": "0.2",
    "major_compaction_threshold": "0.95",
    "disk_check_interval_s": "5",
}


class Place:
    """A bookie below a chroot of its own, and its load."""

    def __init__(
        self, directory: Path, hosts: str, store: MetadataStore, name: str, seed: int
    ) -> None:
        self.load = LedgerLoad(store, seed)
        self.lives = 0
        self.entries = 0
        self.fences = 0
        self.store = store
        self.bookie = BookieProcess(name, directory, f"zk:{hosts}/{name}", **SMALL)

    async def start(self, plan: Plan = NOTHING) -> None:
        """Start it and wait until it serves."""
        await self._begin(plan)
        assert self.bookie.alive, f"{plan}\n{self.bookie.log_end()}"

    async def dies_starting(self, plan: Plan) -> bool:
        """Start it to be killed before it serves; False, and it is ended, when it came to serve."""
        await self._begin(plan)
        if self.bookie.alive:
            self.bookie.end()
            return False
        assert self.words()["operation"] == plan.operation, self.bookie.log_end()
        self.lives += 1
        return True

    async def _begin(self, plan: Plan) -> None:
        """Start it and wait until it serves or is dead."""
        self.bookie.plan(plan)
        self.bookie.start()
        until = time.monotonic() + REACH_S
        while not await asyncio.to_thread(self.bookie.is_ready):
            assert time.monotonic() < until, self.bookie.log_end()
            if not self.bookie.alive:
                if not self.bookie.met_a_silent_store():
                    break
                self.bookie.start()
            await asyncio.sleep(0.02)

    async def write_until_dead(self) -> int:
        """Exit status of the bookie."""
        writing = asyncio.create_task(self._write_on())
        try:
            status = await asyncio.to_thread(self.bookie.wait, REACH_S)
        except subprocess.TimeoutExpired:
            why = repr(writing.exception()) if writing.done() else "it lives on"
            raise AssertionError(f"never reached: {self.bookie.planned}: {why}") from None
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        return status

    async def _write_on(self) -> None:
        """Write until the bookie is dead. On a busy machine a live one may answer too late, which ends its ledgers, and
        so may the metadata store, which ends the session of their writer."""
        while self.bookie.alive:
            try:
                await self.load.write()
            except* (LedgerError, SessionExpiredError, StoreUnavailableError):
                await asyncio.sleep(0.02)

    async def life(self, plan: Plan) -> None:
        """Start, verify what earlier lives left, then write until the plan ends it."""
        await self.start(plan)
        await self.verify()
        self.bookie.arm()
        assert await self.write_until_dead() == -signal.SIGKILL, self.bookie.log_end()
        assert self.words()["operation"] == plan.operation
        self.lives += 1

    async def verify(self) -> None:
        """Fences first: reading recovers, and fences again. It is repeated when the metadata store was silent."""
        self.fences += await self.load.verify_fences(self.bookie.port)
        until = time.monotonic() + REACH_S
        while True:
            try:
                self.entries += await self.load.verify()
            except (SessionExpiredError, StoreUnavailableError):
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.1)
            else:
                return

    def words(self) -> dict[str, Any]:
        """Return what a bookie process reported before its end."""
        path = self.bookie.data_dir / "kept" / LAST_WORDS
        return dict(json.loads(path.read_text())) if path.exists() else {}
