"""Administrative operations on tiered storage."""

from engine.admin.api.arguments import JsonObject
from engine.admin.api.brokers import SCAN_OBJECTS, ScanObjects
from engine.admin.api.topics import TIERS, TierQuestion
from engine.base.clock import Clock
from engine.base.errors import Failed
from engine.broker.administration.operations.owned_topics import OwnedTopics
from engine.broker.administration.tiers.orphan_removal import OrphanRemoval
from engine.broker.administration.tiers.tier_report import (
    policy_document,
    prices,
    state_document,
    tiers,
)
from engine.managed.errors import StoredRecordError
from engine.offload.settings import OffloadSettings
from engine.rpc.operation import Handlers, bind


class TierOperations:
    """Handlers of TIERS and SCAN_OBJECTS."""

    def __init__(
        self, topics: OwnedTopics, removal: OrphanRemoval, settings: OffloadSettings, clock: Clock
    ) -> None:
        self._topics = topics
        self._removal = removal
        self._settings = settings
        self._clock = clock

    @property
    def handlers(self) -> Handlers:
        return dict([bind(TIERS, self.tiers), bind(SCAN_OBJECTS, self.scan_objects)])

    async def tiers(self, args: TierQuestion) -> JsonObject:
        log = (await self._topics.persistent(args.topic, "Tiered storage")).log
        now_ms, policy = self._clock.wall_ms(), log.offload_policy
        state = state_document(log.offload_status, log.offload_progress, log.offload_read_error)
        return {
            "at": now_ms,
            "policy": policy_document(policy),
            **prices(self._settings),
            "state": state,
            **tiers(log.stats().ledgers, policy, args.threshold_bytes, args.threshold_s, now_ms),
        }

    async def scan_objects(self, args: ScanObjects) -> JsonObject:
        try:
            return {"buckets": await self._removal.scan(args.age_s, remove=args.remove)}
        except StoredRecordError as error:
            raise Failed(f"nothing is known of the buckets: {error}") from error
