"""Key_Shared subscriptions as the official client observes them. The owner of a key differs between brokers; the
guarantees do not."""

import json
from collections import defaultdict
from typing import Any, Protocol

import pulsar

from tests.oracle.conftest import Side

KEYS = [f"key-{i}" for i in range(20)]
Policy = pulsar.ConsumerKeySharedPolicy
STICKY = pulsar.KeySharedMode.Sticky


class Bench(Protocol):
    topic: str
    side: Side

    def producer(self, **options: Any) -> pulsar.Producer: ...

    def subscribe(self, name: str = "s", **options: Any) -> pulsar.Consumer: ...


def join(bench: Bench, policy: Policy | None = None, **options: Any) -> pulsar.Consumer:
    kind = pulsar.ConsumerType.KeyShared
    return bench.subscribe(consumer_type=kind, key_shared_policy=policy, **options)


def publish(bench: Bench, start: int, stop: int) -> None:
    producer = bench.producer()
    for number in range(start, stop):
        producer.send(b"%d" % number, partition_key=KEYS[number % len(KEYS)])
    producer.close()


def drain(consumer: pulsar.Consumer, wait_ms: int = 1500) -> list[pulsar.Message]:
    got = []
    while True:
        try:
            got.append(consumer.receive(wait_ms))
        except pulsar.Timeout:
            return got


def in_order(messages: list[pulsar.Message]) -> bool:
    """Return whether the messages of every key are in order."""
    seen: dict[str, list[int]] = defaultdict(list)
    for message in messages:
        seen[message.partition_key()].append(int(message.data()))
    return all(numbers == sorted(numbers) for numbers in seen.values())


def keys(messages: list[pulsar.Message]) -> set[str]:
    return {message.partition_key() for message in messages}


def key_shared_divides_the_keys(bench: Bench) -> Any:
    consumers = [join(bench, consumer_name=f"c{i}") for i in range(3)]
    publish(bench, 0, 200)
    got = [drain(consumer) for consumer in consumers]
    owned = [keys(messages) for messages in got]
    return (
        sum(map(len, got)),
        sum(map(len, owned)),
        set.union(*owned) == set(KEYS),
        all(map(in_order, got)),
    )


def key_shared_keys_move_when_their_old_consumer_is_done(bench: Bench) -> Any:
    old = join(bench, consumer_name="old")
    publish(bench, 0, 20)
    held = drain(old)
    new = join(bench, consumer_name="new")
    publish(bench, 20, 60)
    early = drain(new)
    stayed = drain(old)
    for message in held:
        old.acknowledge(message)
    later = drain(new, 3000)
    return (
        len(held),
        len(early),
        in_order(stayed),
        in_order(later),
        not keys(stayed) & keys(later),
        keys(stayed) | keys(later) == set(KEYS),
        len(stayed) + len(later),
    )


def key_shared_out_of_order_keys_move_at_once(bench: Bench) -> Any:
    policy = Policy(allow_out_of_order_delivery=True)
    join(bench, policy, consumer_name="old")
    publish(bench, 0, 20)
    new = join(bench, policy, consumer_name="new")
    publish(bench, 20, 60)
    return bool(drain(new))


def key_shared_what_is_left_behind_comes_in_order(bench: Bench) -> Any:
    leaving = join(bench, consumer_name="leaving")
    publish(bench, 0, 60)
    drain(leaving)
    staying = join(bench, consumer_name="staying")
    leaving.close()
    got = drain(staying, 3000)
    return len(got), in_order(got), {message.redelivery_count() for message in got}


def key_shared_policies_must_agree(bench: Bench) -> Any:
    def failure(policy: Policy | None) -> str:
        try:
            join(bench, policy).close()
        except pulsar.PulsarException as error:
            return type(error).__name__
        return "none"

    first = join(bench, Policy(STICKY, False, [(0, 100), (200, 300)]))
    refused = [
        failure(policy)
        for policy in (
            None,
            Policy(STICKY, True, [(1000, 2000)]),
            Policy(STICKY, False, [(50, 60)]),
            Policy(STICKY, False, [(100, 150)]),
            Policy(STICKY, False, [(150, 250)]),
            Policy(STICKY, False, [(0, 65535)]),
            Policy(STICKY, False, [(101, 199), (301, 65535)]),
        )
    ]
    first.close()
    return refused, failure(Policy(allow_out_of_order_delivery=True)), failure(None)


def key_shared_stats(bench: Bench) -> Any:
    consumer = join(bench, consumer_name="alone")
    publish(bench, 0, 20)
    drain(consumer)
    path = f"/admin/v2/{bench.topic.replace('://', '/')}/stats"
    subscription = json.loads(bench.side.call("GET", path)[1])["subscriptions"]["s"]
    (stats,) = subscription["consumers"]
    names = ("type", "keySharedMode", "allowOutOfOrderDelivery", "drainingHashesCount")
    ours = ("keyHashRangeArrays", "drainingHashes", "unackedMessages", "drainingHashesCount")
    return {name: subscription.get(name) for name in names}, {
        name: stats.get(name) for name in ours
    }


def key_shared_sticky_stats(bench: Bench) -> Any:
    join(bench, Policy(STICKY, True, [(0, 100), (200, 300)]), consumer_name="alone")
    path = f"/admin/v2/{bench.topic.replace('://', '/')}/stats"
    subscription = json.loads(bench.side.call("GET", path)[1])["subscriptions"]["s"]
    (stats,) = subscription["consumers"]
    mode = subscription.get("keySharedMode"), subscription.get("allowOutOfOrderDelivery")
    return mode, stats.get("keyHashRangeArrays"), stats.get("drainingHashes")


SCENARIOS = (
    key_shared_divides_the_keys,
    key_shared_keys_move_when_their_old_consumer_is_done,
    key_shared_out_of_order_keys_move_at_once,
    key_shared_what_is_left_behind_comes_in_order,
    key_shared_policies_must_agree,
    key_shared_stats,
    key_shared_sticky_stats,
)
