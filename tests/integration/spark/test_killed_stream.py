"""A real Spark stream, stopped, killed and resumed over a topic under load: every row once, with nothing kept but what
its subscription holds, which is nothing when all is read."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.support.instance import Instance, healthy_instance

TOPIC = "persistent://public/default/streamed"
SILENT = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


class Program:
    """The program tests/support/analyses/stream_program.py."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.support.analyses.stream_program",
                json.dumps(self._given),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._line() == "started"

    def _line(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            return line.strip()
        raise AssertionError(f"the program ended with {self.process.wait()}")

    def tell(self, word: str) -> str:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self._line()

    def kill(self) -> None:
        """Kill the driver, its Java and its Python workers at once."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._close()

    def __enter__(self) -> "Program":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def end(self) -> int:
        """Wait for the end of the program and return its exit status; kill it when it does not end."""
        assert self.process is not None
        try:
            return self.process.wait(60)
        finally:
            if self.process.poll() is None:
                self.kill()
            self._close()

    def _close(self) -> None:
        assert self.process is not None
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class Load:
    """A producer of the numbers from 0 on, until it is stopped."""

    def __init__(self, url: str) -> None:
        self.sent = 0
        self._url = url
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._publish)

    def _publish(self) -> None:
        client = pulsar.Client(self._url, logger=SILENT)
        while not self._ended.is_set():
            # A new producer, which knows the partitions of now.
            producer = client.create_producer(TOPIC, block_if_queue_full=True)
            for _ in range(20):
                for _ in range(20):
                    producer.send_async(str(self.sent).encode(), lambda *_: None)
                    self.sent += 1
                producer.flush()
                time.sleep(0.1)
            producer.close()
        client.close()

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


@contextmanager
def rolling_instance(folder: Path) -> Iterator[Instance]:
    """Yield an instance whose ledgers are small and are trimmed as soon as they are acknowledged."""
    rolled = {
        "MAGNETAR_MANAGED_LEDGER_MAX_ENTRIES_PER_LEDGER": "40",
        "MAGNETAR_MANAGED_LEDGER_MIN_LEDGER_ROLLOVER_TIME_MINUTES": "0",
    }
    with healthy_instance(folder, (), **rolled) as healthy:
        yield healthy


def wait_for_first_batch(checkpoint: Path, timeout_s: float = 120.0) -> None:
    """Wait until a query has committed a batch: Spark refuses a checkpoint whose first offsets were half written."""
    until = time.monotonic() + timeout_s
    while not (checkpoint / "commits" / "0").exists():
        assert time.monotonic() < until, "the query has committed no batch"
        time.sleep(0.1)


def check_stream(folder: Path, times: int) -> None:
    """Stop and resume a stream ``times`` times, every third time by SIGKILL, while its topic grows by partitions."""
    chance = random.Random(times)
    with rolling_instance(folder / "instance") as instance:
        base = f"/admin/v2/{TOPIC.replace('://', '/')}"
        path, partitions = f"{base}/partitions", 1
        assert instance.rest("PUT", path, 1)[0] == 204
        # The query makes its subscription when it begins, which a busy machine delays.
        assert instance.rest("PUT", f"{base}/subscription/spark")[0] == 204
        given = {
            "options": {
                "topic": TOPIC,
                "metadataUrl": f"zk:127.0.0.1:{instance.ports['ZOOKEEPER']}",
                "service.url": instance.url,
                "commitSubscription": "spark",
                "startingOffsets": "earliest",
                "maxEntriesPerTrigger": "1000",
            },
            "output": str(folder / "output"),
            "checkpoint": str(folder / "checkpoint"),
            "trigger": "200 milliseconds",
        }
        with Program(given) as program:
            with Load(instance.url) as load:
                wait_for_first_batch(folder / "checkpoint")
                for number in range(times):
                    time.sleep(chance.uniform(0.5, 4.0))
                    if number % 3 == 2:
                        program.kill()
                        program.start()
                    else:
                        assert program.tell("restart") == "started"
                    if number % (times // 3) == 0:
                        partitions = 2 + number // (times // 3)
                        assert instance.rest("POST", path, partitions)[0] == 204
            counted = json.loads(program.tell("finish"))
            assert counted == {"rows": load.sent, "different": load.sent}
            assert program.end() == 0
        parts = [f"{base}-partition-{number}" for number in range(partitions)]
        lags = [
            instance.rest("GET", f"{part}/stats")[1]["subscriptions"]["spark"]["msgBacklog"]
            for part in parts
        ]
        assert lags == [0] * partitions
        stats = instance.rest("GET", f"{base}-partition-0/internalStats")
        assert stats[1]["ledgers"][0]["ledgerId"] > 0, "nothing was trimmed"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_stream_that_is_stopped_and_killed_gives_every_row_once(tmp_path: Path) -> None:
    check_stream(tmp_path, 3)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_stream_that_is_stopped_and_killed_fifty_times_gives_every_row_once(
    tmp_path: Path,
) -> None:
    check_stream(tmp_path, 50)
