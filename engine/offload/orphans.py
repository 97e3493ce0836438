"""Objects of a bucket that no record names: found by comparing the bucket with the records, and deleted.

A broker stores the id of an attempt before it writes an object of that id, and never uses the id again. So an object
that is older than the scan's bound, and that no record names afterwards, is named by none in future. The bucket is
listed first, the records are read after that (U5). The bound exceeds what clocks may differ by, and what a server of
the metadata store may be behind.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from engine.offload.errors import MissingObjectError
from engine.offload.object_names import CLUSTER, ObjectName, object_name_of
from engine.offload.object_store import BucketObject, ObjectStore

log = logging.getLogger(__name__)


@dataclass(slots=True)
class OrphanScan:
    """Result of one scan of a bucket. Bytes and objects are those of data and indexes together."""

    objects: int = 0
    bytes: int = 0
    others: int = 0
    """Objects of other names, which are left alone."""
    foreign: int = 0
    """Objects that no record names and that another cluster wrote, which are left alone."""
    young: int = 0
    """Objects that are too new for a verdict."""
    orphans: dict[ObjectName, list[BucketObject]] = field(default_factory=dict)

    @property
    def orphan_bytes(self) -> int:
        return sum(object.size for objects in self.orphans.values() for object in objects)


async def find_orphans(
    store: ObjectStore,
    named: Callable[[], Awaitable[Collection[ObjectName]]],
    *,
    cluster: str,
    older_than_ms: int,
) -> OrphanScan:
    """Return the objects of ``store`` last written before ``older_than_ms`` that ``cluster`` wrote and that none of
    the records names. ``named`` reads these. In a store without attributes every object counts as the cluster's.

    Raises ObjectStoreError and the errors of ``named``; nothing is known then.
    """
    scan = OrphanScan()
    old: dict[ObjectName, list[BucketObject]] = {}
    async for listed in store.listed():
        name = object_name_of(listed.key)
        if name is None:
            scan.others += 1
            continue
        scan.objects += 1
        scan.bytes += listed.size
        if listed.modified_ms >= older_than_ms:
            scan.young += 1
        else:
            old.setdefault(name, []).append(listed)
    known = await named()
    for name, objects in old.items():
        if name in known:
            continue
        if not store.keeps_attributes or await _is_of(store, objects[0].key, cluster):
            scan.orphans[name] = objects
        else:
            scan.foreign += len(objects)
    return scan


async def _is_of(store: ObjectStore, key: str, cluster: str) -> bool:
    """Return whether ``cluster`` wrote the object; False when it has gone meanwhile."""
    try:
        attributes: Mapping[str, str] = await store.attributes(key)
    except MissingObjectError:
        return False
    return {name.lower(): value for name, value in attributes.items()}.get(CLUSTER) == cluster


async def remove_orphans(store: ObjectStore, scan: OrphanScan) -> None:
    """Delete the orphans of a scan, each index before its data. Raises ObjectStoreError; the rest remains then."""
    for name in scan.orphans:
        log.info("an object that no topic names is deleted object=%s", name.data_key)
        await store.delete([name.index_key, name.data_key])
