"""The official client and a broker that judges rights: grants, admins and superusers, revocation and expiry."""

import base64
import time
from collections.abc import Callable, Iterator

import pulsar
import pytest

from engine.base.names import TopicName
from engine.tenancy import grants, tenants
from tests.support.access.callers import KEY, token
from tests.support.standalone import Standalone

PROMISE_S = 1.0
TOPIC = TopicName.parse("persistent://public/default/rights")
NAMESPACE = TOPIC.namespace


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A broker with the superuser ``root``, the admin ``admin``, the producer ``writer``, the consumer ``reader``."""
    instance = Standalone(
        tmp_path_factory.mktemp("standalone"),
        authentication_enabled="true",
        authentication_providers="token",
        token_secret_key=base64.b64encode(KEY).decode(),
        authorization_enabled="true",
        super_user_roles="root",
        broker_client_authentication_plugin="token",
        broker_client_authentication_parameters=f"token:{token('root')}",
    )
    record = {"adminRoles": ["admin"], "allowedClusters": ["standalone"]}
    instance.run(tenants.update_tenant(instance.store, "public", record))
    instance.run(grants.grant(instance.store, NAMESPACE, "writer", ["produce"]))
    instance.run(grants.grant(instance.store, NAMESPACE, "reader", ["consume"]))
    yield instance
    instance.close()


@pytest.fixture
def client(standalone: Standalone) -> Iterator[Callable[[str], pulsar.Client]]:
    """Function that returns a client with the role of this name."""
    opened: list[pulsar.Client] = []

    def open_client(role: str) -> pulsar.Client:
        new_client = pulsar.Client(
            standalone.url,
            authentication=pulsar.AuthenticationToken(token(role)),
            operation_timeout_seconds=3,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        opened.append(new_client)
        return new_client

    yield open_client
    for new_client in opened:
        new_client.close()


Client = Callable[[str], pulsar.Client]


def produce(client: pulsar.Client) -> None:
    client.create_producer(TOPIC.full).send(b"x")


def consume(client: pulsar.Client) -> None:
    client.subscribe(TOPIC.full, "s", consumer_type=pulsar.ConsumerType.Shared)


def read(client: pulsar.Client) -> None:
    client.create_reader(TOPIC.full, pulsar.MessageId.earliest)


MAY = {
    "root": (produce, consume, read),
    "admin": (produce, consume, read),
    "writer": (produce,),
    "reader": (consume, read),
    "stranger": (),
}


@pytest.mark.parametrize("role", MAY)
def test_each_role_does_what_it_has_the_right_to(client: Client, role: str) -> None:
    opened = client(role)
    for act in (produce, consume, read):
        if act in MAY[role]:
            act(opened)
        else:
            with pytest.raises(pulsar.AuthorizationError):
                act(opened)


def test_a_producer_that_is_revoked_stops_and_cannot_return(
    standalone: Standalone, client: Client
) -> None:
    standalone.run(grants.grant(standalone.store, NAMESPACE, "leaver", ["produce"]))
    opened = client("leaver")
    producer = opened.create_producer(TOPIC.full, send_timeout_millis=1_000)
    stayer = client("writer").create_producer(TOPIC.full)
    producer.send(b"before")
    standalone.run(grants.revoke(standalone.store, NAMESPACE, "leaver"))
    confirmed = time.monotonic()
    with pytest.raises(pulsar.PulsarException):
        while True:
            producer.send(b"again")
            assert time.monotonic() - confirmed < PROMISE_S
    stayer.send(b"after")
    with pytest.raises(pulsar.AuthorizationError):
        produce(client("leaver"))


def test_a_consumer_that_is_revoked_receives_nothing_more(
    standalone: Standalone, client: Client
) -> None:
    standalone.run(grants.grant(standalone.store, NAMESPACE, "listener", ["consume"]))
    consumer = client("listener").subscribe(TOPIC.full, "of-the-listener")
    producer = client("writer").create_producer(TOPIC.full)
    producer.send(b"before")
    assert consumer.receive(5_000).data() == b"before"
    standalone.run(grants.revoke(standalone.store, NAMESPACE, "listener"))
    confirmed = time.monotonic()
    assert standalone.broker is not None
    topic = standalone.broker.running.registry.loaded(TOPIC)
    assert topic is not None
    while topic.subscriptions["of-the-listener"].consumers:
        assert time.monotonic() - confirmed < PROMISE_S
        time.sleep(0.01)
    producer.send(b"after")
    with pytest.raises(pulsar.PulsarException):
        consumer.receive(500)


def test_a_client_whose_token_ends_is_disconnected(standalone: Standalone) -> None:
    ending = token("writer", exp=time.time() + 1.5)
    opened = pulsar.Client(
        standalone.url,
        authentication=pulsar.AuthenticationToken(ending),
        operation_timeout_seconds=3,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    producer = opened.create_producer(TOPIC.full, send_timeout_millis=1_000)
    producer.send(b"before")
    deadline = time.monotonic() + 30
    with pytest.raises(pulsar.PulsarException):
        while time.monotonic() < deadline:
            producer.send(b"still")
            time.sleep(0.1)
    opened.close()
