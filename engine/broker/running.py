"""The parts of a running broker, put together: tenancy, then topics, then administration."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from engine.admin.client import AdminClient
from engine.auth.own_role import check_own_role
from engine.auth.settings import IdentitySettings
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.loop import waited_s
from engine.base.names import BundleName, TopicName
from engine.base.tasks import contained
from engine.broker.administration.bundle_loads import BundleLoads
from engine.broker.administration.geo.link_feed import LinkFeed
from engine.broker.administration.operations.admin_operations import (
    AdminOperations,
    Collaborators,
)
from engine.broker.administration.subscription_feed import SubscriptionFeed
from engine.broker.administration.tiers.orphan_removal import OrphanRemoval
from engine.broker.administration.topic_feed import TopicFeed
from engine.broker.connection.sessions import Sessions
from engine.broker.context import Context
from engine.broker.control.assignment import BundleAssignment
from engine.broker.control.catalog import Catalog
from engine.broker.control.dynamic_settings import DynamicSettings
from engine.broker.control.geo.remote_clusters import StoredClusters
from engine.broker.control.isolation_keeper import IsolationKeeper
from engine.broker.control.load.broker_drain import BrokerDrain
from engine.broker.control.load.bundle_splitter import BundleSplitter
from engine.broker.control.load.leader import LoadLeader, move_by_owner
from engine.broker.control.load.reporting import BusyShare, LoadReporter
from engine.broker.control.topic_policies import PolicyLog
from engine.broker.policies import (
    TopicPolicies,
)
from engine.broker.policy_changes import ChangeQueue, PolicyChanges
from engine.broker.ports import (
    BrokerIdentity,
    Namespaces,
    Ownership,
)
from engine.broker.revocation import Revocation
from engine.broker.settings import (
    DataPathSettings,
    LedgerDefaults,
    NodeSettings,
    TransactionSettings,
)
from engine.broker.topic_table import TopicTable
from engine.broker.topics.group_shares import GroupShares
from engine.broker.topics.inactivity import Inactivity
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.schema_rules import SchemaRules
from engine.broker.topics.topic import Topic
from engine.broker.topics.transactional.abandoned import AbandonedTransactions
from engine.broker.topics.transactional.owned_ends import TopicEnds
from engine.broker.transactions.buffer.snapshot_topics import SnapshotTopics
from engine.broker.transactions.coordinator.coordinators import Coordinators
from engine.broker.transactions.coordinator.inquiry import CoordinatorInquiry
from engine.broker.transactions.coordinator.participants import Participants
from engine.broker.transactions.pending.pending_log import StoredPendingLogs
from engine.broker.upkeep import Upkeep
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.client.settings import BrokerClientSettings
from engine.ledger.client import LedgerClient
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.settings import LedgerConfig
from engine.managed.stored.resting import RestingLogs
from engine.metadata import paths
from engine.metadata.store import (
    MetadataStore,
)
from engine.net.network import Network
from engine.net.tls import TlsSettings
from engine.offload.settings import OffloadSettings
from engine.ownership.load.settings import LoadBalanceSettings
from engine.ownership.owner import BundleOwnership, OwnerRecord
from engine.ownership.placer import HashPlacer
from engine.ownership.registration import BrokerRecord, BrokerRegistration
from engine.packages.package_store import PackageStore
from engine.rpc.client_authentication import ClientAuthentication
from engine.schema.schema_registry import SchemaRegistry, schema_id
from engine.tenancy import grants, topics
from engine.tenancy.access.access_records import AccessRecords
from engine.tenancy.access.policy_judge import create_judge
from engine.tenancy.access.revoked_tokens import RevokedTokens
from engine.tenancy.access.stored_access import Recorded
from engine.tenancy.settings import PolicySettings, TenantLimits


@dataclass(frozen=True, slots=True)
class BrokerResources:
    """Settings and clients that a broker needs, created by ``engine.programs.broker``."""

    node: NodeSettings
    data_path: DataPathSettings
    transactions: TransactionSettings
    policies: PolicySettings
    tenants: TenantLimits
    broker_client: BrokerClientSettings
    identity: IdentitySettings
    tls: TlsSettings
    ledger_config: Callable[[TopicPolicies], LedgerConfig]
    token: str
    store: MetadataStore
    clock: Clock
    entropy: Entropy
    network: Network
    ledgers: LedgerClient
    factory: ManagedLedgerFactory
    offload: OffloadSettings
    groups: tuple[object, ...]
    """Groups of settings with Pulsar's names, as they were given to the process."""


class Tenancy:
    """Namespaces, their policies and schemas, as one broker knows them."""

    def __init__(
        self,
        base: BrokerResources,
        record: BrokerRecord,
        changes: PolicyChanges,
        loaded: TopicTable[Topic],
    ) -> None:
        """Report changed policies to ``changes``; ``loaded`` are the topics served here."""
        defaults = base.policies
        replication = LedgerConfig(
            defaults.managed_ledger_default_ensemble_size,
            defaults.managed_ledger_default_write_quorum,
            defaults.managed_ledger_default_ack_quorum,
        )
        self._store = base.store
        self.schemas = SchemaRegistry(base.store, base.ledgers, replication, base.clock)
        self.packages = PackageStore(
            base.store, base.ledgers, replication, base.clock, base.entropy
        )
        self.rules = SchemaRules(self.schemas)
        client_tls = base.broker_client.tls()
        service_url = record.service_url if client_tls is None else record.service_url_tls
        self.policy_log = PolicyLog(
            store=base.store,
            schemas=self.schemas,
            network=base.network,
            clock=base.clock,
            entropy=base.entropy,
            cluster=base.node.cluster_name,
            service_url=service_url,
            tls=client_tls,
            credentials=base.broker_client.credentials(),
            loaded=loaded.names,
            on_change=changes.note,
        )
        self.snapshots: SnapshotTopics | None = None
        """Snapshots of transactions; None where transactions are not enabled."""
        if base.transactions.transaction_coordinator_enabled:
            self.snapshots = SnapshotTopics(
                store=base.store,
                schemas=self.schemas,
                network=base.network,
                clock=base.clock,
                entropy=base.entropy,
                service_url=service_url,
                tls=client_tls,
                credentials=base.broker_client.credentials(),
            )
        self.catalog = Catalog(
            base.store,
            base.policies,
            self.policy_log,
            base.node.cluster_name,
            on_change=changes.note,
            is_loaded=loaded.holds,
        )

    async def forget(self, name: TopicName) -> None:
        """Delete the schemas, policies and permissions of a topic that is being deleted.

        Most topics have none, which one request finds. Its answer is not older than the mark of the deletion, which
        this session has written or read; a topic without a mark is written to by its owner alone, which this broker is.
        """
        twin = topics.twin_of(name)
        of_twin = topics.nodes_of(twin)
        others = [paths.schema(schema_id(name)), paths.namespace_policies(str(name.namespace))]
        (*rows, schemas, policies), _ = await self._store.get_all([*of_twin, *others])
        if schemas is not None and topics.kind_of(twin, rows) == (None, False):
            await self.rules.forget(name)
        await self.policy_log.forget(name)
        if grants.has_grants(policies, name):
            await grants.forget_topic(self._store, name)

    async def close(self) -> None:
        """End reads and writes of snapshots of transactions."""
        if self.snapshots is not None:
            await self.snapshots.close()


class Running:
    """The parts of a broker whose ports are bound, connected with each other."""

    def __init__(
        self,
        base: BrokerResources,
        record: BrokerRecord,
        instance: int,
        on_lost: Callable[[list[BundleName]], None],
    ) -> None:
        self._cache = base.factory.cache
        cluster = base.node.cluster_name
        self.ownership = BundleOwnership(base.store, OwnerRecord.of(record), on_lost)
        self.brokers = AdminClient(
            base.store, base.network, base.token, tls=base.broker_client.tls()
        )
        self.assignment = BundleAssignment(
            *(base.store, self.ownership, record, cluster, HashPlacer()),
            considers_load=lambda: self.dynamic.of(LoadBalanceSettings).load_balancer_enabled,
        )
        self.identity = BrokerIdentity(cluster, record.id, instance)
        self.revoked = RevokedTokens(base.store, base.clock, self._withdraw, sweeps=True)
        self.authentication = ClientAuthentication(
            base.identity, base.network, base.clock, self.revoked
        )
        access_changes = ChangeQueue[Recorded]()
        self.access = AccessRecords(
            base.store,
            on_change=access_changes.note,
            in_use=lambda name: self.revocation.needs(name),
        )
        self.context = Context(
            base.data_path,
            base.clock,
            base.entropy,
            self.identity,
            create_judge(base.identity, self.access, cluster),
            self.authentication.authenticate,
            transactions=base.transactions,
        )
        if base.transactions.transaction_coordinator_enabled:
            self.context.pending_ack_logs = StoredPendingLogs(base.factory, base.ledger_config)
        self._changes, loaded = PolicyChanges(), TopicTable[Topic]()
        self.tenancy = Tenancy(base, record, self._changes, loaded)
        self.remotes = self.context.remotes = StoredClusters(
            *(base.store, base.network, base.clock, base.entropy),
            *(base.broker_client, self.tenancy.schemas),
        )
        self.policy_log, self.catalog = self.tenancy.policy_log, self.tenancy.catalog
        self.context.transaction_snapshots = self.tenancy.snapshots
        self._serve_topics(base, record, loaded)
        self.revocation = Revocation(
            self.access, access_changes, self.context.judge, loaded, self.sessions
        )
        self.registration = BrokerRegistration(base.store, record)
        loads = BundleLoads(self.registry, self.ownership)
        self.load_reporter = LoadReporter(
            self.registration,
            loads,
            BusyShare(partial(waited_s, asyncio.get_running_loop()), base.clock.monotonic_s),
            base.clock,
            lambda: self.dynamic.of(LoadBalanceSettings),
        )
        self.load_leader = LoadLeader(
            *(base.store, self.registration, cluster, base.clock),
            lambda: self.dynamic.of(LoadBalanceSettings),
            move_by_owner(self.brokers),
        )
        self._administer(base, record, incarnation=f"{record.id}-{instance}")
        # It uses the numbers of topics and clients that the reporter counts once a minute.
        self.splitter = BundleSplitter(
            loads.loads,
            self.operations.bundles,
            lambda: self.dynamic.of(LoadBalanceSettings),
        )
        self.drain = BrokerDrain(
            *(base.store, record.id, base.clock),
            owned=self.ownership.owned,
            targets=self.assignment.targets,
            transfer=self.operations.bundles.transfers.transfer,
        )
        self.isolation = IsolationKeeper(
            base.store,
            self.ownership,
            record.id,
            cluster,
            unload=self.operations.bundles.unload_topics,
        )

    def follow_credentials(self) -> None:
        """Follow revoked tokens and changed keys, which end connections, inside the running loop."""
        self.revoked.start()
        self.authentication.start(self._withdraw)

    def _withdraw(self) -> None:
        """Close the connections of clients whose credentials are no longer valid."""
        self.sessions.close_where(self.authentication.is_withdrawn)

    async def check_own_role(self, base: BrokerResources) -> None:
        """Check that this broker logs in at brokers as a superuser, where rights are judged. Raises ProviderError."""
        present = base.broker_client.credentials()
        if present is None or not base.identity.authorization.authorization_enabled:
            return
        await check_own_role(
            self.authentication.authenticate,
            present,
            base.broker_client.broker_client_certificate_file_path,
            base.identity.access_rules(base.node.cluster_name).superusers,
        )

    def _serve_topics(
        self, base: BrokerResources, record: BrokerRecord, loaded: TopicTable[Topic]
    ) -> None:
        """Create the parts that load topics and serve clients."""
        owned: Ownership = self.assignment
        namespaces: Namespaces = self.catalog
        self.registry = TopicRegistry(
            factory=base.factory,
            ownership=owned,
            namespaces=namespaces,
            context=self.context,
            ledger_config=base.ledger_config,
            forget=self.tenancy.forget,
            loaded=loaded,
        )
        ends = TopicEnds(self.registry, loaded, owned)
        self.abandoned: AbandonedTransactions | None = None
        self.coordinators = self._coordinate(base, record, ends, loaded)
        self.sessions = Sessions(
            *(self.context, self.registry, owned, namespaces, self.tenancy.rules),
            coordinators=self.coordinators,
        )
        self.shares = GroupShares(base.store, self.registry.groups, record.id, base.clock)

    def _coordinate(
        self,
        base: BrokerResources,
        record: BrokerRecord,
        ends: TopicEnds,
        loaded: TopicTable[Topic],
    ) -> Coordinators | None:
        """Create the coordinators of transactions, where these are enabled, and the watch over abandoned ones."""
        if not base.transactions.transaction_coordinator_enabled:
            return None
        settings, tls = base.transactions, base.broker_client.tls()
        url = record.service_url if tls is None else record.service_url_tls

        async def brokers() -> list[str]:
            return [url]

        client = PulsarClient(
            network=base.network,
            clock=base.clock,
            entropy=base.entropy,
            brokers=brokers,
            settings=LinkSettings(
                client_version="Magnetar-transactions",
                credentials=base.broker_client.credentials(),
                request_timeout_s=settings.transaction_buffer_client_operation_timeout_in_mills
                / 1000,
                tls=tls,
            ),
        )
        self.abandoned = AbandonedTransactions(loaded, CoordinatorInquiry(client), base.clock)
        return Coordinators(
            ownership=self.assignment,
            namespaces=self.catalog,
            factory=base.factory,
            ledger_config=base.ledger_config,
            context=self.context,
            participants=Participants(
                client,
                settings.transaction_buffer_client_max_concurrent_requests,
                ends,
            ),
            owned=ends,
        )

    def _administer(self, base: BrokerResources, record: BrokerRecord, incarnation: str) -> None:
        """Create the parts that report on topics, keep them up and change them."""
        topic_feed = TopicFeed(self.registry, base.clock, incarnation)
        subscription_feed = SubscriptionFeed(self.registry, self.context, incarnation)
        link_feed = LinkFeed(self.registry, base.clock, incarnation)
        self.upkeep = Upkeep(
            self.registry,
            self.catalog,
            base.ledger_config,
            base.data_path,
            changes=self._changes,
            counted=(topic_feed.count, subscription_feed.count, link_feed.count),
            inactivity=Inactivity(self.registry, base.clock),
            find_ages=subscription_feed.find_ages,
        )
        self.dynamic = DynamicSettings(base.store, base.groups, self._apply_settings)
        self.orphans = OrphanRemoval(
            base.store,
            base.factory.tiered,
            base.offload,
            base.node.cluster_name,
            base.clock,
            self.registration.leads,
        )
        self.operations = AdminOperations(
            Collaborators(
                store=base.store,
                clock=base.clock,
                record=record,
                registry=self.registry,
                sessions=self.sessions,
                assignment=self.assignment,
                ownership=self.ownership,
                catalog=self.catalog,
                topic_feed=topic_feed,
                subscription_feed=subscription_feed,
                link_feed=link_feed,
                resting=RestingLogs(base.store, base.ledgers),
                schemas=self.tenancy.schemas,
                packages=self.tenancy.packages,
                dynamic=self.dynamic,
                ledgers=base.ledgers.settings,
                load_reporter=self.load_reporter,
                load_leader=self.load_leader,
                splits=lambda: self.splitter.document(),
                drain=lambda: self.drain,
                settings=base.data_path,
                ledger_config=base.ledger_config,
                forget=self.tenancy.forget,
                remotes=self.remotes,
                coordinators=self.coordinators,
                brokers=self.brokers,
                losses=self.revocation.losses,
                orphans=self.orphans,
                offload=base.offload,
            )
        )

    def _apply_settings(self, dynamic: DynamicSettings) -> None:
        """Apply changed settings at once."""
        self.context.settings = dynamic.of(DataPathSettings)
        self._cache.resize(dynamic.of(LedgerDefaults).managed_ledger_cache_size_mb << 20)
        self.catalog.use(dynamic.of(PolicySettings))
        self.registry.settings_changed()
        for topic in self.registry:
            self._changes.note(topic.name.namespace)

    async def end_transactions(self) -> None:
        """Close the coordinators, and watch over no transaction any more. Safe to call twice."""
        if self.abandoned is not None:
            with contained("end of the watch over transactions"):
                await self.abandoned.close()
        if self.coordinators is not None:
            with contained("end of the coordinators"):
                await self.coordinators.close()

    async def close(self) -> None:
        """Stop all parts without a hand-over. A part that fails is logged and does not prevent the others."""
        await self.end_transactions()
        for part, close in (
            ("upkeep", self.upkeep.close),
            ("revocation", self.revocation.close),
            ("revoked tokens", self.revoked.close),
            ("authentication", self.authentication.close),
            ("isolation", self.isolation.close),
            ("drain", self.drain.close),
            ("resource groups", self.shares.close),
            ("dynamic settings", self.dynamic.close),
            ("topic policies", self.policy_log.close),
            ("topics", partial(self.registry.close, deadline_s=1.0)),
            ("snapshots of transactions", self.tenancy.close),
            ("other clusters", self.remotes.close),
            ("sessions", self.sessions.close),
            ("ownership", self.ownership.close),
            ("access records", self.access.close),
        ):
            with contained(f"end of {part}"):
                await close()
        self.brokers.close()
        self.catalog.close()
