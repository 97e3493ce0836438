"""Observation of the disks: how full each is, which may hold new entry logs, when the bookie must be read-only, and
whether the directories are still its own."""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from bookie.cookies import read_local_cookies
from bookie.settings import BookieSettings
from bookie.storage.errors import DamagedError
from bookie.storage.logs.log_files import LogFiles
from bookie.storage.write_cache import WriteCache
from engine.base.disk.files import Disk, Lane

log = logging.getLogger(__name__)

UNFLUSHED_SHARE = 8
"""Divisor for a write cache generation: it holds at most this part of the free space of the roomiest disk, so that
everything not in entry logs yet, and a replay of it after a crash, fit there."""
GENERATION_BYTES_MIN = 64 << 10


class Space(NamedTuple):
    """Bytes of one directory's file system."""

    free: int
    total: int

    @property
    def usage(self) -> float:
        return 1 - self.free / max(self.total, 1)


class Disks:
    """The state of all directories. One task runs ``run``; ``on_change(read_only, reason)`` is called on the loop after
    every check."""

    def __init__(
        self,
        disk: Disk,
        lane: Lane,
        settings: BookieSettings,
        journal_dir: str,
        logs: LogFiles,
        cache: WriteCache,
        cookie: bytes,
        on_change: Callable[[bool, str], None],
    ) -> None:
        self._disk = disk
        self._lane = lane
        self._settings = settings
        self._journal_dir = journal_dir
        self._logs = logs
        self._cache = cache
        self._generation_bytes_max = cache.generation_bytes_max
        self.cookie = cookie
        self._on_change = on_change
        self._due = asyncio.Event()
        self._spaces: dict[str, Space] = {}

    @property
    def space(self) -> tuple[int, int]:
        """Free and total bytes of the ledger directories at the last check."""
        spaces = [self._space(directory) for directory in self._logs.directories]
        return sum(space.free for space in spaces), sum(space.total for space in spaces)

    @property
    def usage(self) -> float:
        """The share in use of the fullest directory, 0 to 1, at the last check."""
        return max((space.usage for space in self._spaces.values()), default=0.0)

    @property
    def free_bytes(self) -> int:
        """Free bytes of the roomiest ledger directory."""
        return max(self._space(directory).free for directory in self._logs.directories)

    def _space(self, directory: str) -> Space:
        """Return a directory's space at the last check; zeros before the first."""
        return self._spaces.get(directory, Space(0, 0))

    @property
    def all_full(self) -> bool:
        """True when no directory may hold new logs except those that free others."""
        return all(directory in self._logs.full for directory in self._logs.directories)

    def reserve_bytes(self, directory: str) -> int:
        """Return the bytes that normal adds must leave free: for compaction, replay and recovery adds (I31, B9)."""
        settings = self._settings
        configured = settings.min_usable_size_for_entry_log_creation
        if configured:
            return configured
        return min(settings.entry_log_bytes_max * 6 // 5, self._spaces[directory].total // 10)

    def has_room(self) -> bool:
        """Return whether high-priority adds are accepted although the bookie is read-only."""
        journal = self._space(self._journal_dir).free
        return (
            min(journal, self.free_bytes) > self._settings.min_usable_size_for_high_priority_writes
        )

    def check_soon(self) -> None:
        """Request a check, because something was written."""
        self._due.set()

    async def run(self) -> None:
        """Check periodically until cancelled. Raises DamagedError when a directory is no longer this bookie's."""
        while True:
            try:
                async with asyncio.timeout(self._settings.disk_check_interval_s):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            await self.check()

    async def check(self) -> None:
        """Check once. A ledger directory whose disk failed is taken out. Raises DamagedError, OSError."""
        self._spaces = await self._lane.run(self._read_spaces)
        full: dict[str, None] = {}
        for directory in self._logs.directories:
            if self._is_full(directory, was=directory in self._logs.full):
                full[directory] = None
        if full != self._logs.full and len(self._logs.directories) > 1:
            log.warning("full ledger directories: %s", ", ".join(full) or "none")
        self._logs.full = full
        self._cache.generation_bytes_max = max(
            min(self._generation_bytes_max, self.free_bytes // UNFLUSHED_SHARE),
            GENERATION_BYTES_MIN,
        )
        self._decide(full)

    def _decide(self, full: dict[str, None]) -> None:
        journal = self._spaces[self._journal_dir].usage
        any_counts = self._settings.read_only_mode_on_any_disk_full_enabled
        if journal >= self._settings.disk_usage_threshold:
            self._on_change(True, f"disk usage of {self._journal_dir} {journal:.3f}")
        elif full and (any_counts or len(full) == len(self._logs.directories)):
            states = [
                f"{directory} {self._spaces[directory].usage:.3f} free={self._spaces[directory].free}"
                for directory in full
            ]
            self._on_change(True, f"disk usage of {', '.join(states)}")
        elif not self._index_has_room():
            home = self._logs.directories[0]
            self._on_change(True, f"no room for the index in {home} free={self._spaces[home].free}")
        elif journal < self._settings.disk_usage_lwm_threshold:
            self._on_change(False, "there is room")

    def _index_has_room(self) -> bool:
        """Return whether the index's disk has room for normal adds. RocksDB needs a restart after it ran into a full
        disk."""
        space = self._spaces[self._logs.directories[0]]
        configured = self._settings.min_usable_size_for_index_file_creation
        return space.free >= min(configured, space.total // 20)

    def _is_full(self, directory: str, *, was: bool) -> bool:
        space = self._spaces[directory]
        settings = self._settings
        limit = settings.disk_usage_lwm_threshold if was else settings.disk_usage_threshold
        return space.usage >= limit or space.free < self.reserve_bytes(directory)

    def _read_spaces(self) -> dict[str, Space]:
        self._logs.probe()
        spaces = {}
        for directory in [self._journal_dir, *self._logs.directories]:
            try:
                [cookie] = read_local_cookies(self._disk, [directory])
                space = Space(self._disk.free_bytes(directory), self._disk.total_bytes(directory))
            except OSError as error:
                if not self._logs.fail(directory, error):
                    raise
                continue
            if cookie != self.cookie:
                raise DamagedError(
                    f"{directory} is no longer this bookie's: its cookie is missing or different"
                )
            spaces[directory] = space
        return spaces
