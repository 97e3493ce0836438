"""Release of bundles that isolation policies place on other brokers, when policies or the live brokers change."""

from collections.abc import Awaitable, Callable

from engine.base.log import bound
from engine.base.names import BundleName
from engine.metadata import paths
from engine.metadata.follow import MetadataFollower
from engine.metadata.store import MetadataStore
from engine.ownership.owner import BundleOwnership
from engine.ownership.registration import live_brokers
from engine.tenancy.resources.isolation import isolation_of

CHECK_INTERVAL_S = 60.0
"""Interval of checks without a change: a bundle may have been acquired by policies read before a change."""


class IsolationKeeper:
    """Releases bundles of one broker. ``unload`` closes the topics of a bundle.

    ``start`` must be called once, inside the running loop. A bundle that no live broker may serve stays where it is.
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
            store, "isolation", watched, self._check, every_s=CHECK_INTERVAL_S
        )
        self._log = bound(__name__, broker=broker_id)

    def start(self) -> None:
        self._follower.start()

    async def close(self) -> None:
        await self._follower.close()

    async def _check(self) -> None:
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
