"""Snapshots while the server runs: when one is due, and its steps between the turns of the loop."""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial

from engine.base.disk.files import Disk, Lane
from engine.metadata.server.changes import Change
from engine.metadata.server.machine import Machine
from engine.metadata.server.serving.group_commit import GroupCommit
from engine.metadata.server.storage.metadata_log import LogFullError
from engine.metadata.server.storage.snapshot_files import SnapshotWriter, Stored

log = logging.getLogger(__name__)

RETRY_S = 60.0
"""Time after a snapshot that failed."""
SLICE_NODES, SLICE_BYTES = 500, 512 << 10
"""Nodes and bytes of data that are copied in one turn of the loop, and written as one block, at most."""
QUICK_NODES = 10_000
"""Nodes up to which a stop takes a snapshot."""
SEGMENTS_MAX = 16


class SnapshotTaker:
    """Takes a snapshot whenever the log has become longer than ``log_bytes_min`` and than twice the last snapshot."""

    def __init__(
        self,
        machine: Machine,
        commits: GroupCommit,
        disk: Disk,
        directory: str,
        lane: Lane,
        *,
        log_bytes_min: int,
        stored: Stored,
    ) -> None:
        self._machine = machine
        self._commits = commits
        self._disk = disk
        self._directory = directory
        self._lane = lane
        self._log_bytes_min = log_bytes_min
        self._segments = stored.segments + 1
        self._due = asyncio.Event()
        self.size = stored.snapshot_bytes
        """Size of the last snapshot; 0 without one."""
        commits.on_group = self._check
        self._check()

    async def run(self) -> None:
        """Take snapshots when they are due, until cancelled."""
        while True:
            await self._due.wait()
            if not await self._taken():
                await asyncio.sleep(RETRY_S)
            self._due.clear()
            self._check()

    def _check(self) -> None:
        """Look whether a snapshot is due; called after each group."""
        log_bytes_max = max(self._log_bytes_min, 2 * self.size)
        if self._commits.log_bytes > log_bytes_max or self._segments > SEGMENTS_MAX:
            self._due.set()

    async def take_if_quick(self) -> None:
        """Take a snapshot at a stop, so that the next start has no log to read, if the tree is small."""
        if self._commits.log_bytes and self._machine.tree.node_count() <= QUICK_NODES:
            await self._taken()

    async def _taken(self) -> bool:
        """Take a snapshot; return False when that failed, which loses nothing: the log has everything."""
        try:
            await self.take()
        except (LogFullError, OSError) as error:
            log.warning("took no snapshot, the log goes on: %s", error)
            return False
        return True

    async def take(self) -> None:
        """Take a snapshot. Raises LogFullError and OSError. A cancelled one leaves a temporary file."""
        segment, (paths, sessions) = await self._commits.roll(self._capture)
        self._segments += 1
        log_bytes = self._commits.log_bytes
        writer = await self._lane.run(partial(SnapshotWriter, self._disk, self._directory, segment))
        try:
            await self._lane.run(partial(writer.write, sessions))
            for block in self._blocks(paths):
                await self._lane.run(partial(writer.write, block))
            # A node may have been copied with a change that is not durable yet (Z8).
            await self._commits.until_durable(self._commits.showing(None))
            await self._lane.run(writer.finish)
        except OSError:
            await self._lane.run(writer.abandon)
            raise
        self.size = writer.size
        self._segments = 1
        self._commits.log_bytes -= log_bytes

    def close(self) -> None:
        self._lane.close()

    def _capture(self) -> tuple[list[str], list[Change]]:
        return self._machine.tree.paths(), [*self._machine.sessions.changes()]

    def _blocks(self, paths: list[str]) -> Iterator[list[Change]]:
        """Yield the nodes that still exist, in blocks."""
        block: list[Change] = []
        data_bytes = 0
        for path in paths:
            put = self._machine.tree.put_of(path)
            if put is None:
                continue  # its deletion is in the log
            block.append(put)
            data_bytes += len(put.data or b"")
            if len(block) >= SLICE_NODES or data_bytes >= SLICE_BYTES:
                yield block
                block, data_bytes = [], 0
        yield block
