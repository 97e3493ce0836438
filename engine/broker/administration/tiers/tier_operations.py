"""Administrative operations on tiered storage."""

from engine.admin.api.arguments import JsonObject, OnBundle
from engine.admin.api.brokers import SCAN_LEDGERS, SCAN_OBJECTS, ScanObjects
from engine.admin.api.topics import TIERS, TierQuestion
from engine.base.clock import Clock
from engine.base.errors import Failed, PreconditionFailed
from engine.broker.administration.operations.owned_topics import OwnedTopics
from engine.broker.administration.tiers.ledger_scan import scan_namespace
from engine.broker.administration.tiers.orphan_removal import OrphanRemoval
from engine.broker.administration.tiers.tier_report import (
    policy_document,
    prices,
    read_error_of,
    state_document,
    tiers,
)
from engine.managed.errors import StoredRecordError
from engine.metadata.store import MetadataStore
from engine.offload.errors import OffloadError
from engine.offload.settings import OffloadSettings
from engine.rpc.operation import Handlers, bind
from engine.tenancy.namespaces import get_policies


class TierOperations:
    """Handlers of TIERS, SCAN_OBJECTS and SCAN_LEDGERS."""

    def __init__(
        self,
        topics: OwnedTopics,
        removal: OrphanRemoval,
        settings: OffloadSettings,
        clock: Clock,
        store: MetadataStore,
    ) -> None:
        self._store = store
        self._topics = topics
        self._removal = removal
        self._settings = settings
        self._clock = clock

    @property
    def handlers(self) -> Handlers:
        return dict(
            [
                bind(TIERS, self.tiers),
                bind(SCAN_OBJECTS, self.scan_objects),
                bind(SCAN_LEDGERS, self.scan_ledgers),
            ]
        )

    async def tiers(self, args: TierQuestion) -> JsonObject:
        log = (await self._topics.persistent(args.topic, "Tiered storage")).log
        now_ms, policy = self._clock.wall_ms(), log.offload_policy
        ledgers = log.stats().ledgers
        read_error = read_error_of(ledgers, log.offload_read_error)
        state = state_document(log.offload_status, log.offload_progress, read_error)
        return {
            "at": now_ms,
            "policy": policy_document(policy),
            **prices(self._settings),
            "state": state,
            **tiers(ledgers, policy, args.threshold_bytes, args.threshold_s, now_ms),
        }

    async def scan_objects(self, args: ScanObjects) -> JsonObject:
        try:
            return {"buckets": await self._removal.scan(args.age_s, remove=args.remove)}
        except StoredRecordError as error:
            raise Failed(f"nothing is known of the buckets: {error}") from error

    async def scan_ledgers(self, args: OnBundle) -> JsonObject:
        await get_policies(self._store, args.namespace)
        tiered = self._removal.tiered
        if tiered is None:
            raise PreconditionFailed("No tiered storage is configured here")
        try:
            return await scan_namespace(self._store, tiered, args.namespace)
        except (OffloadError, StoredRecordError) as error:
            raise Failed(f"the offloaded ledgers of {args.namespace}: {error}") from error
