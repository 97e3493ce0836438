"""Loads of bundles: sums of topics in use, counts of all topics, and the topic that causes most of a bundle's load."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.base.names import HASH_TOP, BundleName, NamespaceName, TopicName
from engine.broker.administration.bundle_loads import BundleLoads
from engine.ownership.load.report import BundleLoad

NAMESPACE = NamespaceName("t", "n")
HALF = 1 << 31
LOW, HIGH = BundleName(NAMESPACE, 0, HALF), BundleName(NAMESPACE, HALF, HASH_TOP)


def traffic(messages: float, size: float) -> Any:
    return SimpleNamespace(
        messages=SimpleNamespace(per_second=messages), bytes=SimpleNamespace(per_second=size)
    )


def topic(name: str, published: float, sent: float = 0.0) -> Any:
    consumer = SimpleNamespace(out=traffic(sent, sent * 10))
    return SimpleNamespace(
        name=TopicName.parse(f"persistent://t/n/{name}"),
        published=traffic(published, published * 10),
        subscriptions={"s": SimpleNamespace(consumers=[consumer])},
        producers=[object(), object()],
        closing=False,
    )


def in_bundle(bundle: BundleName, count: int) -> list[str]:
    names = (f"x{number}" for number in range(1000))
    held = [name for name in names if bundle.holds(topic(name, 0).name.bundle_hash)]
    return held[:count]


class FakeBroker:
    """The registry and the ownership of a broker with ``topics``."""

    def __init__(self, topics: list[Any], owned: list[BundleName]) -> None:
        self.topics = topics
        self._owned = owned
        in_use = [topic for topic in topics if topic.published.messages.per_second]
        self.counters = SimpleNamespace(touched=dict.fromkeys(map(_Hashed, in_use)))

    def __iter__(self) -> Any:
        return iter(self.topics)

    def owned(self) -> list[BundleName]:
        return self._owned


class _Hashed:
    """A topic that may be a key of a dict."""

    def __init__(self, topic: Any) -> None:
        self.__dict__.update(vars(topic))


async def loads_of(topics: list[Any], owned: list[BundleName]) -> dict[BundleName, BundleLoad]:
    broker: Any = FakeBroker(topics, owned)
    loads = BundleLoads(broker, broker)
    await loads.count()
    return loads.loads()


async def test_rates_are_those_of_topics_in_use_and_counts_those_of_all() -> None:
    [first, second] = in_bundle(LOW, 2)
    [third] = in_bundle(HIGH, 1)
    topics = [topic(first, 5.0, sent=2.0), topic(second, 0.0), topic(third, 100.0)]
    loads = await loads_of(topics, [LOW, HIGH])
    assert list(loads) == [HIGH, LOW]
    assert loads[LOW] == BundleLoad(5.0, 50.0, 2.0, 20.0, 2, 4, 2, topics[0].name.full)
    assert (loads[HIGH].rate_in, loads[HIGH].topics) == (100.0, 1)


async def test_bundles_without_traffic_are_there_and_those_of_others_are_not() -> None:
    [name] = in_bundle(HIGH, 1)
    assert await loads_of([topic(name, 9.0)], [LOW]) == {LOW: BundleLoad()}


@pytest.mark.parametrize(("rates", "is_hot"), [((10.0, 4.0, 4.0), True), ((5.0, 5.0, 4.0), False)])
async def test_a_topic_with_more_than_half_of_the_load_is_named(
    rates: tuple[float, ...], is_hot: bool
) -> None:
    names = in_bundle(LOW, 3)
    topics = [topic(name, rate) for name, rate in zip(names, rates, strict=True)]
    loads = await loads_of(topics, [LOW])
    assert loads[LOW].hot_topic == (topics[0].name.full if is_hot else "")


async def test_topics_that_close_do_not_count() -> None:
    [name] = in_bundle(LOW, 1)
    closing = topic(name, 9.0)
    closing.closing = True
    assert await loads_of([closing], [LOW]) == {LOW: BundleLoad()}
