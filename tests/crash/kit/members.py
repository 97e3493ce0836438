"""Clients of roles that come and go: they publish and receive while they are admitted, and open again otherwise."""

import itertools
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pulsar

AGAIN_S = 0.1
SILENT_S = 2.0
"""Seconds without a message after which a subscriber opens again: the client gives up a refused consumer silently."""


class Window(NamedTuple):
    """A span of the monotonic clock."""

    begin_s: float
    end_s: float


class Member(threading.Thread):
    """A client of the official library. ``done`` has the time and payload of each success, ``failures``
    the time and error of each end of a client."""

    def __init__(self, url: str, topic: str, supply: Callable[[], str], **options: Any) -> None:
        super().__init__(daemon=True)
        self.done: list[tuple[float, bytes]] = []
        self.failures: list[tuple[float, str]] = []
        self._url, self._topic, self._supply, self._options = url, topic, supply, options
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.is_set():
            client = pulsar.Client(
                self._url,
                authentication=pulsar.AuthenticationToken(self._supply),
                operation_timeout_seconds=2,
                logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
                **self._options,
            )
            try:
                self.work(client)
            except pulsar.PulsarException as error:
                self.failures.append((time.monotonic(), repr(error)))
                self._ending.wait(AGAIN_S)  # time: pause of a client that was refused
            finally:
                try:
                    client.close()
                except pulsar.PulsarException:
                    client.shutdown()

    def work(self, client: pulsar.Client) -> None:
        """Work until the end. Raises PulsarException when the client does not work any more."""
        raise NotImplementedError

    def succeeded(self, payload: bytes) -> None:
        self.done.append((time.monotonic(), payload))

    @property
    def times(self) -> list[float]:
        return [at_s for at_s, _ in self.done]

    def end(self) -> None:
        self._ending.set()
        self.join(30)


class Publisher(Member):
    """Publishes numbers one after the other; ``done`` are those that are confirmed."""

    number = 0

    def work(self, client: pulsar.Client) -> None:
        producer = client.create_producer(self._topic, send_timeout_millis=2_000)
        while not self._ending.wait(0.02):  # time: a rate of publishing
            self.number += 1
            payload = b"%d" % self.number
            producer.send(payload)
            self.succeeded(payload)


class Subscriber(Member):
    """Receives and acknowledges in the subscription ``s``."""

    def work(self, client: pulsar.Client) -> None:
        consumer = client.subscribe(self._topic, "s", receiver_queue_size=1)
        last_s = time.monotonic()
        while not self._ending.is_set() and time.monotonic() - last_s < SILENT_S:
            try:
                message = consumer.receive(200)  # time: until the end is checked again
            except pulsar.Timeout:
                continue
            last_s = time.monotonic()
            self.succeeded(message.data())
            consumer.acknowledge(message)


def longest_gap_s(times: Sequence[float], wanted: Window, excused: Sequence[Window]) -> float:
    """Return the longest time in ``wanted`` without a success, ``excused`` times apart."""
    marks = [wanted.begin_s, *(at for at in times if wanted.begin_s < at < wanted.end_s)]
    marks.append(wanted.end_s)
    return max(
        end - begin - sum(max(0.0, min(end, w.end_s) - max(begin, w.begin_s)) for w in excused)
        for begin, end in itertools.pairwise(marks)
    )
