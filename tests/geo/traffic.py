"""Numbered messages from every cluster to every topic through the official client, and what each cluster holds of them.

A message ``us/p1:5.`` is the fifth of a producer at the cluster ``us``. Each cluster must hold those of all clusters
once, in order per producer.
"""

import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulsar

from tests.crash.load import quiet_client

NAME = re.compile(rb"([^:]+):(\d+)\.")
FILLER = b"." * 100
POLL_MS = 500
PENDING_MAX = 500
LIVE, AUDIT = "live", "audit"


class Stream:
    """Messages 0, 1, 2 … of one producer at one topic. ``confirmed`` and ``sent`` count them."""

    def __init__(self, client: pulsar.Client, cluster: str, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.name = f"{cluster}/{topic.rpartition('/')[2]}"
        self.sent = 0
        self.confirmed = 0
        self.failed: list[str] = []
        self._producer = client.create_producer(
            topic,
            producer_name=self.name,
            send_timeout_millis=0,
            max_pending_messages=PENDING_MAX,
            block_if_queue_full=True,
            batching_enabled=True,
            batching_max_publish_delay_ms=10,
        )

    def send(self) -> None:
        """Send the next message unless too many wait for receipts."""
        if self.sent - self.confirmed - len(self.failed) >= PENDING_MAX - 1:
            return
        data = b"%s:%d." % (self.name.encode(), self.sent) + FILLER
        self.sent += 1
        self._producer.send_async(data, self._on_receipt)

    def _on_receipt(self, result: pulsar.Result, message_id: pulsar.MessageId) -> None:
        if result == pulsar.Result.Ok:
            self.confirmed += 1
        else:
            self.failed.append(str(result))


class Holding:
    """Messages that a subscription of all topics of a cluster received, by stream and in order of arrival."""

    def __init__(self, client: pulsar.Client, cluster: str, topics: Sequence[str]) -> None:
        self.cluster = cluster
        self._client = client
        self._topics = list(topics)
        self._places: dict[tuple[str, str], dict[int, tuple[int, ...]]] = defaultdict(dict)
        """Place of each number, by topic and stream."""
        self._next: Counter[tuple[str, str]] = Counter()
        self.received = 0
        self.wrong: list[str] = []
        self.doubled: list[str] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._consumer: Any = None

    def begin(self, subscription: str) -> None:
        self._consumer = self._client.subscribe(
            self._topics,
            subscription,
            consumer_type=pulsar.ConsumerType.Failover,
            initial_position=pulsar.InitialPosition.Earliest,
            receiver_queue_size=200,
        )
        self._thread = threading.Thread(target=self._receive, name=f"holding {self.cluster}")
        self._thread.start()

    def _receive(self) -> None:
        while not self._stop.is_set():
            try:
                message = self._consumer.receive(timeout_millis=POLL_MS)
            except pulsar.Timeout:
                continue
            self._note(message)
            self._consumer.acknowledge(message)

    def _note(self, message: Any) -> None:
        match = NAME.match(message.data())
        if match is None:
            self.wrong.append(f"{message.data()[:40]!r} in {message.topic_name()}")
            return
        name, number = match[1].decode(), int(match[2])
        message_id = message.message_id()
        place = (message_id.ledger_id(), message_id.entry_id(), message_id.batch_index())
        stream = (message.topic_name(), name)
        known = self._places[stream].setdefault(number, place)
        if known != place:
            self.doubled.append(f"{name}:{number} is at {known} and at {place} of {self.cluster}")
        elif number == self._next[stream]:
            self._next[stream] += 1
            self.received += 1
        elif number > self._next[stream]:
            wanted = self._next[stream]
            self.wrong.append(f"{name}:{number} came to {self.cluster} before {name}:{wanted}")
            self._next[stream] = number + 1

    def lacks(self, streams: Sequence[Stream]) -> int:
        """Return the number of messages that were sent and did not arrive."""
        return sum(s.sent - self._next[(s.topic, s.name)] for s in streams)

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(30)
        self._client.close()


class Traffic:
    """A producer at each cluster for each topic, and at each cluster a consumer of all topics."""

    def __init__(
        self, urls: Mapping[str, str], topics: Sequence[str], rate: float, log: str
    ) -> None:
        """Subscribe. ``urls``: of the brokers by cluster. ``rate``: messages per second of all producers together."""
        self.topics = list(topics)
        self._connect: Callable[[str], pulsar.Client] = lambda url: quiet_client(url, log)
        self._urls = urls
        self._clients = {name: self._connect(url) for name, url in urls.items()}
        self.holdings = [self._holding(name) for name in urls]
        for holding in self.holdings:
            holding.begin(LIVE)
        for name in urls:  # keeps all for the audit
            client = self._connect(urls[name])
            client.subscribe(self.topics, AUDIT, initial_position=pulsar.InitialPosition.Earliest)
            client.close()
        self.streams: list[Stream] = []
        self._rate = rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, name="send")

    def begin(self) -> None:
        """Begin to send."""
        self.streams = [
            Stream(client, name, topic)
            for name, client in self._clients.items()
            for topic in self.topics
        ]
        self._thread.start()

    def _holding(self, name: str) -> Holding:
        return Holding(self._connect(self._urls[name]), name, self.topics)

    def _send(self) -> None:
        due, pause_s = time.monotonic(), len(self.streams) / self._rate
        while not self._stop.is_set():
            for stream in self.streams:
                stream.send()
            due = max(due + pause_s, time.monotonic() - 1.0)
            self._stop.wait(max(due - time.monotonic(), 0.0))

    @property
    def confirmed(self) -> int:
        return sum(stream.confirmed for stream in self.streams)

    def stop_sending(self, timeout_s: float) -> None:
        """Send no more; return when everything has a receipt. Raises TimeoutError."""
        self._stop.set()
        self._thread.join(30)
        until = time.monotonic() + timeout_s
        while open_streams := [
            s.name for s in self.streams if s.confirmed + len(s.failed) < s.sent
        ]:
            if time.monotonic() > until:
                raise TimeoutError(f"messages of {', '.join(open_streams)} got no answer")
            time.sleep(0.05)

    def audit(self) -> list[Holding]:
        """Return new holdings of every cluster, which read all from the beginning."""
        made = [self._holding(name) for name in self._urls]
        for holding in made:
            holding.begin(AUDIT)
        return made

    def wait_all(self, holdings: Sequence[Holding], timeout_s: float) -> None:
        """Wait until all that was sent arrived, or nothing more arrives for ``timeout_s``."""
        before, until = -1, time.monotonic() + timeout_s
        while sum(holding.lacks(self.streams) for holding in holdings):
            received = sum(holding.received for holding in holdings)
            if received != before:
                before, until = received, time.monotonic() + timeout_s
            elif time.monotonic() > until:
                return
            time.sleep(0.2)

    def problems(self, holdings: Sequence[Holding]) -> list[str]:
        """Return what is wrong with holdings that waited for all."""
        wrong = [f"{s.name} was refused: {s.failed[0]}" for s in self.streams if s.failed]
        for holding in holdings:
            of_it = [*holding.wrong, *holding.doubled]
            wrong += of_it[:5]
            if len(of_it) > 5:
                wrong.append(f"and {len(of_it) - 5} more in {holding.cluster}")
            if lacking := holding.lacks(self.streams):
                wrong.append(f"{lacking} messages are not in {holding.cluster}")
        return wrong

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(30)
        for holding in self.holdings:
            holding.close()
        for client in self._clients.values():
            client.close()
