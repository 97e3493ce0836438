"""All administrative operations of a broker: the handlers of those that the modules of ``engine.admin.api`` declare."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from engine.admin.api.arguments import JsonObject
from engine.admin.api.losses import LOSSES, ChangedRecords
from engine.admin.client import AdminClient
from engine.base.clock import Clock
from engine.broker.administration.client_connections import ConnectionOperations
from engine.broker.administration.geo.link_feed import LinkFeed
from engine.broker.administration.operations.brokers import BrokerOperations
from engine.broker.administration.operations.bundles import BundleOperations
from engine.broker.administration.operations.cursors import CursorOperations
from engine.broker.administration.operations.dynamic_settings import SettingOperations
from engine.broker.administration.operations.messages import MessageOperations
from engine.broker.administration.operations.owned_topics import OwnedTopics
from engine.broker.administration.operations.policies import PolicyOperations
from engine.broker.administration.operations.rows import RowOperations
from engine.broker.administration.operations.schemas import SchemaOperations
from engine.broker.administration.operations.statistics import StatisticsOperations
from engine.broker.administration.operations.subscriptions import SubscriptionOperations
from engine.broker.administration.operations.topics import TopicOperations
from engine.broker.administration.operations.traces import TraceOperations
from engine.broker.administration.operations.transactions import TransactionOperations
from engine.broker.administration.subscription_feed import SubscriptionFeed
from engine.broker.administration.tiers.orphan_removal import OrphanRemoval
from engine.broker.administration.tiers.tier_operations import TierOperations
from engine.broker.administration.topic_feed import TopicFeed
from engine.broker.connection.sessions import Sessions
from engine.broker.control.assignment import BundleAssignment
from engine.broker.control.catalog import Catalog
from engine.broker.control.dynamic_settings import DynamicSettings
from engine.broker.control.load.broker_drain import BrokerDrain
from engine.broker.control.load.leader import LoadLeader
from engine.broker.control.load.reporting import LoadReporter
from engine.broker.policies import (
    TopicPolicies,
)
from engine.broker.ports import RemoteClusters
from engine.broker.settings import DataPathSettings
from engine.broker.topics.lifecycle.topic_deletions import ForgetTopic
from engine.broker.topics.registry import TopicRegistry
from engine.broker.transactions.coordinator.coordinators import Coordinators
from engine.ledger.settings import LedgerSettings
from engine.managed.settings import LedgerConfig
from engine.managed.stored.resting import RestingLogs
from engine.metadata.store import MetadataStore
from engine.offload.settings import OffloadSettings
from engine.ownership.owner import BundleOwnership
from engine.ownership.registration import BrokerRecord
from engine.packages.package_handlers import PackageOperations
from engine.packages.package_store import PackageStore
from engine.rpc.operation import Handlers, bind
from engine.schema.schema_registry import SchemaRegistry


@dataclass(frozen=True, slots=True)
class Collaborators:
    """Components that the operations use."""

    store: MetadataStore
    clock: Clock
    record: BrokerRecord
    registry: TopicRegistry
    sessions: Sessions
    assignment: BundleAssignment
    ownership: BundleOwnership
    catalog: Catalog
    topic_feed: TopicFeed
    subscription_feed: SubscriptionFeed
    link_feed: LinkFeed
    resting: RestingLogs
    schemas: SchemaRegistry
    packages: PackageStore
    dynamic: DynamicSettings
    ledgers: LedgerSettings
    load_reporter: LoadReporter
    load_leader: LoadLeader
    splits: Callable[[], list[JsonObject]]
    """Returns the overloaded bundles that are not split."""
    drain: Callable[[], BrokerDrain]
    settings: DataPathSettings
    ledger_config: Callable[[TopicPolicies], LedgerConfig]
    forget: ForgetTopic
    remotes: RemoteClusters
    coordinators: Coordinators | None
    """Coordinators of transactions; None where these are not enabled."""
    brokers: AdminClient
    """Client of the other brokers' operations."""
    losses: Callable[[ChangedRecords], Awaitable[JsonObject]]
    orphans: OrphanRemoval
    offload: OffloadSettings


class AdminOperations:
    """The operations of a broker by resource.

    An operation on a topic first makes sure that the topic is served here: MovedError names the owner otherwise.
    """

    def __init__(self, parts: Collaborators) -> None:
        store, clock, registry = parts.store, parts.clock, parts.registry
        owned = OwnedTopics(registry, parts.assignment, store)
        self.topics = TopicOperations(
            *(owned, registry, parts.assignment, store, parts.catalog),
            *(parts.resting, clock, parts.forget, parts.remotes),
        )
        self.statistics = StatisticsOperations(owned, store, parts.schemas, clock, parts.record)
        self.rows = RowOperations(
            *(registry, parts.topic_feed, parts.subscription_feed, parts.link_feed),
            *(parts.resting, clock),
        )
        self.subscriptions = SubscriptionOperations(owned, registry, clock)
        self.cursors = CursorOperations(owned, clock)
        self.messages = MessageOperations(owned)
        self.traces = TraceOperations(owned)
        self.schemas = SchemaOperations(owned, parts.schemas, parts.catalog)
        self.policies = PolicyOperations(
            store, owned, parts.catalog, parts.settings, parts.ledger_config, clock
        )
        self.bundles = BundleOperations(
            *(store, parts.ownership, parts.assignment, registry, parts.catalog),
            *(parts.brokers, parts.record.id, clock),
        )
        self.brokers = BrokerOperations(
            store,
            registry,
            parts.ownership,
            parts.dynamic,
            parts.ledgers,
            parts.record,
            *(parts.load_reporter, parts.load_leader, parts.splits),
            *(parts.drain, parts.assignment.targets),
        )
        self.connections = ConnectionOperations(parts.sessions, clock)
        self.settings = SettingOperations(parts.dynamic)
        self.transactions = TransactionOperations(owned, parts.coordinators, store, clock)
        self.packages = PackageOperations(parts.packages)
        self.tiers = TierOperations(*(owned, parts.orphans, parts.offload, clock, store))
        self._losses = dict([bind(LOSSES, parts.losses)])

    @property
    def handlers(self) -> Handlers:
        """The handlers of all operations."""
        return (
            self.topics.handlers
            | self.tiers.handlers
            | self.statistics.handlers
            | self.rows.handlers
            | self.subscriptions.handlers
            | self.cursors.handlers
            | self.messages.handlers
            | self.traces.handlers
            | self.schemas.handlers
            | self.policies.handlers
            | self.bundles.handlers
            | self.brokers.handlers
            | self.connections.handlers
            | self.settings.handlers
            | self.transactions.handlers
            | self.packages.handlers
            | self._losses
        )
