"""The console's list of what needs attention, on a real instance: the most harmful situation is first, with its cause,
among many small subscriptions that connect and disconnect."""

from collections.abc import Iterator
from threading import Event, Thread
from typing import Any
from urllib.parse import quote

import pulsar
import pytest

from tests.support.instance import Instance
from tests.support.life.cast import CLUSTER, STORIES, Role, small_topics
from tests.support.life.life import Life, admin_path
from tests.support.waiting import until_blocking

CAUSES = {
    Role.STUCK: "not-acknowledged",
    Role.NO_PERMITS: "no-permits",
    Role.ORPHANED: "no-consumer",
    Role.NACKING: "redelivery",
    Role.SLOW: "slow",
    Role.HOT_KEY: "hot-key",
    Role.BLOCKED: "unacked-limit",
    Role.DELAYED: "delayed",
    Role.AT_REST: "no-consumer",
}
"""Cause of the lag of each role whose backlog does not shrink."""
MORE = {
    "persistent://shop/returns/standby": "standby",
    "persistent://shop/returns/held": "held",
    "persistent://shop/returns/restless": "reconnecting",
}
"""Topics that this test adds, each with a subscription ``s``."""
PATIENCE_S = 180.0
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


def attention(instance: Instance) -> dict[str, Any]:
    status, body = instance.rest("GET", f"/api/v1/clusters/{CLUSTER}/overview")
    assert status == 200, body
    items: dict[str, Any] = body["attention"]
    return items


def lag(instance: Instance, topic: str, subscription: str) -> Any:
    """Return the cause that the subscription's card shows; None while its backlog shrinks."""
    domain, _, rest = topic.partition("://")
    tenant, namespace, local = rest.split("/", 2)
    path = (
        f"/api/v1/clusters/{CLUSTER}/topics/{domain}/{tenant}/{namespace}/{quote(local, safe='')}"
    )
    status, body = instance.rest("GET", path)
    assert status == 200, body
    lags = [
        subscription_row["lag"]
        for subscription_row in body["subscriptions"]
        if subscription_row["name"] == subscription
    ]
    return lags[0]["cause"] if lags and lags[0] else None


class Restless:
    """Clients of the topics in ``MORE``, some of which reconnect all the time."""

    def __init__(self, url: str) -> None:
        self._client = pulsar.Client(url, logger=QUIET)
        self._url = url
        self._ended = Event()
        standby, held, restless = MORE
        kinds = pulsar.ConsumerType
        for topic, kind in ((standby, kinds.Failover), (held, kinds.Exclusive)):
            count = 2 if kind == kinds.Failover else 1
            self._keep = [
                self._client.subscribe(topic, "s", kind, receiver_queue_size=10)
                for _ in range(count)
            ]
        self._client.subscribe(restless, "s", kinds.Shared).close()
        for topic in MORE:
            producer = self._client.create_producer(topic)
            for number in range(300):
                producer.send_async(b"%d" % number, lambda *sent: None)
            producer.flush()
        self._threads = [
            Thread(target=self._reconnect, args=arguments)
            for arguments in ((held, kinds.Exclusive), (restless, kinds.Shared))
        ]
        for thread in self._threads:
            thread.start()

    def _reconnect(self, topic: str, kind: Any) -> None:
        """Connect, or try to, repeatedly."""
        while not self._ended.wait(1.0):
            try:
                self._client.subscribe(topic, "s", kind, receiver_queue_size=10).close()
            except pulsar.PulsarException:
                continue

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._client.close()


@pytest.fixture
def restless(life: Life) -> Iterator[None]:
    clients = Restless(life.instance.url)
    try:
        yield
    finally:
        clients.close()


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("restless")
def test_each_situation_has_its_cause_and_the_most_harmful_is_first(life: Life) -> None:
    instance = life.instance
    expected = {(s.topic, s.subscription): CAUSES[s.role] for s in STORIES if s.role in CAUSES}
    at_rest = {s.topic for s in STORIES if s.role is Role.AT_REST}
    expected |= {(topic, "s"): cause for topic, cause in MORE.items()}
    for (topic, subscription), cause in expected.items():
        if topic not in at_rest:
            until_blocking(
                lambda: lag(instance, topic, subscription) == cause,  # noqa: B023
                lambda: (topic, cause, lag(instance, topic, subscription)),  # noqa: B023
                poll_s=0.2,
            )
    for story in small_topics()[:30]:  # brokers that were killed before may still catch up
        until_blocking(
            lambda: lag(instance, story.topic, story.subscription) is None,  # noqa: B023
            story.topic,
            poll_s=0.2,
        )

    worst = first(instance)
    assert worst["topic"] == "persistent://shop/orders/invoices", "not the largest growing backlog"
    assert (worst["cause"], worst["severity"]) == ("no-consumer", "error")
    story = next(candidate for candidate in STORIES if candidate.topic == worst["topic"])
    path = f"{admin_path(story)}/subscription/{story.subscription}"
    assert instance.rest("DELETE", path)[0] == 204
    until_blocking(
        lambda: first(instance)["topic"] != worst["topic"], lambda: first(instance), poll_s=0.2
    )
    now = first(instance)
    assert expected[now["topic"], now["subscription"]] == now["cause"]


def first(instance: Instance) -> Any:
    """Return the first item about a subscription."""
    items = [item for item in attention(instance)["items"] if item["topic"]]
    return items[0]
