"""Example messages in a few topics of a running instance: ``manage.py standalone demo``.

All topics are in the namespace ``public/demo``, whose retention keeps messages, acknowledged or not. Each call
publishes the same messages again.
"""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.budget import Budget
from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import BatchSettings, ProducerSettings, SendResult
from engine.client.producing.topic_producer import TopicProducer
from engine.net.network import LoopNetwork
from engine.wire.compression import LZ4, NONE

NAMESPACE = "public/demo"
RETENTION = {"retentionTimeInMinutes": 7 * 24 * 60, "retentionSizeInMB": 512}
RUN = 500
BATCHED = ProducerSettings(batching=BatchSettings(messages_max=100))
REQUEST_S = 30.0


class DemoError(Exception):
    """The instance refused a request or does not answer. The text names the request."""


@dataclass(frozen=True, slots=True)
class DemoTopic:
    """A topic and the messages to publish to it."""

    name: str
    count: int
    body: Callable[[int], tuple[str, dict[str, Any]]]
    """Returns the key and the payload of a message by its number."""
    partitions: int = 0
    """Number of partitions; 0 for a topic without."""
    subscription: str = ""
    """A subscription that has all messages as its backlog; empty for none."""
    settings: ProducerSettings = BATCHED

    @property
    def path(self) -> str:
        """The topic's path below ``/admin/v2``."""
        return f"/persistent/{NAMESPACE}/{self.name}"


def _order(number: int) -> tuple[str, dict[str, Any]]:
    """Return an order; about a third of all orders are of one customer, so that keys are skewed."""
    customer = f"customer-{0 if number % 3 == 0 else number * 7919 % 97:02d}"
    items = 1 + number * 31 % 7
    return customer, {"order": number, "customer": customer, "items": items, "cents": 499 * items}


def _payment(number: int) -> tuple[str, dict[str, Any]]:
    return f"account-{number * 17 % 40:02d}", {"payment": number, "cents": 100 + number * 53 % 9000}


def _click(number: int) -> tuple[str, dict[str, Any]]:
    page = "/shelf/" + "x" * (number * number % 400)
    return f"session-{number // 12}", {"page": page, "ms": number * 13 % 800}


TOPICS: Sequence[DemoTopic] = (
    DemoTopic(
        "orders",
        12_000,
        _order,
        partitions=3,
        settings=ProducerSettings(batching=BatchSettings(messages_max=100), compression=LZ4),
    ),
    DemoTopic(
        "payments",
        2_000,
        _payment,
        subscription="settlement",
        settings=ProducerSettings(compression=NONE),
    ),
    DemoTopic("clicks", 8_000, _click),
)


def fill(http: str, pulsar: str, report: Callable[[str], None], token: str = "") -> None:
    """Create the namespace and topics by REST at ``http``, publish by the broker at ``pulsar``; with ``token`` where
    the instance asks for one. Raises DemoError."""

    def rest(method: str, path: str, body: Any = None, allow: int = 204) -> None:
        _rest(http, method, path, body, allow, token)

    rest("PUT", f"/namespaces/{NAMESPACE}", allow=409)
    rest("POST", f"/namespaces/{NAMESPACE}/retention", RETENTION)
    for topic in TOPICS:
        if topic.partitions:
            rest("PUT", f"{topic.path}/partitions", topic.partitions, allow=409)
        else:
            rest("PUT", topic.path, allow=409)
        if topic.subscription:
            rest("PUT", f"{topic.path}/subscription/{topic.subscription}", allow=409)
    try:
        asyncio.run(_publish_all(pulsar, report, token))
    except MagnetarError as error:
        raise DemoError(f"{pulsar}: {error}") from error


def replicate(http: str, report: Callable[[str], None], token: str = "") -> None:
    """Replicate the topics of the namespace to all clusters of the tenant ``public``. Raises DemoError."""
    tenant = NAMESPACE.partition("/")[0]
    text = _rest(http, "GET", f"/tenants/{tenant}", None, 200, token)
    clusters = json.loads(text)["allowedClusters"]
    path = f"/namespaces/{NAMESPACE}"
    _rest(http, "PUT", path, None, 409, token)
    _rest(http, "POST", f"{path}/replication", clusters, 204, token)
    _rest(http, "POST", f"{path}/deduplication", True, 204, token)
    report(f"topics of {NAMESPACE} are replicated between {', '.join(clusters)}")


def _rest(http: str, method: str, path: str, body: Any, allow: int, token: str) -> bytes:
    """Return the answer to a call of ``path``; status ``allow`` counts as success. Raises DemoError."""
    data = b"" if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"{http}/admin/v2{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        with error:
            if error.code != allow:
                reason = error.read().decode(errors="replace")
                raise DemoError(f"{method} {request.full_url}: {error.code} {reason}") from error
            return b""
    except OSError as error:
        raise DemoError(f"{method} {request.full_url}: {error}") from error


async def _publish_all(pulsar: str, report: Callable[[str], None], token: str) -> None:
    async def brokers() -> Sequence[str]:
        return [pulsar]

    def credentials(challenge: bytes) -> tuple[str, bytes]:
        return "token", token.encode()

    client = PulsarClient(
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        brokers=brokers,
        settings=LinkSettings(credentials=credentials if token else None),
    )
    try:
        for topic in TOPICS:
            await _publish(client, topic)
            report(f"{topic.count} messages in persistent://{NAMESPACE}/{topic.name}")
    finally:
        await client.close()


async def _publish(client: PulsarClient, topic: DemoTopic) -> None:
    """Publish the messages in runs, each after the one before is stored. Raises the first error."""
    results: asyncio.Queue[SendResult] = asyncio.Queue()

    def enqueue(run: Sequence[SendResult]) -> None:
        for result in run:
            results.put_nowait(result)

    producer = await TopicProducer.open(
        client,
        f"persistent://{NAMESPACE}/{topic.name}",
        topic.settings,
        budget=Budget(64 << 20),
        on_results=enqueue,
    )
    try:
        for run in _runs(topic):
            producer.send(run)
            for _ in run:
                if (error := (await results.get()).error) is not None:
                    raise error
    finally:
        await producer.close()


def _runs(topic: DemoTopic) -> Iterator[list[OutgoingMessage]]:
    for first in range(0, topic.count, RUN):
        numbers = range(first, min(first + RUN, topic.count))
        bodies = map(topic.body, numbers)
        yield [OutgoingMessage(json.dumps(body).encode(), key=key) for key, body in bodies]
