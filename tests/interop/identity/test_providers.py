"""The official client and a broker that authenticates: tokens, passwords, certificates, and their renewal."""

import time
from collections.abc import Iterator

import pulsar
import pytest

from tests.support.access import callers
from tests.support.access.identified import identified
from tests.support.net.certificates import Authority
from tests.support.standalone import Standalone

TOPIC = "persistent://public/default/identified"


def token(role: str, life_s: float | None = None) -> str:
    claims = {} if life_s is None else {"exp": time.time() + life_s}
    return callers.token(role, **claims)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def standalone(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Standalone]:
    """A broker that knows tokens, passwords and certificates, and accepts all three on one port in TLS."""
    instance = identified(tmp_path_factory.mktemp("standalone"), authority)
    yield instance
    instance.close()


def client(
    standalone: Standalone, authentication: pulsar.Authentication | None, trusted: str = ""
) -> pulsar.Client:
    assert standalone.broker is not None
    port_tls = standalone.broker.broker_port_tls
    return pulsar.Client(
        f"pulsar+ssl://127.0.0.1:{port_tls}" if trusted else standalone.url,
        authentication=authentication,
        tls_trust_certs_file_path=trusted or None,
        tls_validate_hostname=bool(trusted),
        operation_timeout_seconds=1,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


def publishes(opened: pulsar.Client) -> None:
    opened.create_producer(TOPIC).send(b"x")
    opened.close()


@pytest.mark.parametrize("encrypted", [False, True], ids=["clear", "tls"])
def test_tokens_and_passwords_are_accepted_on_both_ports(
    standalone: Standalone, authority: Authority, encrypted: bool
) -> None:
    trusted = authority.cert if encrypted else ""
    publishes(client(standalone, pulsar.AuthenticationToken(token("app")), trusted))
    publishes(client(standalone, pulsar.AuthenticationBasic("user", "secret"), trusted))


def test_a_certificate_identifies_beside_tokens_on_one_port(
    standalone: Standalone, authority: Authority
) -> None:
    publishes(client(standalone, pulsar.AuthenticationTLS(*authority.issue("app")), authority.cert))
    publishes(client(standalone, pulsar.AuthenticationToken(token("app")), authority.cert))


@pytest.mark.parametrize(
    "authentication",
    [
        None,
        pulsar.AuthenticationToken(token("app", -1)),
    ],
    ids=["nothing", "expired"],
)
def test_bad_credentials_are_refused(
    standalone: Standalone, authentication: pulsar.Authentication | None
) -> None:
    opened = client(standalone, authentication)
    with pytest.raises(pulsar.PulsarException):
        opened.create_producer(TOPIC)
    opened.close()


def test_a_token_that_expires_is_renewed_by_its_supplier(standalone: Standalone) -> None:
    issued: list[str] = []

    def supply() -> str:
        issued.append(token("app", 1.2))
        return issued[-1]

    opened = client(standalone, pulsar.AuthenticationToken(supply))
    producer = opened.create_producer(TOPIC)
    producer.send(b"before")
    deadline = time.monotonic() + 30
    while len(issued) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    producer.send(b"after")
    assert len(issued) >= 3
    opened.close()
