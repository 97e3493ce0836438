"""Mistakes in moving bundles to a named broker."""

import asyncio
import contextlib
from typing import Any

from engine.admin.api.bundles import Transferred
from engine.base.errors import MagnetarError
from engine.base.names import BundleName, TopicName
from engine.broker.administration.operations.transfers import BundleTransfers
from engine.broker.control.assignment import BundleAssignment
from engine.broker.control.load import broker_drain
from engine.broker.control.load.broker_drain import BrokerDrain
from engine.broker.outlet import WithheldCloses
from engine.ownership import owner
from engine.ownership.load.draining import DrainMark
from engine.ownership.owner import BundleOwnership, OwnerRecord
from tests.sim.plants.planting import Patches


def name_in_a_node_is_taken_as_a_right() -> Patches:
    """Serve a bundle as soon as its node names this broker, without a node of its own."""

    async def acquire(self: BundleOwnership, bundle: BundleName) -> bool:
        if bundle in self._owned:
            return True
        if await self.left_behind(bundle):
            self._hold(bundle)
            return True
        return await real(self, bundle)

    real = BundleOwnership.acquire
    return [(BundleOwnership, "acquire", acquire)]


def bundle_is_taken_before_it_is_released() -> Patches:
    """Replace the node of a bundle when its owner announces the move, which still serves it."""

    async def check_place(self: BundleAssignment, bundle: BundleName) -> None:
        await real(self, bundle)
        ownership = self._ownership
        if not await ownership.acquire(bundle):
            await ownership._store.delete(owner._path(bundle))
            await ownership.acquire(bundle)

    def serves(self: BundleOwnership, topic: TopicName) -> bool:
        bundle = self._held_bundle(topic)
        return bundle is not None and self._proven()

    real = BundleAssignment.check_place
    # The watch of the node would end the previous owner's service at once.
    return [
        (BundleAssignment, "check_place", check_place),
        (BundleOwnership, "serves", serves),
        (BundleOwnership, "_on_node", lambda self, bundle: None),
    ]


def late_removal_takes_the_node_of_the_next_owner() -> Patches:
    """Remove the node of a bundle whose successor may have failed, also one that it has created; the successor does not
    watch it."""

    async def remove_left(self: BundleOwnership, bundle: BundleName) -> None:
        await asyncio.sleep(1.0)
        with contextlib.suppress(MagnetarError):
            await self._store.delete(owner._path(bundle))

    def forget_always(self: BundleTransfers, *args: Any) -> Any:
        return transfer_and_forget(self, *args)

    async def transfer_and_forget(
        self: BundleTransfers, bundle: BundleName, destination: str
    ) -> Transferred:
        result = await real(self, bundle, destination)
        self._ownership.forget_successor(bundle)
        return result

    real = BundleTransfers.transfer
    return [
        (BundleOwnership, "_remove_left", remove_left),
        (BundleTransfers, "transfer", forget_always),
        (BundleOwnership, "_on_node", lambda self, bundle: None),
    ]


def clients_to_be_notified_are_forgotten() -> Patches:
    """Forget the closes that a failed move withheld: clients wait for a broker that serves them no longer."""

    def send(self: WithheldCloses, next_owner: OwnerRecord | None = None) -> None:
        if next_owner is not None:
            real(self, next_owner)

    real = WithheldCloses.send
    return [(WithheldCloses, "send", send)]


def drain_is_tried_once() -> Patches:
    """Move the bundles of a drained broker when it is marked, and those that could not move never again."""
    tried: dict[BrokerDrain, DrainMark] = {}

    async def check(self: BrokerDrain) -> None:
        mark = await self._read_mark()
        if mark is None or tried.get(self) == mark:
            return
        tried[self] = mark
        await real(self)

    real = BrokerDrain.check
    return [(BrokerDrain, "check", check)]


def drain_leaves_clients_behind() -> Patches:
    """Release the bundles of a drained broker without a notice to their clients, which wait for it."""

    async def leave(
        self: BrokerDrain, bundle: BundleName, destination: str | None, changes: Any
    ) -> str:
        transfers: BundleTransfers = self._transfer.__self__  # type: ignore[attr-defined]
        with contextlib.suppress(MagnetarError):
            await transfers._ownership.release(
                bundle, lambda leaving: transfers._unload(leaving, WithheldCloses())
            )
        return ""

    return [(BrokerDrain, "_leave", leave)]


def last_broker_may_be_drained() -> Patches:
    """Mark a broker whether or not another one is left."""

    async def mark_draining(store: Any, broker_id: str, mark: DrainMark, registered: Any) -> Any:
        return await real(store, broker_id, mark, {*registered, "another:1"})

    real = broker_drain.mark_draining
    return [(broker_drain, "mark_draining", mark_draining)]
