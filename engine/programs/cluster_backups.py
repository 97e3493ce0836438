"""Backups of a running cluster's metadata and ledgers, with the settings of its brokers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.backup.backup_manifest import BackupManifest, write_manifest
from engine.backup.cluster_backup import save_cluster
from engine.backup.contents import Contents
from engine.backup.errors import BackupError
from engine.backup.moved_ledgers import check_moved
from engine.backup.part_files import FileSum, sum_of
from engine.backup.restoring import Progress as RestoreProgress
from engine.backup.restoring import Restorer
from engine.backup.saving import Progress as SaveProgress
from engine.base.clock import SystemClock
from engine.base.disk.files import Lane, SystemDisk, ThreadLane
from engine.base.entropy import RandomEntropy
from engine.base.loop import EventLoop
from engine.base.settings import Program
from engine.ledger.client import LedgerClient
from engine.ledger.settings import LedgerSettings
from engine.metadata.settings import MetadataSettings
from engine.metadata.store import MetadataStore
from engine.net.network import LoopNetwork
from engine.offload.settings import OffloadSettings
from engine.offload.stores.obstore_stores import ConfiguredStores
from engine.programs.process import StartError
from engine.programs.program import connect

T = TypeVar("T")
SESSION_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """The groups by which a cluster is reached."""

    metadata: MetadataSettings
    ledger: LedgerSettings
    offload: OffloadSettings


PROGRAM = Program("broker", BackupSettings, partial=True)
"""Read as brokers read them: a backup uses the same stores and bookies."""


def load(environ: Mapping[str, str], directory: Path) -> BackupSettings:
    """Load the settings. Raises SettingsError."""
    return PROGRAM.load(environ, directory)


@asynccontextmanager
async def _cluster(settings: BackupSettings) -> AsyncIterator[tuple[MetadataStore, LedgerClient]]:
    """Yield the metadata store and a ledger client. Raises BackupError when the store cannot be reached."""
    # kazoo reports each attempt to connect; the command reports the outcome, in one line.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL + 1)
    try:
        async with connect(settings.metadata, SESSION_TIMEOUT_S) as store:
            ledgers = LedgerClient(
                store=store,
                network=LoopNetwork(),
                clock=SystemClock(),
                entropy=RandomEntropy(),
                settings=settings.ledger,
            )
            try:
                yield store, ledgers
            finally:
                await ledgers.close()
    except StartError as error:
        raise BackupError(str(error)) from error


def _run(work: Callable[[Lane], Coroutine[Any, Any, T]]) -> T:
    """Run ``work`` with a lane for files on an event loop of its own."""

    async def run() -> T:
        lane = ThreadLane("backup")
        try:
            return await work(lane)
        finally:
            lane.close()

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(run())


def save(
    settings: BackupSettings, folder: Path, release: str, progress: SaveProgress
) -> BackupManifest:
    """Save the cluster into an empty folder and return the manifest, which is not written yet.

    Raises MagnetarError, OSError.
    """

    async def run(lane: Lane) -> BackupManifest:
        async with _cluster(settings) as (store, ledgers):
            return await save_cluster(
                store,
                ledgers,
                disk=SystemDisk(),
                lane=lane,
                clock=SystemClock(),
                entropy=RandomEntropy(),
                folder=str(folder),
                release=release,
                progress=progress,
            )

    return _run(run)


def check(folder: Path, settings: BackupSettings | None = None) -> BackupManifest:
    """Check all of a backup and return its manifest. Raises BackupError.

    With ``settings`` the ledgers that are only in tiered storage must be there. Raises RestoreError then.
    """

    async def run(lane: Lane) -> BackupManifest:
        contents = await Contents.open(SystemDisk(), lane, str(folder))
        await contents.check()
        if settings is not None:
            await check_moved(contents, _stores(settings))
        return contents.manifest

    return _run(run)


def _stores(settings: BackupSettings) -> ConfiguredStores:
    policy = settings.offload.policy
    return ConfiguredStores(None if policy is None else policy.bucket)


def restore(
    settings: BackupSettings, folder: Path, progress: RestoreProgress, *, objects: bool = True
) -> BackupManifest:
    """Check a backup, restore it into an empty cluster, compare both, and return the manifest.

    With ``objects`` the ledgers that are only in tiered storage must be there. Raises MagnetarError, OSError; the same
    call continues.
    """

    async def run(lane: Lane) -> BackupManifest:
        contents = await Contents.open(SystemDisk(), lane, str(folder))
        await contents.check()
        if objects:
            await check_moved(contents, _stores(settings))
        async with _cluster(settings) as (store, ledgers):
            await Restorer(contents, store, ledgers, progress).restore()
        return contents.manifest

    return _run(run)


def file_sum(path: Path) -> FileSum:
    """Return size and SHA-256 of a file. Raises OSError."""
    return _run(lambda lane: sum_of(SystemDisk(), lane, str(path)))


def seal(folder: Path, manifest: BackupManifest) -> None:
    """Make the folder a backup; its other files must be synced. Raises OSError."""
    _run(lambda lane: write_manifest(SystemDisk(), lane, str(folder), manifest))
