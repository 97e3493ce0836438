"""Load of the bundles that a broker owns, computed from the counters of its topics; nothing is counted for it."""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Mapping

from engine.base.names import BundleName, NamespaceName
from engine.broker.administration.reports import rate_out
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from engine.ownership.load.report import BundleLoad
from engine.ownership.owner import BundleOwnership

TURN_TOPICS = 200
"""Topics between which other tasks run while all are counted."""
MESSAGE_BYTES = 1_000.0
"""Bytes that weigh as much as one message when topics are compared."""


class _Index:
    """Search for the owned bundle of a topic, in logarithmic time."""

    def __init__(self, owned: Iterable[BundleName]) -> None:
        by_namespace: dict[NamespaceName, list[BundleName]] = {}
        for bundle in owned:
            by_namespace.setdefault(bundle.namespace, []).append(bundle)
        self._bundles: dict[NamespaceName, tuple[list[int], list[BundleName]]] = {}
        for namespace, bundles in by_namespace.items():
            bundles.sort(key=lambda bundle: bundle.lower)
            self._bundles[namespace] = [bundle.lower for bundle in bundles], bundles

    def of(self, topic: Topic) -> BundleName | None:
        """Return the owned bundle of a topic, None without one."""
        edges, bundles = self._bundles.get(topic.name.namespace, ((), ()))
        index = bisect_right(edges, topic.name.bundle_hash) - 1
        if index < 0 or not bundles[index].holds(topic.name.bundle_hash):
            return None
        return bundles[index]


class _Sums:
    """Sums of the rates of a bundle's topics."""

    __slots__ = ("bytes_in", "bytes_out", "hot", "hot_weight", "rate_in", "rate_out", "weight")

    def __init__(self) -> None:
        self.rate_in = self.bytes_in = self.rate_out = self.bytes_out = 0.0
        self.weight = self.hot_weight = 0.0
        self.hot = ""

    def add(self, topic: Topic) -> None:
        rate_in, bytes_in = topic.published.messages.per_second, topic.published.bytes.per_second
        rate_out_, bytes_out = 0.0, 0.0
        for subscription in topic.subscriptions.values():
            messages, size = rate_out(subscription)
            rate_out_ += messages
            bytes_out += size
        weight = rate_in + rate_out_ + (bytes_in + bytes_out) / MESSAGE_BYTES
        self.rate_in += rate_in
        self.bytes_in += bytes_in
        self.rate_out += rate_out_
        self.bytes_out += bytes_out
        self.weight += weight
        if weight > self.hot_weight:
            self.hot_weight, self.hot = weight, topic.name.full

    def load(self, counts: tuple[int, int, int]) -> BundleLoad:
        """Return the sums with the numbers of consumers, producers and topics."""
        is_hot = self.hot_weight * 2 > self.weight
        rates = self.rate_in, self.bytes_in, self.rate_out, self.bytes_out
        return BundleLoad(*rates, *counts, self.hot if is_hot else "")


_NO_COUNTS = (0, 0, 0)


class BundleLoads:
    """Loads of one broker's bundles. Rates are current; counts of topics and clients are those of ``count``."""

    def __init__(self, registry: TopicRegistry, ownership: BundleOwnership) -> None:
        self._registry = registry
        self._ownership = ownership
        self._counts: Mapping[BundleName, tuple[int, int, int]] = {}

    async def count(self) -> None:
        """Count the topics and their clients by bundle, which visits every loaded topic. Cancel-safe."""
        index = _Index(self._ownership.owned())
        counts: dict[BundleName, tuple[int, int, int]] = {}
        for number, topic in enumerate(self._registry):
            if number % TURN_TOPICS == TURN_TOPICS - 1:
                await asyncio.sleep(0)
            bundle = None if topic.closing else index.of(topic)
            if bundle is not None:
                consumers, producers, topics = counts.get(bundle, _NO_COUNTS)
                attached = sum(
                    len(subscription.consumers) for subscription in topic.subscriptions.values()
                )
                counts[bundle] = (
                    consumers + attached,
                    producers + len(topic.producers),
                    topics + 1,
                )
        self._counts = counts

    def loads(self) -> dict[BundleName, BundleLoad]:
        """Return the load of every owned bundle, those with most traffic first. Only topics in use are visited."""
        owned = self._ownership.owned()
        index = _Index(owned)
        sums: dict[BundleName, _Sums] = {}
        for topic in list(self._registry.counters.touched):
            bundle = index.of(topic)
            if bundle is not None and not topic.closing:
                sums.setdefault(bundle, _Sums()).add(topic)
        used = sorted(sums, key=lambda bundle: (-sums[bundle].weight, str(bundle)))
        rest = [bundle for bundle in owned if bundle not in sums]
        return {
            **{bundle: sums[bundle].load(self._counts.get(bundle, _NO_COUNTS)) for bundle in used},
            **{
                bundle: BundleLoad(0.0, 0.0, 0.0, 0.0, *self._counts.get(bundle, _NO_COUNTS))
                for bundle in rest
            },
        }
