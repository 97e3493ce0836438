"""Checks before a bookie serves: whose the disks are, whether they are set up, and what they hold."""

import logging
from collections.abc import Callable

from bookie.cookies import (
    IdentityError,
    check_cookie,
    cookie_text,
    expand_cookie,
    read_local_cookies,
    reduced_cookie,
    write_cookie,
    write_local_cookies,
)
from bookie.settings import BookieSettings
from bookie.storage.logs.log_files import log_ids
from bookie.storage.recover import Limits, Storage, format_storage, open_storage
from engine.base.disk.index_disk import IndexDisk
from engine.metadata.store import MetadataStore

log = logging.getLogger(__name__)


class Directories:
    """The directories of one bookie: ``journal`` and ``ledgers``. The first ledger directory holds index and
    manifest."""

    def __init__(self, disk: IndexDisk, settings: BookieSettings) -> None:
        self._disk = disk
        self._settings = settings
        self.journal = f"{settings.journal_root}/current"
        self.ledgers = [f"{root}/current" for root in settings.ledger_roots]

    @property
    def all(self) -> list[str]:
        return [self.journal, *self.ledgers]

    def make(self) -> None:
        for directory in self.all:
            self._disk.makedirs(directory)

    def are_new(self) -> bool:
        """Return whether no directory has a cookie."""
        return not any(read_local_cookies(self._disk, self.all))

    def cookie(self, bookie_id: str, instance_id: str) -> bytes:
        settings = self._settings
        roots = [settings.named(root) for root in settings.ledger_roots]
        return cookie_text(bookie_id, settings.named(settings.journal_root), roots, instance_id)

    async def identify(self, store: MetadataStore, bookie_id: str, cookie: bytes) -> None:
        """Check that these are the disks of ``bookie_id``; set them up when neither they nor the store were used.

        Raises IdentityError, store errors, OSError. A first start that was interrupted is completed by the next.
        """
        disk, home = self._disk, self.ledgers[0]
        # Exists from before the cookie is in the store until the disks are set up.
        unfinished = f"{home}/formatting"
        if not disk.exists(unfinished):
            local = read_local_cookies(disk, self.all)
            if self._settings.allow_storage_expansion and await self._expand(
                store, bookie_id, cookie, local
            ):
                return
            if self._settings.allow_lost_directories and await self._reduce(
                store, bookie_id, cookie, local
            ):
                return
            if not await check_cookie(store, bookie_id, cookie, local):
                return
            self._must_be_empty(self.ledgers)
            file = disk.open(unfinished, create=True)
            file.fdatasync()
            file.close()
            disk.sync_dir(home)
        await write_cookie(store, bookie_id, cookie)
        write_local_cookies(disk, self.all, cookie)
        format_storage(disk, self.journal, self.ledgers, index_identity(cookie))
        disk.remove(unfinished)
        disk.sync_dir(home)

    async def _expand(
        self, store: MetadataStore, bookie_id: str, cookie: bytes, local: list[bytes | None]
    ) -> bool:
        """Add ledger directories that the stored cookie does not name; return False when there are none."""
        extension = await expand_cookie(
            store, bookie_id, cookie, dict(zip(self.all, local, strict=True))
        )
        if extension is None:
            return False
        stat_version, added = extension
        self._must_be_empty(added)
        # The store last: until then the next start repeats all steps.
        write_local_cookies(self._disk, [*added, *self.all], cookie)
        await write_cookie(store, bookie_id, cookie, version=stat_version)
        log.info("ledger directories added: %s", ", ".join(added))
        return True

    async def _reduce(
        self, store: MetadataStore, bookie_id: str, cookie: bytes, local: list[bytes | None]
    ) -> bool:
        """Leave out ledger directories that the stored cookie names; return False when it names no others."""
        version = await reduced_cookie(store, bookie_id, cookie, local)
        if version is None:
            return False
        write_local_cookies(self._disk, self.all, cookie)
        await write_cookie(store, bookie_id, cookie, version=version)
        log.warning("ledger directories are left out, what they held is lost here")
        return True

    def _must_be_empty(self, directories: list[str]) -> None:
        for directory in directories:
            if log_ids(self._disk, directory):
                raise IdentityError(
                    f"{directory} holds entry logs but no cookie: it is some bookie's; move them away first"
                )

    def open(self, cookie: bytes, draw_salt: Callable[[], int]) -> Storage:
        """Open the storage and replay the journal; synchronous, for a lane. Raises DamagedError, OSError."""
        settings = self._settings
        limits = Limits(
            journal_file_bytes=settings.journal_file_bytes,
            journal_direct=settings.journal_direct,
            generation_bytes_max=settings.write_cache_bytes // 2,
            entry_log_bytes_max=settings.entry_log_bytes_max,
            entry_log_direct=settings.entry_log_direct,
            block_bytes_max=settings.entry_log_block_bytes_max,
            read_cache_bytes_max=settings.read_cache_bytes,
            journal_backups_max=settings.journal_max_backups,
        )
        return open_storage(
            self._disk,
            self.journal,
            self.ledgers,
            index_identity(cookie),
            limits,
            draw_salt,
            accept_loss=settings.accept_journal_loss,
        )


def index_identity(cookie: bytes) -> bytes:
    """Return the part of a cookie that the index stores: bookie and cluster, without the directories, which may
    grow."""
    lines = cookie.decode().splitlines()
    identity_lines = [line for line in lines if line.startswith(("bookieHost:", "instanceId:"))]
    return "\n".join(identity_lines).encode()
