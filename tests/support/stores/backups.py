"""Clusters of one process that are backed up and restored: folders in memory or on a disk, and a lane that works at
once."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from engine.backup.backup_manifest import BackupManifest, Counts, write_manifest
from engine.backup.cluster_backup import save_cluster
from engine.backup.contents import Contents
from engine.backup.restoring import Restorer
from engine.base.disk.files import Disk, Parts, Written
from engine.base.entropy import RandomEntropy
from engine.metadata.store import MetadataStore
from tests.sim.kit.disk import FaultDisk
from tests.support.managed_cluster import Brokers

T = TypeVar("T")
FOLDER = "/backup"


class DirectLane:
    """A lane that works at once and passes every error on, a crash of the disk included."""

    def run(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)
        return future

    def call(
        self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]
    ) -> None:
        raise NotImplementedError

    def write(self, file: object, parts: Parts, offset: int, done: Written) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


async def save(
    brokers: Brokers,
    disk: Disk,
    store: MetadataStore | None = None,
    progress: Callable[[Counts], None] = lambda counts: None,
    part_bytes: int = 2000,
) -> BackupManifest:
    """Back the cluster up into FOLDER of ``disk``."""
    own = brokers.cluster.server.session(10.0) if store is None else store
    disk.makedirs(FOLDER)
    manifest = await save_cluster(
        own,
        brokers.cluster.client(store=own),
        disk=disk,
        lane=DirectLane(),
        clock=brokers.cluster.clock,
        entropy=RandomEntropy(),
        folder=FOLDER,
        release="1",
        progress=progress,
        part_bytes=part_bytes,
    )
    await write_manifest(disk, DirectLane(), FOLDER, manifest)
    return manifest


async def checked(disk: Disk) -> Contents:
    """Return the backup in FOLDER of ``disk``, checked."""
    contents = await Contents.open(disk, DirectLane(), FOLDER)
    await contents.check()
    return contents


async def restore(brokers: Brokers, disk: Disk, store: MetadataStore | None = None) -> Counts:
    """Restore the backup in FOLDER of ``disk`` into the cluster."""
    own = brokers.cluster.server.session(10.0) if store is None else store
    return await Restorer(await checked(disk), own, brokers.cluster.client(store=own)).restore()


def is_backup(disk: FaultDisk) -> bool:
    return disk.exists(f"{FOLDER}/manifest.json")
