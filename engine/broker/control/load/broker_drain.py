"""Drain of one broker: it moves its bundles away for as long as an operator's mark stands (L10)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from engine.admin.api.bundles import Transferred
from engine.base.clock import Clock
from engine.base.errors import Conflict, MagnetarError
from engine.base.log import bound
from engine.base.names import BundleName
from engine.base.tasks import contained
from engine.metadata import paths
from engine.metadata.follow import MetadataFollower
from engine.metadata.records import Document
from engine.metadata.store import MetadataStore
from engine.ownership.load.bundle_changes import DRAIN, BundleChange, record_changes
from engine.ownership.load.draining import DrainMark, drain_marks, mark_draining
from engine.ownership.registration import live_brokers

MOVED_AT_ONCE = 4
"""Bundles that move at a time: clients reconnect in parts."""
AGAIN_S = 10.0
"""Seconds after which bundles that could not move are tried again."""
REASONS_MAX = 100
"""Bundles that the progress names with the reason for which they are still there."""
NO_PLACE = "no other broker that is not being drained may serve it"

Targets = Callable[[Iterable[BundleName]], Awaitable[Mapping[BundleName, str]]]
"""Chooses the next owners of bundles of this broker; those without an allowed broker are left out."""


class BrokerDrain:
    """Moves the bundles of one broker while it is marked. ``start`` must be called inside the running loop."""

    def __init__(
        self,
        store: MetadataStore,
        own_id: str,
        clock: Clock,
        owned: Callable[[], list[BundleName]],
        targets: Targets,
        transfer: Callable[[BundleName, str], Awaitable[Transferred]],
    ) -> None:
        self._store = store
        self._own_id = own_id
        self._clock = clock
        self._owned = owned
        self._targets = targets
        self._transfer = transfer
        self._confirmed: Mapping[BundleName, str] = {}
        """Destinations that an operator has confirmed, for the first attempt of each bundle."""
        self._mark: DrainMark | None = None
        self._moved = self._unloaded = 0
        self._refused: dict[BundleName, str] = {}
        self._follower = MetadataFollower(
            store, "drain", (paths.LOADBALANCE_DRAINING,), self.check, every_s=AGAIN_S
        )
        self._log = bound(__name__, broker=own_id)

    def start(self) -> None:
        self._follower.start()

    async def close(self) -> None:
        await self._follower.close()

    async def begin(self, destinations: Mapping[BundleName, str], by: str) -> DrainMark:
        """Mark this broker, whose bundles then move to ``destinations``, as an operator has confirmed them.

        Raises Conflict, and changes nothing, when these are not the bundles of this broker any more, a destination is
        not registered or drained itself, or no broker would be left for them. Raises the store's errors, after which
        the broker may be marked.
        """
        owned = self._owned()
        if set(owned) != destinations.keys():
            gained, lost = set(owned) - destinations.keys(), destinations.keys() - set(owned)
            raise Conflict(
                f"The bundles of {self._own_id} are not those of the preview: {len(gained)} were"
                f" acquired since, {len(lost)} were lost"
            )
        registered = await live_brokers(self._store)
        marks = await drain_marks(self._store)
        for destination in sorted({*destinations.values()} - {""}):
            if destination not in registered:
                raise Conflict(f"{destination} is not registered any more")
            if destination in marks:
                raise Conflict(f"{destination} is being drained, too")
        # Before the mark, because the check that follows it uses them.
        self._confirmed = {bundle: name for bundle, name in destinations.items() if name}
        mark = DrainMark(self._clock.wall_ms(), by)
        try:
            return await mark_draining(self._store, self._own_id, mark, registered)
        except Conflict:
            self._confirmed = {}
            raise

    async def check(self) -> None:
        """Move what can move, if this broker is marked. Raises the store's errors; cancel-safe."""
        mark = await self._read_mark()
        if mark is None:
            return
        bundles = self._owned()
        confirmed, self._confirmed = self._confirmed, {}
        others = [bundle for bundle in bundles if bundle not in confirmed]
        destinations = {**confirmed, **(await self._targets(others) if others else {})}
        gate = asyncio.Semaphore(MOVED_AT_ONCE)
        changes: list[BundleChange] = []
        refused = dict.fromkeys(bundles, "")
        self._refused = refused

        async def leave(bundle: BundleName) -> None:
            async with gate:
                with contained(f"drain of {bundle}"):
                    refused[bundle] = await self._leave(bundle, destinations.get(bundle), changes)
                if not refused[bundle]:
                    del refused[bundle]

        try:
            await asyncio.gather(*(leave(bundle) for bundle in bundles))
        finally:
            for bundle, reason in refused.items():
                self._log.info("bundle not drained bundle=%s reason=%s", bundle, reason)
            await record_changes(self._store, changes)

    async def _read_mark(self) -> DrainMark | None:
        mark = (await drain_marks(self._store)).get(self._own_id)
        if mark != self._mark:
            self._log.info("drain %s", "ended" if mark is None else f"begun by {mark.by or '-'}")
            self._mark = mark
            self._moved = self._unloaded = 0
            self._refused = {}
        return mark

    async def _leave(
        self, bundle: BundleName, destination: str | None, changes: list[BundleChange]
    ) -> str:
        """Move a bundle; return why it is still here, empty when it is not. Raises nothing but cancellation."""
        if destination is None:
            return NO_PLACE
        try:
            # An operator may end the drain while bundles move.
            if await self._read_mark() is None:
                return ""
            result = await self._transfer(bundle, destination)
        except MagnetarError as error:
            return str(error)
        if result["moved"]:
            self._moved += 1
            text = "moved"
        else:
            self._unloaded += 1
            text = f"unloaded only: {result['reason']}"
        reason = f"{self._own_id} is being drained"
        at_ms = self._clock.wall_ms()
        changes.append(
            BundleChange(DRAIN, str(bundle), self._own_id, destination, reason, text, at_ms)
        )
        return ""

    def document(self) -> Document | None:
        """Return the progress, None while this broker is not drained; see ``engine.admin.api.brokers``."""
        if self._mark is None:
            return None
        left = self._owned()
        return {
            "left": len(left),
            "moved": self._moved,
            "unloaded": self._unloaded,
            "refused": [
                {"subject": str(bundle), "reason": reason, "kind": "drain"}
                for bundle, reason in self._refused.items()
                if reason and bundle in left
            ][:REASONS_MAX],
        }
