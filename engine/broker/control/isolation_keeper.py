"""Gives up bundles that isolation policies place on other brokers: when policies change, when brokers come or go."""

from collections.abc import Awaitable, Callable

from engine.base.log import bound
from engine.base.names import BundleName
from engine.metadata import paths
from engine.metadata.follow import MetadataFollower
from engine.metadata.store import MetadataStore
from engine.ownership.owner import BundleOwnership
from engine.ownership.registration import live_brokers
from engine.tenancy.resources.isolation import isolation_of

LOOK_INTERVAL_S = 60.0
"""At least so often: a bundle may also have been taken by what was known before a change."""


class IsolationKeeper:
    """Of one broker. ``start`` once, inside the running loop. ``unload`` closes the topics of a bundle.

    A bundle that no broker that is there may serve stays where it is.
    """

    def __init__(
        self,
        store: MetadataStore,
        ownership: BundleOwnership,
        broker_id: str,
        cluster: str,
        unload: Callable[[BundleName], Awaitable[None]],
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._broker_id = broker_id
        self._cluster = cluster
        self._unload = unload
        watched = (paths.isolation_policies(cluster), paths.LOADBALANCE_BROKERS)
        self._follower = MetadataFollower(
            store, "isolation", watched, self._look, every_s=LOOK_INTERVAL_S
        )
        self._log = bound(__name__, broker=broker_id)

    def start(self) -> None:
        self._follower.start()

    async def close(self) -> None:
        await self._follower.close()

    async def _look(self) -> None:
        policies = await isolation_of(self._store, self._cluster)
        if not policies:
            return
        brokers = await live_brokers(self._store)
        failures: list[Exception] = []
        for bundle in self._ownership.owned():
            if policies.moves(str(bundle.namespace), self._broker_id, brokers):
                self._log.info("bundle belongs on another broker bundle=%s", bundle)
                try:
                    await self._ownership.release(bundle, self._unload)
                except (
                    Exception
                ) as error:  # the other bundles go all the same, this one is tried again
                    failures.append(error)
        if failures:
            raise failures[0]
