"""Numbered messages of several producers through the official client, in bulk, and what consumers saw of them."""

import itertools
import re
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import pulsar

NAME = re.compile(rb"([^:]+):(\d+)\.")
POLL_MS = 500
PENDING_MAX = 2000
FILLER = b"." * 100


class Stream:
    """Messages 0, 1, 2 … of one producer. ``confirmed[n]``: it has a receipt, whose position is in ``places``."""

    def __init__(self, name: str, topic: str) -> None:
        self.name = name
        self.topic = topic
        self.sent = 0
        self.confirmed = bytearray()
        self.count = 0
        self.places = array("q")
        self.failed: list[tuple[int, str]] = []
        self.backward = 0
        """Receipts whose position is not above the one before."""
        self.longest_gap_s = 0.0
        self._last_place = (-1, -1, -1)
        self._last_receipt = time.monotonic()

    def name_next(self) -> tuple[int, bytes]:
        number = self.sent
        self.sent += 1
        self.confirmed.append(0)
        self.places.extend((-1, -1, -1))
        return number, b"%s:%d." % (self.name.encode(), number) + FILLER

    def on_receipt(self, number: int) -> Callable[[pulsar.Result, pulsar.MessageId], None]:
        def done(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
            if result != pulsar.Result.Ok:
                self.failed.append((number, str(result)))
                return
            now = time.monotonic()
            self.longest_gap_s = max(self.longest_gap_s, now - self._last_receipt)
            self._last_receipt = now
            self.confirm(number, message_id)

        return done

    def confirm(self, number: int, message_id: pulsar.MessageId) -> None:
        place = (message_id.ledger_id(), message_id.entry_id(), message_id.batch_index())
        if place <= self._last_place:
            self.backward += 1
        self._last_place = place
        at = 3 * number
        self.places[at], self.places[at + 1], self.places[at + 2] = place
        self.confirmed[number] = 1
        self.count += 1


class Seen:
    """Messages of one stream that one subscription received."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.got = bytearray()
        self.highest = -1
        self.again = 0
        self.reordered = 0
        self.in_place = bytearray()
        """Messages received at the position of their receipt."""

    def note(self, number: int, message_id: pulsar.MessageId) -> None:
        missing = number + 1 - len(self.got)
        if missing > 0:
            self.got.extend(bytes(missing))
            self.in_place.extend(bytes(missing))
        if self.got[number]:
            self.again += 1
        else:
            self.got[number] = 1
            if number < self.highest:
                self.reordered += 1
            self.highest = max(self.highest, number)
        places, at = self.stream.places, 3 * number
        if places[at + 1] == message_id.entry_id() and places[at] == message_id.ledger_id():
            self.in_place[number] = 1

    def lost(self) -> int:
        """Return the number of messages that were confirmed and not received."""
        return _lacking(self.stream, self.got)

    def misplaced(self) -> int:
        """Return the number of messages that were confirmed and not received at the position of their receipt."""
        return _lacking(self.stream, self.in_place)


def _lacking(stream: Stream, marks: bytearray) -> int:
    size = len(stream.confirmed)
    wanted = int.from_bytes(stream.confirmed, "little")
    return (wanted & ~int.from_bytes(marks[:size], "little")).bit_count()


class Reading:
    """One subscription of one topic. ``foreign`` counts messages that no producer sent."""

    def __init__(
        self, client: pulsar.Client, topic: str, name: str, streams: dict[str, Stream]
    ) -> None:
        self.topic = topic
        self.seen: dict[str, Seen] = {}
        self.foreign = 0
        self.received = 0
        self.entries: set[tuple[int, int]] = set()
        """Ledger and entry of everything received."""
        self._streams = streams
        self._client = client
        self._consumer = self._client.subscribe(
            topic, name, initial_position=pulsar.InitialPosition.Earliest
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._receive, name=f"read {topic}")
        self._thread.start()

    def _receive(self) -> None:
        while not self._stop.is_set():
            try:
                message = self._consumer.receive(timeout_millis=POLL_MS)
            except pulsar.Timeout:
                continue
            self.received += 1
            message_id = message.message_id()
            self.entries.add((message_id.ledger_id(), message_id.entry_id()))
            self._note(message)
            self._consumer.acknowledge(message)

    def _note(self, message: Any) -> None:
        match = NAME.match(message.data())
        stream = self._streams.get(match[1].decode()) if match else None
        if match is None or stream is None or int(match[2]) >= stream.sent:
            self.foreign += 1
            return
        if stream.name not in self.seen:
            self.seen[stream.name] = Seen(stream)
        self.seen[stream.name].note(int(match[2]), message.message_id())

    def lost(self) -> int:
        return sum(
            self.seen[stream.name].lost() if stream.name in self.seen else stream.count
            for stream in self._streams.values()
            if stream.topic == self.topic
        )

    def wait_all(self, timeout_s: float) -> int:
        """Wait until everything confirmed was received; return the number of missing messages when none arrived for
        ``timeout_s``."""
        before, until = -1, time.monotonic() + timeout_s
        while lost := self.lost():
            if self.received != before:
                before, until = self.received, time.monotonic() + timeout_s
            elif time.monotonic() > until:
                break
            time.sleep(0.2)
        return lost

    def close(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self._client.close()


class Sending:
    """One producer. Sends up to ``rate`` messages per second, in batches, until stopped."""

    def __init__(self, client: pulsar.Client, stream: Stream, rate: float) -> None:
        self.stream = stream
        self._client = client
        self._producer = self._client.create_producer(
            stream.topic,
            send_timeout_millis=0,
            max_pending_messages=PENDING_MAX,
            block_if_queue_full=True,
            batching_enabled=True,
            batching_max_publish_delay_ms=5,
        )
        self._pause_s = 100 / rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, name=f"send {stream.name}")
        self._thread.start()

    def _send(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            number, data = self.stream.name_next()
            self._producer.send_async(data, self.stream.on_receipt(number))
            if number % 100 == 99:
                # A producer that was late catches up by a second at most.
                due = max(due + self._pause_s, time.monotonic() - 1.0)
                self._stop.wait(max(due - time.monotonic(), 0.0))

    def stop(self, timeout_s: float) -> None:
        """Send no more; return when everything sent has an answer. Raises TimeoutError."""
        self._stop.set()
        until = time.monotonic() + timeout_s
        while self.stream.count + len(self.stream.failed) < self.stream.sent:
            if time.monotonic() > until:
                left = self.stream.sent - self.stream.count - len(self.stream.failed)
                raise TimeoutError(f"{left} messages of {self.stream.name} got no answer")
            time.sleep(0.05)
        self._thread.join(30)

    def close(self) -> None:
        self._stop.set()
        self._client.close()
        self._thread.join(30)


class Traffic:
    """Producers and one reading consumer for each topic, and short-lived visitors. ``kept`` topics are kept for an
    audit, what was read of the others may be deleted. ``connect`` returns a client of a service URL, which are used in
    turn where there are several."""

    def __init__(
        self,
        urls: Sequence[str],
        connect: Callable[[str], pulsar.Client],
        kept: list[str],
        consumed: list[str],
        producers: int,
        rate: float,
    ) -> None:
        self._urls = itertools.cycle(urls)
        self._connect = connect
        self.topics = topics = [*kept, *consumed]
        self._kept = kept
        self.streams: dict[str, Stream] = {}
        self.readings = [Reading(self.client(), topic, "s", self.streams) for topic in topics]
        self._visits = 0
        for topic in kept:  # by a subscription that acknowledges nothing yet
            client = self.client()
            client.subscribe(topic, "audit", initial_position=pulsar.InitialPosition.Earliest)
            client.close()
        self.sendings = [
            Sending(self.client(), self._stream(f"p{i}", topics[i % len(topics)]), rate / producers)
            for i in range(producers)
        ]

    def client(self) -> pulsar.Client:
        """Return a client of the next service URL."""
        return self._connect(next(self._urls))

    def _stream(self, name: str, topic: str) -> Stream:
        stream = self.streams[name] = Stream(name, topic)
        return stream

    @property
    def confirmed(self) -> int:
        return sum(stream.count for stream in self.streams.values())

    @property
    def longest_gap_s(self) -> float:
        return max(sending.stream.longest_gap_s for sending in self.sendings)

    def wait_confirmed(self, more: int, timeout_s: float) -> None:
        """Wait until each producer has ``more`` further receipts. Raises TimeoutError."""
        goals = {sending.stream.name: sending.stream.count + more for sending in self.sendings}
        until = time.monotonic() + timeout_s
        while slow := [name for name, goal in goals.items() if self.streams[name].count < goal]:
            if time.monotonic() > until:
                raise TimeoutError(f"no {more} receipts in {timeout_s} s for {', '.join(slow)}")
            time.sleep(0.02)

    def visit(self, url: str, messages: int = 20) -> None:
        """Publish to each topic by new producers, one message after the other, through the broker at ``url``."""
        client = self._connect(url)
        for topic in self.topics:
            self._visits += 1
            stream = self._stream(f"v{self._visits}", topic)
            producer = client.create_producer(topic, send_timeout_millis=0)
            for _ in range(messages):
                number, data = stream.name_next()
                stream.confirm(number, producer.send(data))
        client.close()

    def audit(self) -> list[Reading]:
        """Return new readings of all kept topics."""
        return [Reading(self.client(), topic, "audit", self.streams) for topic in self._kept]

    def wrong(self, audits: Sequence[Reading]) -> dict[str, int]:
        """Return the numbers of messages that broke a promise, all 0 when none did. ``audits`` have read everything."""
        streams = self.streams.values()
        seen = [stream for reading in self.readings for stream in reading.seen.values()]
        audited = [stream for audit in audits for stream in audit.seen.values()]
        return {
            "refused": sum(len(stream.failed) for stream in streams),
            "lost": sum(reading.lost() for reading in self.readings),
            "lost in the audit": sum(audit.lost() for audit in audits),
            "reordered": sum(stream.reordered for stream in seen),
            "reordered in the audit": sum(stream.reordered for stream in audited),
            "not where the receipt said": sum(stream.misplaced() for stream in audited),
            "receipts out of order": sum(stream.backward for stream in streams),
            "foreign": sum(reading.foreign for reading in [*self.readings, *audits]),
        }

    def stop_sending(self, timeout_s: float) -> None:
        for sending in self.sendings:
            sending.stop(timeout_s)

    def close(self) -> None:
        for sending in self.sendings:
            sending.close()
        for reading in self.readings:
            reading.close()
