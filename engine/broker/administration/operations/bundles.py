"""Administrative operations on bundles: their names, unloading and splits.

Operations on one bundle are served by its owner; any other broker answers MovedError with the owner's address.
"""

from collections.abc import Callable

from engine.admin.api.arguments import NoArguments, OnBundle
from engine.admin.api.bundles import (
    BUNDLE_CUTS,
    OWNED_BUNDLES,
    PREPARE_BUNDLE,
    SPLIT_BUNDLE,
    TAKE_BUNDLE,
    TRANSFER_BUNDLE,
    UNLOAD_BUNDLE,
    SplitBundle,
    TransferBundle,
    Transferred,
)
from engine.admin.client import AdminClient
from engine.base.clock import Clock
from engine.base.errors import Conflict
from engine.base.names import BundleName, NamespaceName, TopicName
from engine.broker.administration.operations.transfers import BundleTransfers
from engine.broker.administration.reports import rate_out
from engine.broker.control.assignment import BundleAssignment
from engine.broker.control.catalog import Catalog
from engine.broker.outlet import WithheldCloses
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from engine.metadata.store import MetadataStore, NoNodeError
from engine.ownership.division import TopicLoad, check_algorithm, cuts
from engine.ownership.load.bundle_changes import OPERATOR, SPLIT, BundleChange, record_changes
from engine.ownership.owner import BundleOwnership, NoNamespaceError
from engine.rpc.operation import Handlers, bind
from engine.rpc.server import MovedError
from engine.tenancy import topics


class BundleOperations:
    """Handlers of the operations, which ``engine.admin.api.bundles`` describes."""

    def __init__(
        self,
        store: MetadataStore,
        ownership: BundleOwnership,
        assignment: BundleAssignment,
        registry: TopicRegistry,
        catalog: Catalog,
        brokers: AdminClient,
        own_id: str,
        clock: Clock,
    ) -> None:
        """``brokers`` calls the other brokers; ``own_id`` is the id of this one."""
        self._catalog = catalog
        self._own_id = own_id
        self._clock = clock
        self.transfers = BundleTransfers(ownership, assignment, brokers, self.unload_topics)
        self._store = store
        self._ownership = ownership
        self._assignment = assignment
        self._registry = registry

    @property
    def handlers(self) -> Handlers:
        """The handlers by operation."""
        return dict(
            [
                bind(OWNED_BUNDLES, self.owned_bundles),
                bind(UNLOAD_BUNDLE, self.unload_bundle),
                bind(SPLIT_BUNDLE, self.split_bundle),
                bind(BUNDLE_CUTS, self.bundle_cuts),
                bind(TRANSFER_BUNDLE, self.transfer_bundle),
                bind(PREPARE_BUNDLE, self.prepare_bundle),
                bind(TAKE_BUNDLE, self.take_bundle),
            ]
        )

    async def owned_bundles(self, args: NoArguments) -> list[str]:
        return [str(bundle) for bundle in self._ownership.owned()]

    async def unload_bundle(self, args: OnBundle) -> None:
        if args.bundle is None:
            for bundle in self._ownership.owned():
                if bundle.namespace == args.namespace:
                    await self._ownership.release(bundle, self.unload_topics)
            return
        bundle = BundleName.parse(args.namespace, args.bundle)
        await self._check_not_elsewhere(bundle)
        await self._ownership.release(bundle, self.unload_topics)

    async def _check_not_elsewhere(self, bundle: BundleName) -> None:
        """Raise MovedError for the bundle of another broker; one without an owner may be served by any."""
        owner = await self._ownership.owner(bundle)
        if owner is not None and not self._ownership.owns(bundle):
            raise MovedError(owner.http_url, owner.http_url_tls)

    async def unload_topics(
        self, bundle: BundleName, withheld: WithheldCloses | None = None
    ) -> None:
        """Close every loaded topic of ``bundle``; with ``withheld`` its clients are notified when that is sent."""
        await self._registry.unload_where(_within(bundle), withheld)

    async def transfer_bundle(self, args: TransferBundle) -> Transferred:
        bundle = BundleName.parse(args.namespace, args.bundle or "")
        owned = self._ownership.owns(bundle)
        if not owned:
            await self._check_not_elsewhere(bundle)
        if args.destination != self._own_id:
            result = await self.transfers.transfer(bundle, args.destination)
            if args.reason:
                text = "moved" if result["moved"] else f"unloaded only: {result['reason']}"
                await self._record(OPERATOR, bundle, args.reason, text, args.destination)
            return result
        if not owned:
            await self._assignment.take(bundle)
        return Transferred(moved=True, reason="")

    async def _record(
        self, kind: str, bundle: BundleName, reason: str, result: str, destination: str = ""
    ) -> None:
        """Record a change that was made, for people."""
        names = kind, str(bundle), self._own_id, destination
        change = BundleChange(*names, reason, result, self._clock.wall_ms())
        await record_changes(self._store, [change])

    async def prepare_bundle(self, args: OnBundle) -> None:
        self.transfers.check_stays()
        bundle = BundleName.parse(args.namespace, args.bundle or "")
        await self._assignment.check_place(bundle)
        await self._catalog.namespace(args.namespace)
        await self._ownership.bundles(args.namespace)

    async def take_bundle(self, args: OnBundle) -> None:
        self.transfers.check_stays()
        await self._assignment.take(BundleName.parse(args.namespace, args.bundle or ""))

    async def split_bundle(self, args: SplitBundle) -> list[str]:
        algorithm = check_algorithm(args.algorithm, args.positions)
        bundle = BundleName.parse(args.namespace, args.bundle or "")
        try:
            # Stores the bundles of a namespace that was never used: a split changes the stored ones.
            await self._ownership.bundles(args.namespace)
        except NoNamespaceError as error:
            raise Conflict(f"Namespace {args.namespace} is being deleted") from error
        place = await self._assignment.place_bundle(bundle)
        if not place.here:
            raise MovedError(place.owner.http_url, place.owner.http_url_tls)
        loads = await self.topic_loads(bundle)
        edges = cuts(bundle, algorithm, loads, args.positions)
        if not edges:
            return [bundle.range]
        try:
            parts = await self._ownership.split(bundle, edges)
        except NoNodeError as error:
            raise Conflict(f"Namespace {args.namespace} is being deleted") from error
        if args.reason:
            await self._record(SPLIT, bundle, args.reason, _parts(parts))
        if args.unload:
            for part in parts:
                await self._ownership.release(part, self.unload_topics)
        return [part.range for part in parts]

    async def bundle_count(self, namespace: NamespaceName) -> int:
        """Return the number of bundles of a namespace. Raises NoNamespaceError and the store's errors."""
        return len(await self._ownership.bundles(namespace))

    async def split_owned(
        self,
        bundle: BundleName,
        algorithm: str,
        reason: str,
        bundles_max: int,
    ) -> list[BundleName]:
        """Split an owned bundle, see ``SplitHost``."""
        edges = cuts(bundle, algorithm, await self.topic_loads(bundle), ())
        if not edges:
            return []
        try:
            parts = await self._ownership.split(bundle, edges, bundles_max)
        except NoNodeError as error:
            raise Conflict(f"Namespace {bundle.namespace} is being deleted") from error
        await self._record(SPLIT, bundle, reason, _parts(parts))
        return parts

    async def bundle_cuts(self, args: SplitBundle) -> list[int]:
        algorithm = check_algorithm(args.algorithm, args.positions)
        bundle = BundleName.parse(args.namespace, args.bundle or "")
        await self._check_not_elsewhere(bundle)
        return cuts(bundle, algorithm, await self.topic_loads(bundle), args.positions)

    async def topic_loads(self, bundle: BundleName) -> list[TopicLoad]:
        """Return the load of every topic of the bundle, which is zero for topics that are not loaded."""
        names = await topics.list_topics(
            self._store, bundle.namespace, bundle=bundle.range, include_system=True
        )
        loads = {name: TopicLoad(TopicName.parse(name).bundle_hash) for name in names}
        return list((loads | self._loaded(bundle)).values())

    def loaded_topics(self, bundle: BundleName) -> list[TopicLoad]:
        """Return the load of every loaded topic of a bundle."""
        return list(self._loaded(bundle).values())

    def _loaded(self, bundle: BundleName) -> dict[str, TopicLoad]:
        is_within = _within(bundle)
        return {
            topic.name.full: _load_of(topic) for topic in self._registry if is_within(topic.name)
        }


def _parts(parts: list[BundleName]) -> str:
    return f"split into {', '.join(part.range for part in parts)}"


def _load_of(topic: Topic) -> TopicLoad:
    out = [rate_out(subscription) for subscription in topic.subscriptions.values()]
    published = topic.published
    return TopicLoad(
        topic.name.bundle_hash,
        published.messages.per_second + sum(messages for messages, _ in out),
        published.bytes.per_second + sum(size for _, size in out),
    )


def _within(bundle: BundleName) -> Callable[[TopicName], bool]:
    return lambda name: name.namespace == bundle.namespace and bundle.holds(name.bundle_hash)
