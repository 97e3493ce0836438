"""The users of the topics: all producers and consumers of the life, by the official client, in one process.

``python -m tests.support.life.actors URL`` prints ``{"ready": true}`` when every backlog is as its story demands, then
answers each line on its standard input with the counts by topic, until that ends.
"""

import heapq
import itertools
import json
import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TextIO

import pulsar

from tests.support.life.cast import IN_FLIGHT_MAX, STORIES, Role, Story, small_topics
from tests.support.life.described import describe

TICK_S = 0.1
HANDS = 8
"""Topics that are set up at once."""
SLOW_PER_S = 5
HOT_SHARE = 0.9
NACK_AFTER_MS = 2_000
DUE_AFTER_MS = 24 * 3_600_000
PENDING_MAX = 500
"""Messages that may be pending on a topic whose broker is unavailable. Beyond them none are sent, since a full queue
would block all other topics."""
SETTLE_S, BOTH_S = 1.0, 5.0
"""Times after a second consumer was attached, in seconds: until the first has worked off its queue, and for how long
acknowledgements are then watched."""
Work = Callable[[], None]


@dataclass(slots=True)
class Counts:
    """Messages of a topic that were given to the client, confirmed by the broker, acknowledged by its consumers."""

    tried: int = 0
    confirmed: int = 0
    acknowledged: int = 0


class Schedule:
    """Periodic jobs, all run in the thread that calls ``turn``."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, float, Work]] = []
        self._number = itertools.count()
        self._lock = threading.Lock()

    def every(self, period_s: float, work: Work) -> None:
        """Add a job. It runs first after a random part of the period, so that jobs are spread in time."""
        with self._lock:
            at = time.monotonic() + random.random() * period_s
            heapq.heappush(self._due, (at, next(self._number), period_s, work))

    def turn(self) -> None:
        """Run the jobs that are due. Runs that a busy machine missed are not made up for."""
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            at, number, period_s, work = heapq.heappop(self._due)
            heapq.heappush(self._due, (max(at + period_s, now), number, period_s, work))
            with suppress(pulsar.PulsarException):  # its broker is unavailable, or the life ends
                work()


class Holder:
    """A consumer that keeps the last one to six messages and acknowledges those before them."""

    def __init__(self, consumer: pulsar.Consumer, counts: Counts) -> None:
        self._consumer, self._counts = consumer, counts
        self._held: deque[Any] = deque()

    def take(self) -> None:
        while (message := taken(self._consumer)) is not None:
            self._held.append(message)
            keep = random.randint(1, IN_FLIGHT_MAX)
            while len(self._held) > keep:
                self._consumer.acknowledge(self._held.popleft())
                self._counts.acknowledged += 1


def taken(consumer: pulsar.Consumer) -> Any | None:
    """Return a message that has already arrived, else None."""
    try:
        return consumer.receive(timeout_millis=1)
    except pulsar.Timeout:
        return None
    except pulsar.PulsarException:  # closed: the life ends
        return None


class Actors:
    """One client with all producers and consumers."""

    def __init__(self, url: str, output: TextIO) -> None:
        self._output = output
        self._client = pulsar.Client(
            url,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
            operation_timeout_seconds=60,
        )
        self._schedule = Schedule()
        self.counts: dict[str, Counts] = {}
        self._closing = False
        self._attached: list[object] = []

    def begin(self, stories: Iterable[Story]) -> None:
        """Create the users of all stories; return when the brokers have confirmed every backlog."""
        with ThreadPoolExecutor(HANDS) as hands:
            described = hands.submit(describe, self._client)
            list(hands.map(self._begin, stories))
            self._attached = described.result()

    def _begin(self, story: Story) -> None:
        counts = self.counts[story.topic] = Counts()
        if story.role in (Role.ORPHANED, Role.AT_REST):
            self._subscribe(story).close()
        elif story.role is not None:
            self._consumers(story, counts)
        producer = self._producer(story)
        for number in range(story.waiting):
            self._send(story, producer, counts, number)
        producer.flush()
        if not story.per_s:
            producer.close()
            return
        number = itertools.count(story.waiting)

        def send() -> None:
            if counts.tried - counts.confirmed < PENDING_MAX:
                self._send(story, producer, counts, next(number))

        self._schedule.every(1 / story.per_s, send)

    def _producer(self, story: Story) -> pulsar.Producer:
        return self._client.create_producer(
            story.topic,
            batching_enabled=False,
            block_if_queue_full=True,
            max_pending_messages=2 * PENDING_MAX,
            send_timeout_millis=0,
        )

    def _subscribe(self, story: Story, **options: Any) -> pulsar.Consumer:
        kind = options.pop("kind", pulsar.ConsumerType.Shared)
        return self._client.subscribe(story.topic, story.subscription, kind, **options)

    def _send(self, story: Story, producer: pulsar.Producer, counts: Counts, number: int) -> None:
        def confirmed(result: pulsar.Result, _: object) -> None:
            counts.confirmed += result == pulsar.Result.Ok

        counts.tried += 1
        options: dict[str, Any] = {}
        if story.role is Role.HOT_KEY:
            hot = random.random() < HOT_SHARE
            options["partition_key"] = "everyone" if hot else f"user-{number % 50}"
        elif story.partitions:
            options["partition_key"] = f"key-{number}"
        elif story.role is Role.DELAYED:
            options["deliver_at"] = time.time_ns() // 1_000_000 + DUE_AFTER_MS
        producer.send_async(f"message {number}".encode() * 4, confirmed, **options)

    def _consumers(self, story: Story, counts: Counts) -> None:
        role = story.role
        if role is Role.STUCK or role is Role.BLOCKED or role is Role.DELAYED:
            self._subscribe(story, message_listener=lambda consumer, message: None)
        elif role is Role.NO_PERMITS:
            self._subscribe(story, receiver_queue_size=0)
        elif role is Role.NACKING:
            self._subscribe(
                story,
                negative_ack_redelivery_delay_ms=NACK_AFTER_MS,
                message_listener=lambda consumer, message: consumer.negative_acknowledge(message),
            )
        elif role is Role.SLOW:
            consumer = self._subscribe(story, receiver_queue_size=5)
            self._schedule.every(1 / SLOW_PER_S, lambda: self._acknowledge_one(consumer, counts))
        elif role is Role.HOT_KEY:
            for _ in range(2):
                slow = self._subscribe(
                    story, kind=pulsar.ConsumerType.KeyShared, receiver_queue_size=5
                )
                self._schedule.every(1, lambda slow=slow: self._acknowledge_one(slow, counts))  # type: ignore[misc]
        elif role is Role.SMALL:
            holder = Holder(self._subscribe(story, receiver_queue_size=20), counts)
            self._schedule.every(1 / story.per_s, holder.take)
        elif role is Role.EXCLUSIVE:
            self._healthy(story, counts, kind=pulsar.ConsumerType.Exclusive)
            self._schedule.every(30, lambda: self._be_refused(story, counts))
        else:
            self._healthy(story, counts)

    def _healthy(self, story: Story, counts: Counts, **options: Any) -> None:
        def acknowledge(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
            consumer.acknowledge(message)
            counts.acknowledged += 1

        self._subscribe(story, message_listener=acknowledge, **options)

    def _acknowledge_one(self, consumer: pulsar.Consumer, counts: Counts) -> None:
        if (message := taken(consumer)) is not None:
            consumer.acknowledge(message)
            counts.acknowledged += 1

    def _be_refused(self, story: Story, counts: Counts) -> None:
        """Attach a second exclusive consumer and report a surprise when both are served.

        The attempt has a thread of its own: while the broker is unavailable it blocks, and all others continue. After
        the death of a broker the second consumer may connect to the new owner before the first, which then waits; that
        is right, as in Apache Pulsar. Two consumers that are served at the same time are a fault.
        """

        def attempt() -> None:
            try:
                second = self._subscribe(story, kind=pulsar.ConsumerType.Exclusive)
            except pulsar.PulsarException:
                return
            time.sleep(SETTLE_S)  # the first consumer works off its queue
            before = counts.acknowledged
            time.sleep(BOTH_S)
            both = counts.acknowledged > before
            with suppress(pulsar.PulsarException):
                second.close()
            if both and not self._closing:
                surprise = (
                    f"{story.topic}: a second consumer was attached while the first was served"
                )
                print(json.dumps({"surprise": surprise}), file=self._output)

        threading.Thread(target=attempt, daemon=True).start()

    def run(self) -> None:
        """Run the jobs until ``close``."""
        while not self._closing:
            self._schedule.turn()
            time.sleep(TICK_S)

    def close(self) -> None:
        self._closing = True
        self._client.shutdown()


def main() -> None:
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the client library logs to standard output
    actors = Actors(sys.argv[1], output)
    stories = [*STORIES, *small_topics()]
    actors.begin(stories)
    worker = threading.Thread(target=actors.run)
    worker.start()
    print(json.dumps({"ready": True}), file=output)
    for _ in sys.stdin:
        now = {
            name: [counts.tried, counts.confirmed, counts.acknowledged]
            for name, counts in actors.counts.items()
        }
        print(json.dumps({"counts": now}), file=output)
    actors.close()
    worker.join()


if __name__ == "__main__":
    main()
