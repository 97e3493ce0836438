"""The official client and a broker with a scripted authenticator: the client renews credentials that expire."""

import threading
import time
from collections.abc import Iterator

import pulsar
import pytest

from engine.auth.credentials import Credentials
from engine.auth.identity import Identity
from engine.wire.errors import REFUSALS, ServerError
from tests.support.standalone import Standalone

LIFE_S = 1.5
"""Lifetime of a token. It is shorter than the lead at which the broker requests new credentials, so that the broker
requests them at the expiry."""
TOPIC = "persistent://public/default/renewed"


class Tokens:
    """Issuer and authenticator of tokens ``role:end``; expired ones are refused."""

    def __init__(self) -> None:
        self.accepted: list[Credentials] = []
        self.renewed = threading.Event()

    def issue(self) -> str:
        return f"app:{time.time() + LIFE_S}"

    def authenticate(self, credentials: Credentials) -> Identity:
        role, _, end = credentials.data.decode().partition(":")
        if credentials.method != "token" or not end or float(end) < time.time():
            raise REFUSALS[ServerError.AuthenticationError]("Failed to authenticate")
        if any(credentials.address == earlier.address for earlier in self.accepted):
            self.renewed.set()
        self.accepted.append(credentials)
        return Identity(role, None, "token", float(end))


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    instance = Standalone(tmp_path_factory.mktemp("standalone"))
    yield instance
    instance.close()


def test_expired_credentials_are_renewed_on_the_same_connection(standalone: Standalone) -> None:
    tokens = Tokens()
    assert standalone.broker is not None
    standalone.broker.running.context.authenticate = tokens.authenticate
    client = pulsar.Client(
        standalone.url,
        authentication=pulsar.AuthenticationToken(tokens.issue),
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    producer = client.create_producer(TOPIC)
    producer.send(b"before")
    assert tokens.renewed.wait(60)
    producer.send(b"after")
    assert {credentials.method for credentials in tokens.accepted} == {"token"}
    client.close()


def test_a_client_with_bad_credentials_is_refused(standalone: Standalone) -> None:
    tokens = Tokens()
    assert standalone.broker is not None
    standalone.broker.running.context.authenticate = tokens.authenticate
    client = pulsar.Client(
        standalone.url,
        authentication=pulsar.AuthenticationToken("app:1"),
        operation_timeout_seconds=1,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(TOPIC)
    assert not tokens.accepted
    client.close()
