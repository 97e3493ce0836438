"""Search for the broker that serves a topic, and its choice. Implements ``engine.broker.ports.Ownership``."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from engine.admin.api.bundles import INACTIVE
from engine.base.errors import Conflict, Refusal
from engine.base.names import BundleName, TopicName
from engine.broker.errors import NotServedHere, ServiceNotReady, TopicNotFound, not_served
from engine.broker.ports import LookupResult
from engine.metadata import paths
from engine.metadata.store import (
    MetadataStore,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from engine.net.listener_urls import ListenerUrls
from engine.ownership.load.draining import REASON as DRAINING
from engine.ownership.load.draining import drain_marks
from engine.ownership.load.plan import targets
from engine.ownership.load.policies import PlacementPolicies
from engine.ownership.load.stored import placement_policies
from engine.ownership.owner import BundleOwnership, NoNamespaceError, OwnerRecord
from engine.ownership.placer import Placer, Situation
from engine.ownership.registration import BrokerRecord, RegisteredBroker, registered_brokers
from engine.tenancy.resources.isolation import IsolationPolicies, isolation_of

NO_NAMESPACE = "Namespace not found"
ATTEMPTS_MAX = 3


class BundlePlace(NamedTuple):
    """Place of a bundle.

    ``here``: whether this broker owns it. ``chosen``: it has no owner, and ``owner`` is the broker that should acquire
    it.
    """

    owner: OwnerRecord
    here: bool
    chosen: bool = False

    def urls_of(self, listener: str) -> ListenerUrls:
        """Return the owner's addresses for clients of ``listener`` (T7). Raises ServiceNotReady, with Pulsar's text,
        where the owner does not advertise it."""
        urls = self.owner.urls_of(listener)
        if urls is None:
            raise ServiceNotReady(f"the broker do not have {listener} listener")
        return urls


class BundleAssignment:
    """Finds owners of bundles and acquires bundles, for one broker."""

    def __init__(
        self,
        store: MetadataStore,
        ownership: BundleOwnership,
        record: BrokerRecord,
        cluster: str,
        placer: Placer,
        considers_load: Callable[[], bool] = lambda: True,
    ) -> None:
        """``considers_load``: whether brokers with much more load than the mean are asked last."""
        self._store = store
        self._placer = placer
        self._considers_load = considers_load
        self._cluster = cluster
        self._ownership = ownership
        self._record = record
        self._follows = False
        self._alone: bool | None = None
        """True when no other broker is registered; None when that may have changed."""
        self._changes = 0

    async def lookup(self, topic: TopicName, *, authoritative: bool, listener: str) -> LookupResult:
        """Look up a topic, see Ownership."""
        place = await self.place(topic, authoritative=authoritative)
        urls = place.urls_of(listener)
        return LookupResult(
            broker_url=urls.service_url,
            broker_url_tls=urls.service_url_tls,
            authoritative=True,
            redirect=place.chosen,
            # The address by which the client came may be the only one that reaches a single broker. Of several brokers
            # it must be the advertised one: a client keeps what it was answered, also when it is sent to another.
            proxy_through_service_url=place.here and await self._is_alone(),
        )

    async def _is_alone(self) -> bool:
        """Return whether no other broker is registered, from memory until that changes; False while it is unknown."""
        if not self._follows:
            self._follows = True
            self._store.watch(paths.LOADBALANCE_BROKERS, self._forget_brokers)
        if self._alone is None:
            changes = self._changes
            try:
                ids = await self._store.children(paths.LOADBALANCE_BROKERS)
            except (NoNodeError, StoreUnavailableError, SessionExpiredError):
                return False
            alone = set(ids) <= {self._record.id}
            if changes != self._changes:
                return alone
            self._alone = alone
        return self._alone

    def _forget_brokers(self, path: str) -> None:
        self._alone = None
        self._changes += 1

    async def place(self, topic: TopicName, *, authoritative: bool) -> BundlePlace:
        """Return the owner of the topic's bundle; acquire a bundle without an owner when this broker is the choice.

        ``authoritative``: another broker chose this one; it acquires the bundle unless isolation policies forbid it.
        Raises TopicNotFound, ServiceNotReady; cancel-safe.
        """
        try:
            bundle = (await self._ownership.bundles(topic.namespace)).of_topic(topic)
            return await self._place(bundle, authoritative, topic.persistent)
        except NoNamespaceError as error:
            raise TopicNotFound(NO_NAMESPACE) from error
        except (StoreUnavailableError, SessionExpiredError) as error:
            raise ServiceNotReady(f"The owner cannot be found now: {error}") from error

    async def place_bundle(self, bundle: BundleName) -> BundlePlace:
        """Return the owner of a bundle; acquire one without an owner when this broker is the choice.

        Raises ServiceNotReady; cancel-safe.
        """
        try:
            return await self._place(bundle, authoritative=False, persistent=True)
        except (StoreUnavailableError, SessionExpiredError) as error:
            raise ServiceNotReady(f"The owner cannot be found now: {error}") from error

    async def _place(
        self, bundle: BundleName, authoritative: bool, persistent: bool
    ) -> BundlePlace:
        mine = OwnerRecord.of(self._record)
        for _ in range(ATTEMPTS_MAX):
            if self._ownership.is_leaving(bundle):
                raise NotServedHere(f"Namespace bundle {bundle} is being unloaded")
            owner = await self._ownership.owner(bundle)
            if owner is not None:
                return BundlePlace(owner, here=self._ownership.owns(bundle))
            # A node that names this broker sends clients here, whatever the order of brokers.
            named = await self._ownership.left_behind(bundle) or self._ownership.owns(bundle)
            chosen = authoritative or named
            elsewhere = await self._elsewhere(bundle, chosen, persistent, named=named)
            if elsewhere is not None:
                return BundlePlace(OwnerRecord.of(elsewhere), False, chosen=True)
            if await self._ownership.acquire(bundle):
                return BundlePlace(mine, here=True)
        raise NotServedHere(f"Owner of bundle {bundle} keeps changing")

    async def take(self, bundle: BundleName) -> None:
        """Acquire a bundle that its previous owner released for this broker (O4).

        Raises ServiceNotReady when isolation policies forbid it, this broker is being drained, another broker holds the
        bundle, or the store fails; cancel-safe, and the bundle may be acquired after a cancellation.
        """
        try:
            await self.check_place(bundle)
            if not await self._ownership.acquire(bundle):
                raise ServiceNotReady(f"Bundle {bundle} is held by another broker")
        except (StoreUnavailableError, SessionExpiredError) as error:
            raise ServiceNotReady(f"Bundle {bundle} cannot be acquired now: {error}") from error

    async def check_destination(self, bundle: BundleName, destination: str) -> OwnerRecord:
        """Return the record of the broker ``destination`` as the next owner of ``bundle``.

        Raises Conflict when it is not registered, is being drained, or isolation policies forbid the bundle there, and
        the store's errors.
        """
        brokers = await registered_brokers(self._store)
        if destination not in brokers:
            raise Conflict(INACTIVE)
        if destination in await drain_marks(self._store):
            raise Conflict(f"{destination} receives no bundle: {DRAINING}")
        policies = await self._isolation()
        if destination not in policies.places(str(bundle.namespace), brokers):
            raise Conflict(f"Isolation policies forbid {bundle.namespace} on {destination}")
        return OwnerRecord.of(brokers[destination].record)

    async def targets(self, bundles: Iterable[BundleName]) -> dict[BundleName, str]:
        """Return the id of the broker that should own each bundle of this broker when it stops or is drained.

        A bundle without an allowed broker that is not drained itself is left out. Raises the store's errors,
        ServiceNotReady.
        """
        given = list(bundles)
        brokers = await registered_brokers(self._store)
        namespaces = {bundle.namespace: None for bundle in given}
        try:
            policies = await placement_policies(
                self._store, self._cluster, list(namespaces), await self._isolation()
            )
        except (ValueError, Refusal) as error:
            raise ServiceNotReady(str(error)) from error
        reports = {broker_id: broker.load for broker_id, broker in brokers.items()}
        excluded = dict.fromkeys(policies.draining, DRAINING)
        return targets(given, self._record.id, reports, policies.without(excluded))

    async def check_place(self, bundle: BundleName) -> None:
        """Raise ServiceNotReady unless isolation policies permit ``bundle`` here and this broker is not drained. Raises
        the store's errors."""
        if self._record.id in await drain_marks(self._store):
            raise ServiceNotReady(f"{self._record.id} takes no bundle: {DRAINING}")
        elsewhere = await self._elsewhere(bundle, authoritative=True, persistent=True)
        if elsewhere is not None:
            raise ServiceNotReady(f"Isolation policies place {bundle} on other brokers")

    async def _elsewhere(
        self,
        bundle: BundleName,
        authoritative: bool,
        persistent: bool,
        *,
        named: bool = False,
    ) -> BrokerRecord | None:
        """Return the broker that should acquire ``bundle``, None for this one.

        Brokers that serve the requested kind of topic (``persistent``) are preferred, drained ones come last (L10).
        ``named``: the bundle's node sends clients here, so that no other broker can acquire it, also while this one is
        drained.
        """
        isolation = await self._isolation()
        own = self._record.id
        draining = await drain_marks(self._store)
        is_drained = own in draining and not named
        if authoritative and not isolation and not is_drained:
            return None
        registered = await registered_brokers(self._store)
        brokers = {broker_id: broker.record for broker_id, broker in registered.items()}
        policies = PlacementPolicies(isolation, draining=() if named else draining)
        places = policies.places(bundle, brokers)
        if brokers and not places:
            raise ServiceNotReady(
                f"No broker may serve {bundle.namespace}: isolation policies leave none of those that are there"
            )
        # Another broker chose this one, which therefore does not choose again.
        if authoritative and (own in places or own not in brokers):
            return None
        able = [broker for broker in places if brokers[broker].serves(persistent=persistent)]
        situation = await self._situation(bundle, isolation, registered)
        order = self._placer.order(bundle, able or places, situation)
        return brokers[order[0]] if order and order[0] != own else None

    async def _situation(
        self,
        bundle: BundleName,
        isolation: IsolationPolicies,
        brokers: Mapping[str, RegisteredBroker],
    ) -> Situation:
        """Return what the placement of ``bundle`` considers besides its name."""
        try:
            policies = await placement_policies(
                self._store, self._cluster, [bundle.namespace], isolation
            )
        except (ValueError, Refusal) as error:
            raise ServiceNotReady(str(error)) from error
        if not self._considers_load():
            return Situation(policies=policies)
        loads = {broker_id: broker.load.usage for broker_id, broker in brokers.items()}
        return Situation(loads, policies)

    async def _isolation(self) -> IsolationPolicies:
        try:
            return await isolation_of(self._store, self._cluster)
        except ValueError as error:
            raise ServiceNotReady(str(error)) from error

    async def resume(self, topic: TopicName) -> None:
        """Acquire the topic's bundle again, see Ownership."""
        if self._ownership.serves(topic):
            return
        with suppress(NoNamespaceError, StoreUnavailableError, SessionExpiredError):
            bundle = (await self._ownership.bundles(topic.namespace)).of_topic(topic)
            if await self._ownership.left_behind(bundle):
                await self._ownership.acquire(bundle)

    def check_owned(self, topic: TopicName) -> None:
        """Raise unless this broker serves the topic as far as it knows now, see Ownership."""
        if self._ownership.serves(topic):
            return
        bundle = self._ownership.known_bundle(topic)
        if bundle is not None and self._ownership.is_leaving(bundle):
            raise NotServedHere(f"Namespace bundle {bundle} is being unloaded")
        raise not_served(bundle or topic.namespace, topic, self._record.id)
