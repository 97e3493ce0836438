"""Removal of objects that no topic names, from the buckets of this broker's settings and of all topics, on request and
at an interval while this broker leads."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from engine.admin.api.arguments import JsonObject
from engine.base.clock import Clock
from engine.base.errors import MagnetarError
from engine.managed.stored.object_references import named_objects
from engine.metadata.store import MetadataStore
from engine.offload.bucket import Bucket
from engine.offload.errors import OffloadError
from engine.offload.object_names import ObjectName
from engine.offload.orphans import find_orphans, remove_orphans
from engine.offload.settings import OffloadSettings
from engine.offload.tiered_storage import TieredStorage

log = logging.getLogger(__name__)

IDLE_S = 60.0
"""Pause after which the interval is read again while it is 0."""


class OrphanRemoval:
    """Scans of all buckets by one broker of ``cluster``. ``run`` never returns."""

    def __init__(
        self,
        store: MetadataStore,
        tiered: TieredStorage | None,
        settings: OffloadSettings,
        cluster: str,
        clock: Clock,
        leads: Callable[[], Awaitable[bool]],
    ) -> None:
        self._store = store
        self.tiered = tiered
        self._settings = settings
        self._cluster = cluster
        self._clock = clock
        self._leads = leads
        self._scanning = asyncio.Lock()
        self.removed = 0
        """Orphans that this broker removed since its start."""

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Remove orphans at each interval, if this broker leads. A failure is logged; nothing is removed then."""
        interval_s = self._settings.managed_ledger_offload_orphan_scan_interval_s
        while True:
            await sleep(interval_s or IDLE_S)
            try:
                if interval_s and await self._leads():
                    await self.scan(self._settings.managed_ledger_offload_orphan_age_s, remove=True)
            except Exception as error:
                expected = isinstance(error, MagnetarError)
                log.warning(
                    "orphans not removed reason=%s", error, exc_info=None if expected else error
                )

    async def scan(self, age_s: int, *, remove: bool) -> list[JsonObject]:
        """Return what each bucket has, as SCAN_OBJECTS does; delete the orphans with ``remove``. A bucket that cannot
        be scanned has an ``error``. Raises StoredRecordError when a record cannot be read, the store's errors."""
        if self.tiered is None:
            return []
        async with self._scanning:
            buckets = (await named_objects(self._store)).buckets
            policy = self._settings.policy
            if policy is not None:
                buckets = {bucket for bucket in buckets if bucket.name} | {policy.bucket}
            return [
                await self._scan_bucket(self.tiered, bucket, age_s, remove)
                for bucket in sorted(buckets)
            ]

    async def _scan_bucket(
        self, tiered: TieredStorage, bucket: Bucket, age_s: int, remove: bool
    ) -> JsonObject:
        row: JsonObject = {"bucket": str(bucket), "error": ""}
        try:
            store = tiered.stores.open(bucket)
            scan = await find_orphans(
                store,
                self._names,
                cluster=self._cluster,
                older_than_ms=self._clock.wall_ms() - 1000 * age_s,
            )
            row |= {
                "objects": scan.objects,
                "bytes": scan.bytes,
                "young": scan.young,
                "foreign": scan.foreign,
                "others": scan.others,
                "orphans": sum(map(len, scan.orphans.values())),
                "orphanBytes": scan.orphan_bytes,
                "removed": False,
            }
            if remove:
                await remove_orphans(store, scan)
                self.removed += row["orphans"]
                row["removed"] = True
        except OffloadError as error:
            row["error"] = f"{error.trouble}: {error}"
        return row

    async def _names(self) -> Collection[ObjectName]:
        return (await named_objects(self._store)).names
