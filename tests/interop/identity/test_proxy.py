"""The official client through the proxy of a secure instance: in TLS, by its own credentials, with its own rights."""

import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
from pulsar.schema import JsonSchema, Record, String

from tests.interop.identity.conftest import Secured
from tests.support.access.callers import token_by
from tests.support.instances.shared import SharedInstance
from tests.support.proxy.process import ProxyProcess, variables_of
from tests.support.waiting import until_blocking

NAMESPACE = "public/proxied"
TOPIC = f"persistent://{NAMESPACE}/{{}}".format
RECEIVE_MS = 10_000


class Named(Record):  # type: ignore[misc]
    name = String()


@pytest.fixture(scope="module")
def secured(secured_instance: SharedInstance) -> Iterator[Secured]:
    refused = (r"WARNING engine\.\S+ authentication failed ",)
    with secured_instance.used(refused) as instance:
        secured = Secured(instance)
        shown = ("-H", f"@{secured.files.header}", "-H", "Content-Type: application/json")
        path = f"/admin/v2/namespaces/{NAMESPACE}"
        assert secured.curl(path, "-X", "PUT", *shown)[0] == 204
        for role in ("app", "expiring", "revoked"):
            given = ("-X", "POST", "-d", '["produce", "consume"]', *shown)
            assert secured.curl(f"{path}/permissions/{role}", *given)[0] == 204
        partitioned = f"/admin/v2/persistent/{NAMESPACE}/partitioned/partitions"
        assert secured.curl(partitioned, "-X", "PUT", "-d", "3", *shown)[0] == 204
        yield secured


@pytest.fixture(scope="module")
def proxy(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    made = ProxyProcess(tmp_path_factory.mktemp("proxy"), variables_of(secured.instance))
    made.start()
    yield made
    assert made.stop() == 0, made.log()


def token(secured: Secured, role: str, **claims: float) -> str:
    return token_by(secured.files.token_key.read_bytes(), role, **claims)


def through(secured: Secured, proxy: ProxyProcess, text: str) -> pulsar.Client:
    return secured.client(pulsar.AuthenticationToken(text), proxy.url_tls)


def test_a_client_produces_and_consumes_in_tls(secured: Secured, proxy: ProxyProcess) -> None:
    client = through(secured, proxy, token(secured, "app"))
    consumer = client.subscribe(TOPIC("plain"), "s")
    producer = client.create_producer(TOPIC("plain"))
    for number in range(100):
        producer.send_async(b"%d" % number, callback=lambda result, _: None)
    producer.flush()
    received = [consumer.receive(RECEIVE_MS).data() for _ in range(100)]
    assert received == [b"%d" % number for number in range(100)]
    client.close()


def test_a_partitioned_topic_and_a_schema(secured: Secured, proxy: ProxyProcess) -> None:
    client = through(secured, proxy, token(secured, "app"))
    name = TOPIC("partitioned")
    assert len(client.get_topic_partitions(name)) == 3
    schema = JsonSchema(Named)
    consumer = client.subscribe(name, "s", schema=schema)
    producer = client.create_producer(name, schema=schema)
    for number in range(9):
        producer.send(Named(name=str(number)))
    names = {consumer.receive(RECEIVE_MS).value().name for _ in range(9)}
    assert names == set(map(str, range(9)))
    client.close()


def test_the_rights_are_those_of_the_client(secured: Secured, proxy: ProxyProcess) -> None:
    client = through(secured, proxy, token(secured, "stranger"))
    with pytest.raises((pulsar.AuthorizationError, pulsar.PulsarException)):
        client.create_producer(TOPIC("plain"))
    client.close()
    client = through(secured, proxy, "no token")
    with pytest.raises((pulsar.AuthenticationError, pulsar.PulsarException)):
        client.create_producer(TOPIC("plain"))
    client.close()


def test_a_grant_that_is_revoked_counts_at_once(secured: Secured, proxy: ProxyProcess) -> None:
    client = through(secured, proxy, token(secured, "revoked"))
    producer = client.create_producer(TOPIC("revoked"), send_timeout_millis=3000)
    producer.send(b"allowed")
    shown = ("-H", f"@{secured.files.header}")
    path = f"/admin/v2/namespaces/{NAMESPACE}/permissions/revoked"
    assert secured.curl(path, "-X", "DELETE", *shown)[0] == 204

    def is_refused() -> bool:
        try:
            producer.send(b"not allowed")
        except pulsar.PulsarException:
            return True
        return False

    until_blocking(is_refused)
    client.close()


def test_a_connection_ends_with_the_token_and_goes_on_with_a_new_one(
    secured: Secured, proxy: ProxyProcess
) -> None:
    presented: list[str] = []

    def supply() -> str:
        presented.append(token(secured, "expiring", exp=time.time() + 3))
        return presented[-1]

    client = secured.client(pulsar.AuthenticationToken(supply), proxy.url_tls)
    producer = client.create_producer(TOPIC("expiring"))
    before = len(presented)
    until_blocking(lambda: producer.send(b"x") and len(presented) > before + 1)
    client.close()


def test_statistics_are_shown_to_superusers(secured: Secured, proxy: ProxyProcess) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        proxy.page("/metrics")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        proxy.page("/proxy-stats/connections")
    assert proxy.page("/status.html") == "OK"


def test_no_credential_is_in_the_log(secured: Secured, proxy: ProxyProcess, tmp_path: Path) -> None:
    log = proxy.log()
    assert "proxy ready" in log
    for role in ("app", "stranger"):
        assert token(secured, role) not in log
    assert secured.files.token("magnetar-proxy").read_text() not in log
