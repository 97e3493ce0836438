"""The official client through a proxy, while the broker behind it and the proxy itself are killed."""

import threading
from collections.abc import Iterator

import pulsar
import pytest

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance
from tests.support.proxy.process import ProxyProcess, variables_of
from tests.support.waiting import until_blocking

NAMESPACE = "public/proxied"
TOPIC = f"persistent://{NAMESPACE}/{{}}".format


@pytest.fixture(scope="module")
def instance(killed_instance: SharedInstance) -> Iterator[Instance]:
    with killed_instance.harmed() as killed:
        assert killed.rest("PUT", f"/admin/v2/namespaces/{NAMESPACE}")[0] == 204
        yield killed


@pytest.fixture
def proxy(instance: Instance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    made = ProxyProcess(tmp_path_factory.mktemp("proxy"), variables_of(instance))
    made.start()
    yield made
    made.stop()


class Traffic:
    """A producer and a consumer through the proxy; ``confirmed`` and ``received`` are numbers of messages."""

    def __init__(self, proxy: ProxyProcess, topic: str) -> None:
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self.client = pulsar.Client(proxy.url, logger=quiet, operation_timeout_seconds=60)
        self._consumer = self.client.subscribe(topic, "s")
        self._producer = self.client.create_producer(topic, send_timeout_millis=60_000)
        self.confirmed: list[int] = []
        self.received: set[int] = set()
        self._over = False
        self._sender = threading.Thread(target=self._send, daemon=True)
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        self._sender.start()
        self._receiver.start()

    def _send(self) -> None:
        number = 0
        while not self._over:
            self._producer.send(b"%d" % number)
            self.confirmed.append(number)
            number += 1

    def _receive(self) -> None:
        # A message may be confirmed after all those before it were received, so the sender ends first.
        while self._sender.is_alive() or not self.received >= set(self.confirmed):
            try:
                message = self._consumer.receive(500)
            except pulsar.Timeout:
                continue
            self.received.add(int(message.data()))
            self._consumer.acknowledge(message)

    def continues(self) -> None:
        """Return once further messages were confirmed and received."""
        confirmed = len(self.confirmed) + 20
        until_blocking(lambda: len(self.confirmed) > confirmed and len(self.received) > confirmed)

    def end(self) -> None:
        """Check that no confirmed message is missing."""
        self._over = True
        self._sender.join(60)
        assert not self._sender.is_alive()
        until_blocking(lambda: self.received >= set(self.confirmed))
        self._receiver.join(60)
        self.client.close()


@pytest.mark.parametrize("victim", ["broker", "proxy"])
def test_no_confirmed_message_is_lost(instance: Instance, proxy: ProxyProcess, victim: str) -> None:
    traffic = Traffic(proxy, TOPIC(victim))
    traffic.continues()
    if victim == "broker":
        instance.kill("broker-1")
        instance.wait_running("broker-1")
    else:
        proxy.kill()
        proxy.start()
    traffic.continues()
    traffic.end()
    assert "Traceback" not in proxy.log()
