"""A backup of a cluster into a folder; the manifest, which makes the folder a backup, is left to the caller."""

from engine.backup.backup_manifest import BackupManifest
from engine.backup.part_files import PART_BYTES, PartWriter
from engine.backup.saving import Progress, Saver
from engine.base.clock import Clock
from engine.base.disk.files import Disk, Lane
from engine.base.entropy import Entropy
from engine.ledger.client import LedgerClient
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError


async def save_cluster(
    store: MetadataStore,
    ledgers: LedgerClient,
    *,
    disk: Disk,
    lane: Lane,
    clock: Clock,
    entropy: Entropy,
    folder: str,
    release: str,
    progress: Progress = lambda counts: None,
    part_bytes: int = PART_BYTES,
) -> BackupManifest:
    """Save a cluster into an empty folder that exists, synced, and return the manifest to be written.

    Raises BackupError, IncompleteStoreError, the store's errors, OSError; the folder's files are of no use then.
    """
    began_ms = clock.wall_ms()
    writer = PartWriter(disk, lane, folder, part_bytes)
    saver = Saver(store, ledgers, writer, progress)
    counts = await saver.save()
    await writer.close()
    return BackupManifest(
        backup_id=entropy.hex(16),
        release=release,
        began_ms=began_ms,
        ended_ms=clock.wall_ms(),
        instance_id=await _instance_id(store),
        bookies=len(await _children(store, paths.COOKIES)),
        counts=counts,
        parts=len(writer.sums),
        files=dict(writer.sums),
        missing=tuple(saver.missing),
        moved=saver.moved,
    )


async def _instance_id(store: MetadataStore) -> str:
    try:
        return (await store.get(paths.INSTANCE_ID))[0].decode(errors="replace").strip()
    except NoNodeError:
        return ""


async def _children(store: MetadataStore, path: str) -> list[str]:
    try:
        return await store.children(path)
    except NoNodeError:
        return []
