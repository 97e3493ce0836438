"""A topic's life over changes of brokers: what each subscription has yet to get, held against what it gets."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pulsar

from tests.crash.load import quiet_client

SUBSCRIPTIONS = {
    "untouched": pulsar.ConsumerType.Exclusive,
    "up-to": pulsar.ConsumerType.Exclusive,  # acknowledged cumulatively
    "here and/there": pulsar.ConsumerType.Shared,  # acknowledged one by one
    "in/batches": pulsar.ConsumerType.Shared,  # the same, single messages of batches too
}
SHARED = {name for name, kind in SUBSCRIPTIONS.items() if kind is pulsar.ConsumerType.Shared}


class Story:
    """Messages 0, 1, 2 … of one topic. ``left``: what each subscription has not acknowledged."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.sent = 0
        self.left: dict[str, set[int]] = {name: set() for name in SUBSCRIPTIONS}

    def subscribe(self, url: str) -> None:
        """Make the subscriptions, at the beginning."""
        with client_of(url) as client:
            for name in SUBSCRIPTIONS:
                self._consumer(client, name).close()

    def publish(self, url: str, count: int, *, batched: bool = False) -> None:
        with client_of(url) as client:
            producer = client.create_producer(
                self.topic,
                producer_name="story",  # one name over all brokers
                batching_enabled=batched,
                batching_max_publish_delay_ms=50,
                properties={"told-by": "story"},
                send_timeout_millis=60_000,
            )
            done: list[pulsar.Result] = []
            for number in range(self.sent, self.sent + count):
                producer.send_async(b"%d" % number, lambda result, _: done.append(result))
            producer.flush()
            assert {str(result) for result in done} == {str(pulsar.Result.Ok)}
            assert len(done) == count
            producer.close()
        for left in self.left.values():
            left.update(range(self.sent, self.sent + count))
        self.sent += count

    def acknowledge(self, url: str, name: str, numbers: Iterable[int]) -> None:
        """Get everything left, acknowledge ``numbers``: for ``up-to`` all up to the greatest of them."""
        wanted = set(numbers)
        with client_of(url) as client:
            consumer = self._consumer(client, name)
            got = self._receive(consumer, name)
            for number, message in got.items():
                if name == "up-to" and number == max(wanted):
                    consumer.acknowledge_cumulative(message)
                elif name != "up-to" and number in wanted:
                    consumer.acknowledge(message)
            consumer.close()
        self.left[name] -= set(range(max(wanted) + 1)) if name == "up-to" else wanted

    def verify(self, url: str) -> None:
        """Check that every subscription receives its remaining messages in order and no others; acknowledge none."""
        with client_of(url) as client:
            for name in SUBSCRIPTIONS:
                consumer = self._consumer(client, name)
                got = self._receive(consumer, name)
                if name not in SHARED:
                    assert list(got) == sorted(got)
                consumer.close()

    def _consumer(self, client: pulsar.Client, name: str) -> pulsar.Consumer:
        return client.subscribe(
            self.topic,
            name,
            SUBSCRIPTIONS[name],
            initial_position=pulsar.InitialPosition.Earliest,
            batch_index_ack_enabled=name == "in/batches",
        )

    def _receive(self, consumer: pulsar.Consumer, name: str) -> dict[int, pulsar.Message]:
        got: dict[int, pulsar.Message] = {}
        while set(got) != self.left[name]:
            try:
                message = consumer.receive(20_000)
            except pulsar.Timeout:
                missing = sorted(self.left[name] - set(got))
                raise AssertionError(f"{self.topic} {name}: {missing} did not come") from None
            number = int(message.data())
            assert number in self.left[name], f"{self.topic} {name}: {number} came again"
            got[number] = message
        try:
            more = consumer.receive(150)
        except pulsar.Timeout:
            return got
        raise AssertionError(f"{self.topic} {name}: {more.data()!r} came beyond what is left")


@contextmanager
def client_of(url: str) -> Iterator[pulsar.Client]:
    """Quiet, and patient with brokers that have just started."""
    client = quiet_client(url)
    try:
        yield client
    finally:
        client.close()
