"""The official client by TLS: it checks the broker's certificate, and presents its own where one is required."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from engine.base.names import TopicName
from tests.support.net.certificates import Authority
from tests.support.standalone import Standalone

RECEIVE_MS = 5000
TOPIC = "persistent://public/default/by-tls"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module", params=["false", "true"], ids=["anyone", "known"])
def secured(
    request: pytest.FixtureRequest, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Standalone, bool]]:
    """A broker with a TLS port, and whether clients must present a certificate there."""
    files = authority.issue("broker", "127.0.0.1", "localhost")
    instance = Standalone(
        tmp_path_factory.mktemp("standalone"),
        broker_service_port_tls="0",
        tls_certificate_file_path=files.cert,
        tls_key_file_path=files.key,
        tls_trust_certs_file_path=authority.cert,
        tls_require_trusted_client_cert_on_connect=request.param,
    )
    yield instance, request.param == "true"
    instance.close()


def client(standalone: Standalone, trusted: str, **given: Any) -> pulsar.Client:
    assert standalone.broker is not None
    return pulsar.Client(
        f"pulsar+ssl://127.0.0.1:{standalone.broker.broker_port_tls}",
        tls_trust_certs_file_path=trusted,
        tls_validate_hostname=True,
        operation_timeout_seconds=3,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        **given,
    )


def test_messages_published_by_tls_are_received_with_and_without_tls(
    secured: tuple[Standalone, bool], authority: Authority
) -> None:
    standalone, _ = secured
    shown = pulsar.AuthenticationTLS(*authority.issue("client"))  # permitted where not required
    safe = client(standalone, authority.cert, authentication=shown)
    plain = pulsar.Client(standalone.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumers = [safe.subscribe(TOPIC, "safe"), plain.subscribe(TOPIC, "plain")]
    producer = safe.create_producer(TOPIC)
    large = bytes(range(256)) * 8192
    for payload in (b"small", large):
        producer.send(payload)
    for consumer in consumers:
        assert [consumer.receive(RECEIVE_MS).data() for _ in range(2)] == [b"small", large]
    safe.close()
    plain.close()


def test_a_client_that_does_not_trust_the_broker_does_not_connect(
    secured: tuple[Standalone, bool], tmp_path: Path
) -> None:
    standalone, _ = secured
    stranger = client(standalone, Authority(tmp_path, "stranger").cert)
    with pytest.raises(pulsar.PulsarException):
        stranger.create_producer(TOPIC)
    stranger.close()


def test_a_client_without_a_certificate_is_refused_where_one_is_required(
    secured: tuple[Standalone, bool], authority: Authority
) -> None:
    standalone, known = secured
    unidentified = client(standalone, authority.cert)
    if known:
        with pytest.raises(pulsar.PulsarException):
            unidentified.create_producer(TOPIC)
    else:
        unidentified.create_producer(TOPIC)
    unidentified.close()


def test_an_untrusted_certificate_is_refused_even_where_none_is_required(
    secured: tuple[Standalone, bool], authority: Authority, tmp_path: Path
) -> None:
    standalone, _ = secured
    shown = pulsar.AuthenticationTLS(*Authority(tmp_path, "stranger").issue("client"))
    unknown = client(standalone, authority.cert, authentication=shown)
    with pytest.raises(pulsar.PulsarException):
        unknown.create_producer(TOPIC)
    unknown.close()


def test_a_lookup_returns_both_addresses(secured: tuple[Standalone, bool]) -> None:
    standalone, _ = secured
    broker = standalone.broker
    assert broker is not None
    topic = TopicName.parse(TOPIC)
    answer = standalone.run(
        broker.running.assignment.lookup(topic, authoritative=False, listener="")
    )
    assert answer.broker_url == f"pulsar://127.0.0.1:{broker.broker_port}"
    assert answer.broker_url_tls == f"pulsar+ssl://127.0.0.1:{broker.broker_port_tls}"
