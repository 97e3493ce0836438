"""A producer and a consumer of the official client that go on through every fault, and what both saw."""

import os
import threading
import time
from typing import Any

import pulsar

PAYLOAD_BYTES = 200


def quiet_client(url: str, log: str = os.devnull, **options: Any) -> pulsar.Client:
    """Return a client that retries for long and logs to ``log`` only, because these tests cause faults. ``options``
    are further ones of pulsar.Client."""
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Info, log)
    return pulsar.Client(url, operation_timeout_seconds=60, logger=logger, **options)


class Load:
    """Numbers 0, 1, 2 … as messages. ``confirmed`` got a receipt, ``received`` was consumed, repeats included.

    ``rate_max`` limits messages per second. Unbatched, so that each message is an entry.
    """

    def __init__(
        self,
        url: str,
        topic: str,
        *,
        payload_bytes: int = PAYLOAD_BYTES,
        rate_max: float = 4000.0,
        send_timeout_ms: int = 0,
        per_pause: int = 50,
    ) -> None:
        """Begin to send, ``per_pause`` messages after each pause, and to receive."""
        self.client = quiet_client(url)
        self.consumer = self.client.subscribe(
            topic, "s", initial_position=pulsar.InitialPosition.Earliest
        )
        self.producer = self.client.create_producer(
            topic,
            send_timeout_millis=send_timeout_ms,
            max_pending_messages=500,
            block_if_queue_full=True,
        )
        self.confirmed: list[int] = []
        self.failed: list[tuple[int, pulsar.Result]] = []
        self.received: list[int] = []
        self.sent = 0
        self.longest_gap_s = 0.0
        """Longest time without a receipt."""
        self._last_receipt = time.monotonic()
        self._filler = b"." * payload_bytes
        self._pause_s = per_pause / rate_max
        self._per_pause = per_pause
        self._stop_sending = threading.Event()
        self._stop_receiving = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        while not self._stop_sending.is_set():
            number = self.sent
            self.sent += 1
            self.producer.send_async(b"%d" % number + self._filler, self._on_receipt(number))
            if number % self._per_pause == 0:
                self._stop_sending.wait(self._pause_s)

    def _on_receipt(self, number: int) -> Any:
        def done(result: pulsar.Result, _: Any) -> None:
            if result != pulsar.Result.Ok:
                self.failed.append((number, result))
                return
            now = time.monotonic()
            self.longest_gap_s = max(self.longest_gap_s, now - self._last_receipt)
            self._last_receipt = now
            self.confirmed.append(number)

        return done

    def _receive(self) -> None:
        while not self._stop_receiving.is_set():
            try:
                message = self.consumer.receive(timeout_millis=500)
            except pulsar.Timeout:
                continue
            self.received.append(int(message.data().split(b".", 1)[0]))
            self.consumer.acknowledge(message)

    def wait_confirmed(self, more: int, timeout_s: float) -> None:
        """Wait until ``more`` further messages got their receipts. Raises TimeoutError."""
        goal = len(self.confirmed) + more
        until = time.monotonic() + timeout_s
        while len(self.confirmed) < goal:
            if time.monotonic() > until:
                raise TimeoutError(f"{goal - len(self.confirmed)} receipts missing")
            time.sleep(0.02)

    def stop_sending(self) -> None:
        self._stop_sending.set()
        self._threads[0].join(30)
        self.producer.flush()

    def drain(self, timeout_s: float) -> set[int]:
        """Wait until everything confirmed was received; what is missing."""
        until = time.monotonic() + timeout_s
        while (missing := set(self.confirmed) - set(self.received)) and time.monotonic() < until:
            time.sleep(0.1)
        return missing

    def close(self) -> None:
        self._stop_sending.set()
        self._stop_receiving.set()
        for thread in self._threads:
            thread.join(30)
        self.client.close()

    def counts(self, missing: set[int]) -> str:
        again = len(self.received) - len(set(self.received))
        return (
            f"sent {self.sent}, confirmed {len(self.confirmed)}, received {len(set(self.received))},"
            f" redelivered {again}, lost {len(missing)}, longest gap {self.longest_gap_s:.1f} s"
        )

    def in_order(self) -> bool:
        """Return whether first deliveries have the order of sending."""
        first_times = list(dict.fromkeys(self.received))
        return first_times == sorted(first_times)


def finish(load: Load) -> int:
    """Check that everything confirmed was received in order and nothing refused; return the number of messages."""
    try:
        load.stop_sending()
        missing = load.drain(30)
    finally:
        load.close()
    assert not missing
    assert not load.failed
    assert load.in_order()
    return len(load.confirmed)
