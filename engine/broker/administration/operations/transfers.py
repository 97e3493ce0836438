"""Moves of bundles to a named broker: by request, and when this broker stops.

The order is: the destination prepares; this broker closes the topics, whose clients are not notified yet; it writes the
destination's record into the bundle's node; the destination acquires the bundle; then the clients are notified of its
address. A failure of any step leaves the bundle without an owner, and clients look it up again. The record in the node
is a hint and no right: the destination owns the bundle once it has created a node of its own (O4).
"""

import asyncio
from collections.abc import Awaitable, Callable

from engine.admin.api.arguments import OnBundle
from engine.admin.api.bundles import INACTIVE, PREPARE_BUNDLE, TAKE_BUNDLE, Transferred
from engine.admin.client import AdminClient, BrokerAddress
from engine.base.errors import Conflict, MagnetarError, NotReady
from engine.base.log import bound
from engine.base.names import BundleName
from engine.base.tasks import contained
from engine.broker.control.assignment import BundleAssignment
from engine.broker.outlet import WithheldCloses
from engine.ownership.owner import BundleOwnership, OwnerRecord
from engine.rpc.operation import Operation

STEP_S = 5.0
"""Seconds that a destination may take to prepare for a bundle, and to acquire it."""
DRAINED_AT_ONCE = 8
"""Bundles that a broker which stops moves at a time."""
WITHDRAWN_S = 1.0
"""Seconds after which the clients are notified although a successor that failed is still named in the bundle's node."""
Unload = Callable[[BundleName, WithheldCloses], Awaitable[object]]
"""Closes the topics of a bundle and withholds the closes of their clients."""


class BundleTransfers:
    """Moves bundles that this broker owns."""

    def __init__(
        self,
        ownership: BundleOwnership,
        assignment: BundleAssignment,
        brokers: AdminClient,
        unload: Unload,
    ) -> None:
        self._ownership = ownership
        self._assignment = assignment
        self._brokers = brokers
        self._unload = unload
        self._stopping = False
        self._log = bound(__name__)

    async def transfer(self, bundle: BundleName, destination: str) -> Transferred:
        """Move ``bundle`` to the broker with the id ``destination``, or unload it when that fails.

        A bundle without an owner is acquired by the destination. Raises Conflict, and changes nothing, when the
        destination is not registered or isolation policies forbid it there. Raises the store's errors when it is not
        known whether the bundle is released, see ``BundleOwnership.release``. After cancellation the bundle is held,
        unloaded or moved; its clients are notified in all cases.
        """
        successor = await self._assignment.check_destination(bundle, destination)
        address = await self._address_of(destination)
        try:
            await self._call(address, PREPARE_BUNDLE, bundle)
        except (MagnetarError, TimeoutError) as error:
            reason = f"{destination} cannot prepare: {str(error) or 'no answer in time'}"
            return await self._only_unload(bundle, reason)
        withheld = WithheldCloses()
        is_named = False
        try:
            await self._ownership.release(
                bundle, lambda leaving: self._unload(leaving, withheld), successor=successor
            )
            is_named = True
            await self._call(address, TAKE_BUNDLE, bundle)
            is_named = False
            withheld.send(successor)
        except (MagnetarError, TimeoutError) as error:
            if not is_named:
                raise
            is_named = False
            if not await self._has_acquired(bundle, successor):
                reason = f"{destination} did not acquire it: {str(error) or 'no answer in time'}"
                return self._result(bundle, reason)
            withheld.send(successor)
        finally:
            if is_named:
                self._ownership.forget_successor(bundle)
            withheld.send()
        self._log.info("bundle moved bundle=%s destination=%s", bundle, destination)
        return Transferred(moved=True, reason="")

    async def drain(self) -> None:
        """Move all bundles of this broker, which stops, to the brokers that the plan chooses; the others are unloaded.

        Failures are logged, and concern their bundle only. Call it after this broker has withdrawn its registration.
        """
        self._stopping = True
        bundles = self._ownership.owned()
        destinations: dict[BundleName, str] = {}
        with contained("choice of the next owners"):
            try:
                destinations = await self._assignment.targets(bundles)
            except MagnetarError as error:
                self._log.warning("bundles are unloaded only: %s", error)
        gate = asyncio.Semaphore(DRAINED_AT_ONCE)
        failed: dict[str, None] = {}

        async def leave(bundle: BundleName) -> None:
            async with gate:
                with contained(f"hand-over of {bundle}"):
                    try:
                        await self._leave(bundle, destinations.get(bundle), failed)
                    except MagnetarError as error:
                        self._log.warning("not handed over bundle=%s error=%s", bundle, error)

        await asyncio.gather(*(leave(bundle) for bundle in bundles))

    def check_stays(self) -> None:
        """Raise NotReady when this broker stops and takes no bundle any more."""
        if self._stopping:
            raise NotReady("The broker is shutting down")

    async def _leave(
        self, bundle: BundleName, destination: str | None, failed: dict[str, None]
    ) -> None:
        """Move a bundle, or unload it when its destination is in ``failed``, as each wait for that takes seconds."""
        if destination is not None and destination not in failed:
            try:
                if not (await self.transfer(bundle, destination))["moved"]:
                    failed[destination] = None
                return
            except Conflict as error:
                self._log.info("bundle is unloaded only bundle=%s reason=%s", bundle, error)
        await self._release(bundle)

    async def _release(self, bundle: BundleName) -> None:
        """Release a bundle for any broker; its clients are notified then, since it has no owner before."""
        withheld = WithheldCloses()
        try:
            await self._ownership.release(bundle, lambda leaving: self._unload(leaving, withheld))
        finally:
            withheld.send()

    async def _has_acquired(self, bundle: BundleName, successor: OwnerRecord) -> bool:
        """Return whether the successor, whose answer is missing, owns the bundle; its name is withdrawn otherwise."""
        removal = self._ownership.forget_successor(bundle)
        if removal is None:
            return False
        await asyncio.wait([removal], timeout=WITHDRAWN_S)
        if not removal.done():
            return False
        try:
            return await self._ownership.owner(bundle) == successor
        except MagnetarError:
            return False

    async def _address_of(self, destination: str) -> BrokerAddress:
        for broker in await self._brokers.brokers():
            if broker.id == destination:
                return broker
        raise Conflict(INACTIVE)

    async def _call(
        self, address: BrokerAddress, operation: Operation[OnBundle, None], bundle: BundleName
    ) -> None:
        async with asyncio.timeout(STEP_S):
            await self._brokers.call_on(
                address, operation, OnBundle(bundle.namespace, bundle.range)
            )

    async def _only_unload(self, bundle: BundleName, reason: str) -> Transferred:
        await self._release(bundle)
        return self._result(bundle, reason)

    def _result(self, bundle: BundleName, reason: str) -> Transferred:
        self._log.warning("bundle unloaded instead of moved bundle=%s reason=%s", bundle, reason)
        return Transferred(moved=False, reason=reason)
