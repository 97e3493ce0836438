"""Rates, sizes and types of subscriptions by policy, as the official client meets them on both brokers."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition

from tests.oracle.conftest import Side

NAMESPACE = "public/rates"
REST = f"/admin/v2/persistent/{NAMESPACE}"
SPAN_S = 6.0
SEEN_S = 15.0
"""Apache's broker heeds a topic's policies after a while."""
SIZE = 1000


@pytest.fixture(scope="module")
def prepared(sides: tuple[Side, Side]) -> tuple[Side, Side]:
    for side in sides:
        assert side.put(f"/admin/v2/namespaces/{NAMESPACE}") == 204
    return sides


@contextmanager
def connected(side: Side) -> Iterator[pulsar.Client]:
    client = pulsar.Client(
        side.url,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        operation_timeout_seconds=10,
    )
    try:
        yield client
    finally:
        client.close()


def set_policy(side: Side, topic: str, policy: str, value: Any) -> None:
    """Set a policy of a topic, create the topic if need be, and return once the policy is in force."""
    assert side.put(f"{REST}/{topic}") in (204, 409)
    assert side.put(f"{REST}/{topic}/subscription/kept") in (204, 409)
    assert side.post(f"{REST}/{topic}/{policy}", value) == 204
    until = time.monotonic() + SEEN_S
    while side.call("GET", f"{REST}/{topic}/{policy}")[0] != 200 and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1.0)


def publish(client: pulsar.Client, topic: str, seconds: float, size: int) -> tuple[int, float]:
    """Messages that a producer who never waits got receipts for, and in how many seconds, past the first two."""
    done: list[float] = []

    def confirmed(result: pulsar.Result, _: object) -> None:
        if result == pulsar.Result.Ok:
            done.append(time.monotonic())

    producer = client.create_producer(
        f"persistent://{NAMESPACE}/{topic}",
        batching_enabled=False,
        block_if_queue_full=True,
        max_pending_messages=100,
        send_timeout_millis=60_000,
    )
    began = time.monotonic()
    while time.monotonic() < began + seconds + 2:
        producer.send_async(bytes(size), confirmed)
    late = [at for at in done if at > began + 2]
    return len(late), late[-1] - began - 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ({"publishThrottlingRateInMsg": 200}, 200.0),
        ({"publishThrottlingRateInByte": 100 * SIZE}, 97.0),
    ],
)
def test_a_publish_rate_is_held_on_both(
    prepared: tuple[Side, Side], policy: dict[str, int], wanted: float
) -> None:
    for side in prepared:
        topic = f"publish-{next(iter(policy))}"
        set_policy(side, topic, "publishRate", policy)
        with connected(side) as client:
            count, seconds = publish(client, topic, SPAN_S, SIZE)
        assert count / seconds == pytest.approx(wanted, rel=0.1), side.name


def received(client: pulsar.Client, topic: str, seconds: float) -> float:
    """Messages per second that a consumer who never waits got, past the first two seconds."""
    consumer = client.subscribe(
        f"persistent://{NAMESPACE}/{topic}",
        "fast",
        ConsumerType.Shared,
        initial_position=InitialPosition.Earliest,
        receiver_queue_size=1000,
    )
    began = time.monotonic()
    count = 0
    while (now := time.monotonic()) < began + seconds + 2:
        try:
            consumer.acknowledge(consumer.receive(int(1000 * (began + seconds + 2 - now)) + 1))
        except pulsar.Timeout:
            break
        count += time.monotonic() > began + 2
    return count / seconds


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "policy", ["dispatchRate", "subscriptionDispatchRate", "fast/dispatchRate"]
)
def test_a_dispatch_rate_is_held_on_both(prepared: tuple[Side, Side], policy: str) -> None:
    value = {
        "dispatchThrottlingRateInMsg": 100,
        "dispatchThrottlingRateInByte": -1,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 1,
    }
    for side in prepared:
        topic = f"dispatch-{policy.replace('/', '-')}"
        set_policy(side, topic, policy, value)
        with connected(side) as client:
            producer = client.create_producer(
                f"persistent://{NAMESPACE}/{topic}", batching_enabled=False
            )
            for _ in range(1500):
                producer.send_async(b"m", None)
            producer.flush()
            assert received(client, topic, SPAN_S) == pytest.approx(100, rel=0.2), side.name


def outcome(call: Callable[[], object]) -> str:
    """Ok, or the kind of error that the client raised."""
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "Ok"


def once(side: Side, name: str) -> None:
    """Consume with a new client whose first consumer has this name, and therefore the same id each time."""
    with connected(side) as client:
        topic = f"persistent://{NAMESPACE}/often"
        client.subscribe(topic, "s", ConsumerType.Shared, consumer_name=name)


@pytest.mark.timeout(300)
def test_too_frequent_subscribers_are_refused_alike(prepared: tuple[Side, Side]) -> None:
    stories = []
    for side in prepared:
        rate = {"subscribeThrottlingRatePerConsumer": 2, "ratePeriodInSecond": 600}
        set_policy(side, "often", "subscribeRate", rate)

        stories.append([outcome(partial(once, side, name)) for name in (*"aaaa", "b")])
    theirs, ours = stories
    assert ours == theirs
    assert ours[:2] == ["Ok", "Ok"]
    assert "Ok" not in ours[2:4]
    assert ours[4] == "Ok"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("level", ["topic", "namespace"])
def test_types_that_are_not_enabled_are_refused_alike(
    prepared: tuple[Side, Side], level: str
) -> None:
    stories = []
    for side in prepared:
        topic = f"types-of-{level}"
        if level == "topic":
            set_policy(side, topic, "subscriptionTypesEnabled", ["Shared", "Failover"])
        else:
            path = f"/admin/v2/namespaces/{NAMESPACE}/subscriptionTypesEnabled"
            assert side.post(path, ["Shared", "Failover"]) == 204
            assert side.put(f"{REST}/{topic}") == 204
            time.sleep(1.0)
        kinds = (
            ConsumerType.Exclusive,
            ConsumerType.Shared,
            ConsumerType.Failover,
            ConsumerType.KeyShared,
        )
        with connected(side) as client:
            subscribe = partial(client.subscribe, f"persistent://{NAMESPACE}/{topic}")
            stories.append([outcome(partial(subscribe, kind.name, kind)) for kind in kinds])
        if level == "namespace":
            assert side.call("DELETE", path)[0] == 204
    theirs, ours = stories
    assert ours == theirs
    assert ours[1:3] == ["Ok", "Ok"]
