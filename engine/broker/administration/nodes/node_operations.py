"""Administrative operations on a broker: its settings, its load and the statistics of all its topics."""

import asyncio

from engine.admin.api.arguments import JsonObject, NoArguments
from engine.admin.api.brokers import (
    BROKER_METRICS,
    CHECK_QUOTAS,
    LOAD_REPORT,
    REPLICATION,
    TOPICS_STATS,
    TopicsPage,
)
from engine.admin.api.dynamic_settings import (
    CHANGE_SETTING,
    DYNAMIC_SETTINGS,
    LIVE_SETTINGS,
    RUNTIME_SETTINGS,
    ChangeSetting,
    LiveSettings,
)
from engine.admin.operation import Handlers, bind
from engine.base.clock import Clock
from engine.base.errors import Failed, MagnetarError, NotReady
from engine.broker.administration.nodes.broker_stats import (
    load_report,
    namespace_metrics,
    topic_line,
)
from engine.broker.control.dynamic_settings import ANYTHING, DynamicSettings
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from engine.ownership.owner import BundleOwnership
from engine.ownership.registration import BrokerRecord

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


class NodeOperations:
    """Handlers of the operations; ``engine.admin.api`` describes each."""

    def __init__(
        self,
        registry: TopicRegistry,
        ownership: BundleOwnership,
        dynamic: DynamicSettings,
        record: BrokerRecord,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._ownership = ownership
        self._dynamic = dynamic
        self._record = record
        self._clock = clock

    @property
    def handlers(self) -> Handlers:
        return dict(
            [
                bind(DYNAMIC_SETTINGS, self.dynamic_settings),
                bind(CHANGE_SETTING, self.change_setting),
                bind(CHECK_QUOTAS, self.check_quotas),
                bind(LIVE_SETTINGS, self.live_settings),
                bind(RUNTIME_SETTINGS, self.runtime_settings),
                bind(REPLICATION, self.replication),
                bind(LOAD_REPORT, self.load_report),
                bind(TOPICS_STATS, self.topics_stats),
                bind(BROKER_METRICS, self.broker_metrics),
            ]
        )

    async def dynamic_settings(self, args: NoArguments) -> JsonObject:
        return {"names": self._dynamic.names, "values": dict(await self._stored())}

    async def _stored(self) -> JsonObject:
        try:
            return dict(await self._dynamic.values())
        except ValueError as error:
            raise Failed(str(error)) from error

    async def change_setting(self, args: ChangeSetting) -> JsonObject:
        expected = args.expected if args.checked else ANYTHING
        return {"before": await self._dynamic.change(args.name, args.value, expected=expected)}

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

    async def live_settings(self, args: LiveSettings) -> list[JsonObject]:
        if not args.name:
            return self._dynamic.live()
        return self._dynamic.live_if(args.name, args.value)

    async def runtime_settings(self, args: NoArguments) -> dict[str, str]:
        return self._dynamic.runtime()

    async def replication(self, args: NoArguments) -> JsonObject:
        settings = self._dynamic.runtime()
        counts: dict[tuple[int, int, int], int] = {}
        namespaces: dict[tuple[int, int, int], set[str]] = {}
        for index, topic in enumerate(list(self._registry)):
            if topic.name.persistent and not topic.closing:
                policies = topic.policies
                quorums = policies.ensemble, policies.write_quorum, policies.ack_quorum
                counts[quorums] = counts.get(quorums, 0) + 1
                namespaces.setdefault(quorums, set()).add(str(topic.name.namespace))
            if index % TURN_POLICIES == TURN_POLICIES - 1:
                await asyncio.sleep(0)
        return {
            "session_ms": int(settings[SESSION]) if SESSION in settings else None,
            "default": [int(settings[name]) for name in DEFAULT_QUORUMS],
            "topics": [
                [*quorums, counts[quorums], len(namespaces[quorums])] for quorums in sorted(counts)
            ],
        }

    def _bundle(self, topic: Topic) -> str:
        """Return the range of the topic's bundle; empty while the bundles of its namespace are not known."""
        bundle = self._ownership.known_bundle(topic.name)
        return bundle.range if bundle is not None else ""

    async def load_report(self, args: NoArguments) -> JsonObject:
        topics = [
            (f"{topic.name.namespace}/{self._bundle(topic)}", topic)
            for topic in self._registry
            if not topic.closing
        ]
        bundles = [str(bundle) for bundle in self._ownership.owned()]
        return load_report(self._record, bundles, topics, self._clock.wall_ms())

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
