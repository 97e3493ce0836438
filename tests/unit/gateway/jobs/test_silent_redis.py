"""Redis accepts connections and answers nothing: runs are taken, consoles open, and no work waits for it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from channels_redis.pubsub import RedisPubSubChannelLayer

from gateway.celery import app
from gateway.jobs import services, tasks
from gateway.jobs.models import JobRun, RunState
from tests.unit.gateway.jobs.bench import Bench, Shown, until


class SilentRedis:
    """A listening socket; ``break_off`` ends what clients wait for, at the latest after some seconds."""

    def __init__(self) -> None:
        self.broken = False
        self._patience = threading.Timer(5.0, self.break_off)
        self._patience.daemon = True
        self._patience.start()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._accepted: list[socket.socket] = []
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def connections(self) -> int:
        """Accept the waiting connections and return their number."""
        self._listener.settimeout(0.01)
        with suppress(TimeoutError):
            while True:
                self._accepted.append(self._listener.accept()[0])
        return len(self._accepted)

    def break_off(self) -> None:
        self.broken = True
        self._patience.cancel()
        self._listener.close()
        for connection in self._accepted:
            connection.close()


@pytest.fixture
def silent(bench: Bench) -> Iterator[SilentRedis]:
    redis = SilentRedis()
    # In this order: unset, it reads as the other, and that value is what the end of the test restores.
    bench.patch.setattr(app.conf, "broker_write_url", redis.url)
    bench.patch.setattr(app.conf, "broker_url", redis.url)
    bench.patch.setattr(services, "enqueue", bench.real_enqueue)
    bench.patch.setattr(services, "SEND_S", 60.0)
    yield redis
    redis.break_off()


def idle() -> None:
    """Wait until the background work that is already queued is done."""
    services._sender.submit(lambda: None).result(60)


def test_a_run_is_taken_at_once_though_redis_is_silent(bench: Bench, silent: SilentRedis) -> None:
    bench.patch.setattr(services, "in_background", bench.real_in_background)
    runs = [bench.create() for _ in range(3)]
    assert not silent.broken, "no caller waited for it"
    until(lambda: silent.connections() == 1)
    assert [Shown(run).state for run in runs] == ["queued"] * 3
    silent.break_off()
    idle()
    bench.patch.setattr(services, "enqueue", bench._enqueue)
    bench.settle(runs[0])
    assert JobRun.objects.filter(state=RunState.SUCCEEDED).count() == 3


def test_consoles_that_open_do_not_wait_for_redis_and_request_once(
    bench: Bench, silent: SilentRedis
) -> None:
    bench.patch.setattr(services, "in_background", bench.real_in_background)
    warming = services.Warming(None)
    for _ in range(40):
        warming.request()
    assert not silent.broken
    until(lambda: silent.connections() == 1)
    assert services._sender._work_queue.qsize() == 0
    silent.break_off()
    idle()
    assert warming._sending.acquire(blocking=False), "the next console asks again"


def test_notifying_the_workers_has_a_time_out(bench: Bench, silent: SilentRedis) -> None:
    bench.patch.setattr(services, "SEND_S", 0.02)
    assert not services.enqueue(run_id="x", attempt=1)
    assert not silent.broken
    assert silent.connections() >= 1


def test_an_attempt_does_not_wait_for_a_silent_redis(
    bench: Bench, silent: SilentRedis, caplog: pytest.LogCaptureFixture
) -> None:
    layer = RedisPubSubChannelLayer(hosts=[{"address": silent.url, "socket_timeout": None}])
    bench.patch.setattr("channels.layers.get_channel_layer", lambda: layer)
    bench.patch.setattr(tasks, "ANNOUNCE_S", 0.02)
    bench.patch.setattr(services, "enqueue", bench._enqueue)
    run = bench.create()
    bench.work()
    assert not silent.broken
    assert Shown(run).check_one_attempt() == "attempt 1 by worker 1."
    texts = [text for text in caplog.messages if "announce" in text]
    assert texts
    assert all(text.endswith(": no answer within 0.02 s") for text in texts)
