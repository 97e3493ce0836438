"""Administrative operations on a broker: its health, its load and the statistics of all its topics."""

import asyncio
from collections.abc import Callable

from engine.admin.api.arguments import JsonObject, NoArguments
from engine.admin.api.brokers import (
    BROKER_METRICS,
    CHECK_QUOTAS,
    DRAIN_BROKER,
    DRAIN_PLAN,
    END_DRAIN,
    HEALTH,
    LOAD_BALANCE,
    LOAD_REPORT,
    REPLICATION,
    TOPICS_STATS,
    DrainBroker,
    EndDrain,
    TopicsPage,
)
from engine.base.errors import InvalidRequest, MagnetarError, NotReady
from engine.base.names import BundleName
from engine.broker.administration.broker_stats import (
    namespace_metrics,
    topic_line,
)
from engine.broker.control.dynamic_settings import DynamicSettings
from engine.broker.control.load.broker_drain import NO_PLACE, BrokerDrain, Targets
from engine.broker.control.load.leader import LoadLeader
from engine.broker.control.load.reporting import LoadReporter
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from engine.ledger.settings import LedgerSettings
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.ownership.load.draining import DrainMark, drain_marks, end_draining, obstacle
from engine.ownership.load.report import find_bundle
from engine.ownership.owner import BundleOwnership
from engine.ownership.registration import BrokerRecord, live_brokers
from engine.rpc.operation import Handlers, bind

PAGE_TOPICS = 1_000
"""Topics in one answer."""
TURN_TOPICS = 50
"""Topics between which other tasks run."""
TURN_POLICIES = 1_000
"""Topics between which other tasks run, where only the policies of each are read."""
SESSION = "metadataStoreSessionTimeoutMillis"
DEFAULT_QUORUMS = (
    "managedLedgerDefaultEnsembleSize",
    "managedLedgerDefaultWriteQuorum",
    "managedLedgerDefaultAckQuorum",
)


def _of_mark(mark: DrainMark) -> JsonObject:
    return {"at_ms": mark.at_ms, "by": mark.by}


class BrokerOperations:
    """Handlers of the operations, which ``engine.admin.api.brokers`` describes."""

    def __init__(
        self,
        store: MetadataStore,
        registry: TopicRegistry,
        ownership: BundleOwnership,
        dynamic: DynamicSettings,
        ledgers: LedgerSettings,
        record: BrokerRecord,
        load_reporter: LoadReporter,
        load_leader: LoadLeader,
        splits: Callable[[], list[JsonObject]],
        drain: Callable[[], BrokerDrain],
        targets: Targets,
    ) -> None:
        """``splits`` returns the overloaded bundles that are not split, as LOAD_BALANCE does; ``drain`` the drain of
        this broker; ``targets`` the next owners that it would choose."""
        self._drain = drain
        self._targets = targets
        self._store = store
        self._registry = registry
        self._ownership = ownership
        self._dynamic = dynamic
        self._ledgers = ledgers
        self._record = record
        self._load_reporter = load_reporter
        self._load_leader = load_leader
        self._splits = splits

    @property
    def handlers(self) -> Handlers:
        return dict(
            [
                bind(CHECK_QUOTAS, self.check_quotas),
                bind(REPLICATION, self.replication),
                bind(LOAD_REPORT, self.load_report),
                bind(LOAD_BALANCE, self.load_balance),
                bind(DRAIN_PLAN, self.drain_plan),
                bind(DRAIN_BROKER, self.drain_broker),
                bind(END_DRAIN, self.end_drain),
                bind(TOPICS_STATS, self.topics_stats),
                bind(BROKER_METRICS, self.broker_metrics),
                bind(HEALTH, self.health),
            ]
        )

    async def check_quotas(self, args: NoArguments) -> None:
        failures: list[str] = []
        for topic in self._registry:
            if topic.closing:
                continue
            try:
                await topic.quotas.check()
            except MagnetarError as error:
                failures.append(f"{topic.name}: {error}")
            await asyncio.sleep(0)
        if failures:
            raise NotReady(f"{len(failures)} topics could not be checked, first {failures[0]}")

    async def replication(self, args: NoArguments) -> JsonObject:
        settings = self._dynamic.runtime()
        counts: dict[tuple[int, int, int], int] = {}
        namespaces: dict[tuple[int, int, int], set[str]] = {}
        for index, topic in enumerate(list(self._registry)):
            if topic.name.persistent and not topic.closing:
                policies = topic.policies
                quorums = (
                    policies.storage.ensemble,
                    policies.storage.write_quorum,
                    policies.storage.ack_quorum,
                )
                counts[quorums] = counts.get(quorums, 0) + 1
                namespaces.setdefault(quorums, set()).add(str(topic.name.namespace))
            if index % TURN_POLICIES == TURN_POLICIES - 1:
                await asyncio.sleep(0)
        return {
            "session_ms": int(settings[SESSION]) if SESSION in settings else None,
            "default": [int(settings[name]) for name in DEFAULT_QUORUMS],
            "regions": [
                self._ledgers.regions_min if self._ledgers.region_aware else 0,
                self._ledgers.regions_to_write,
            ],
            "topics": [
                [*quorums, counts[quorums], len(namespaces[quorums])] for quorums in sorted(counts)
            ],
        }

    def _bundle(self, topic: Topic) -> str:
        """Return the range of the topic's bundle; empty while the bundles of its namespace are not known."""
        bundle = self._ownership.known_bundle(topic.name)
        return bundle.range if bundle is not None else ""

    async def load_report(self, args: NoArguments) -> JsonObject:
        document = self._record.document(await self._load_reporter.current())
        # Our additions to Pulsar's fields, one of them a private address.
        additions = ("adminRpcUrl", "hotTopics", "moreStats")
        return {name: value for name, value in document.items() if name not in additions}

    async def load_balance(self, args: NoArguments) -> JsonObject:
        marks = await drain_marks(self._store)
        return {
            **await self._load_leader.document(),
            "splits": self._splits(),
            "draining": {broker: _of_mark(mark) for broker, mark in marks.items()},
            "drain": self._drain().document(),
        }

    async def drain_plan(self, args: NoArguments) -> JsonObject:
        loads = (await self._load_reporter.current()).bundles
        destinations = await self._targets(loads)
        marks, own = await drain_marks(self._store), self._record.id
        if own in marks:
            problem = f"{own} is being drained already"
        else:
            problem = obstacle(own, marks, await live_brokers(self._store))
        return {
            "bundles": [
                {
                    "bundle": str(bundle),
                    "destination": destinations.get(bundle, ""),
                    "reason": "" if bundle in destinations else NO_PLACE,
                    "topics": loads[bundle].topics,
                    "producers": loads[bundle].producers,
                    "consumers": loads[bundle].consumers,
                }
                for bundle in sorted(loads, key=str)
            ],
            "problem": problem,
        }

    async def drain_broker(self, args: DrainBroker) -> JsonObject:
        destinations: dict[BundleName, str] = {}
        for name, destination in args.destinations.items():
            bundle = find_bundle(name)
            if bundle is None:
                raise InvalidRequest(f"destinations: {name[:100]} is no bundle")
            destinations[bundle] = destination
        return {"before": None, **_of_mark(await self._drain().begin(destinations, args.by))}

    async def end_drain(self, args: EndDrain) -> JsonObject:
        mark = await end_draining(self._store, args.broker, args.at_ms)
        return {"before": None if mark is None else _of_mark(mark)}

    async def topics_stats(self, args: TopicsPage) -> JsonObject:
        following = [topic for topic in self._registry.topics() if topic.name.full > args.after]
        page = following[:PAGE_TOPICS]
        stats: JsonObject = {}
        for index, topic in enumerate(page):
            if not topic.closing:
                domain = "persistent" if topic.name.persistent else "non-persistent"
                bundles = stats.setdefault(str(topic.name.namespace), {})
                topics = bundles.setdefault(self._bundle(topic), {}).setdefault(domain, {})
                topics[topic.name.full] = topic_line(topic, self._record.id)
            if index % TURN_TOPICS == TURN_TOPICS - 1:
                await asyncio.sleep(0)
        more = len(following) > len(page)
        return {"topics": stats, "next": page[-1].name.full if more else None}

    async def broker_metrics(self, args: NoArguments) -> list[JsonObject]:
        return namespace_metrics(topic for topic in self._registry if not topic.closing)

    async def health(self, args: NoArguments) -> str:
        record = await self._store.exists(paths.broker(self._record.id))
        if record is None or record.ephemeral_owner != self._store.session_id:
            raise NotReady("This broker is not registered")
        return "ok"
