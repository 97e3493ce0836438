"""A broker whose settings switch authorization on judges clients by their tokens and callers by their principals."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.policies import SET_TOPIC_POLICY, SetTopicPolicy
from engine.admin.api.topics import CREATE_TOPIC, TERMINATE, CreateTopic
from engine.auth.authenticators import jws
from engine.auth.authenticators.provider import ProviderError
from engine.auth.authenticators.signing_keys import SecretKey
from engine.auth.private_files import write_private
from engine.base.errors import Forbidden
from engine.base.names import TopicName
from engine.broker.service import BrokerService
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.settings import SettingsError
from engine.tenancy import grants, tenants
from engine.tenancy.access.read_only import READ_ONLY_FLAG
from engine.tenancy.access.revoked_tokens import RevokedTokens, revoke_token
from engine.wire import client_commands
from engine.wire.commands import command_frame
from engine.wire.errors import RefusedError, ServerError
from tests.support.access.callers import KEY, token
from tests.support.access.guarded_broker import Wire
from tests.support.admin.broker_instance import BrokerInstance
from tests.support.broker_bench import until

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/t")
SETTINGS = {
    "authentication_enabled": "true",
    "authentication_providers": "token",
    "token_secret_key": base64.b64encode(KEY).decode(),
    "authorization_enabled": "true",
    "super_user_roles": "root,proxy",
    "proxy_roles": "proxy",
    "broker_client_authentication_plugin": "token",
    "broker_client_authentication_parameters": f"token:{token('root')}",
}
FAILED = ("AuthenticationProviderToken", "token")


@pytest.fixture
async def instance() -> AsyncIterator[BrokerInstance]:
    instance = BrokerInstance()
    await instance.cluster.start("b1")
    yield instance
    await instance.close()


@pytest.fixture
async def broker(instance: BrokerInstance) -> BrokerService:
    broker = await instance.broker(settings=SETTINGS)
    record = {"adminRoles": ["admin"], "allowedClusters": ["standalone"]}
    await tenants.update_tenant(instance.cluster.store, "public", record)
    return broker


async def link(
    instance: BrokerInstance, broker: BrokerService, role: str, shown: str = ""
) -> BrokerLink:
    credentials = ("token", (shown or token(role)).encode())
    settings = LinkSettings(credentials=lambda challenge: credentials)
    return await BrokerLink.open(
        instance.cluster.network, "127.0.0.1", broker.broker_port, settings
    )


async def test_a_client_needs_a_grant(instance: BrokerInstance, broker: BrokerService) -> None:
    app = await link(instance, broker, "app")
    with pytest.raises(RefusedError) as refused:
        await app.request(1, client_commands.lookup(TOPIC.full, 1))
    assert refused.value.code is ServerError.AuthorizationError
    assert str(refused.value) == "Client is not authorized to Lookup"
    await grants.grant(instance.cluster.store, TOPIC.namespace, "app", ["produce"])
    await app.request(2, client_commands.lookup(TOPIC.full, 2))
    await app.request(3, client_commands.producer(TOPIC.full, 1, 3))
    await grants.revoke(instance.cluster.store, TOPIC.namespace, "app")
    topic = broker.running.registry.loaded(TOPIC)
    assert topic is not None
    await until(lambda: not topic.publishers.attached)
    app.close()


async def test_an_operation_needs_a_right_of_its_principal(
    instance: BrokerInstance, broker: BrokerService
) -> None:
    admin = instance.admin
    for principal in ("app", "internal", "proxy"):
        with pytest.raises(Forbidden):
            await admin.call(CREATE_TOPIC, CreateTopic(TOPIC), principal=principal)
    await admin.call(CREATE_TOPIC, CreateTopic(TOPIC), principal="admin")
    # It is written to the policies' log, as which the broker is a client of itself.
    policy = SetTopicPolicy(TOPIC, "maxConsumersPerTopic", 3)
    await admin.call(SET_TOPIC_POLICY, policy, principal="admin")
    await admin.call(TERMINATE, OnTopic(TOPIC))


async def test_policies_of_topics_are_changed_only_without_the_read_only_flag(
    instance: BrokerInstance, broker: BrokerService
) -> None:
    store, admin = instance.cluster.store, instance.admin
    await admin.call(CREATE_TOPIC, CreateTopic(TOPIC), principal="root")
    await store.create(READ_ONLY_FLAG, make_parents=True)
    policy = SetTopicPolicy(TOPIC, "maxConsumersPerTopic", 3)
    with pytest.raises(Forbidden, match="Policies are read-only"):
        await admin.call(SET_TOPIC_POLICY, policy, principal="root")
    await store.delete(READ_ONLY_FLAG)
    await admin.call(SET_TOPIC_POLICY, policy, principal="root")


async def test_a_revoked_token_is_refused_and_its_connections_end(
    instance: BrokerInstance, broker: BrokerService
) -> None:
    store, clock = instance.cluster.store, instance.cluster.clock
    revoked, other = token("app", jti="one"), token("app", jti="other")
    lost = await link(instance, broker, "app", revoked)
    kept = await link(instance, broker, "app", other)
    await revoke_token(store, "one", expires_at=None, clock=clock)
    confirmed = asyncio.get_running_loop().time()
    await until(lambda: lost.closing)
    assert asyncio.get_running_loop().time() - confirmed <= 1.0
    with pytest.raises(RefusedError, match="Failed to authenticate"):
        await link(instance, broker, "app", revoked)
    (await link(instance, broker, "app", other)).close()
    assert not kept.closing
    kept.close()
    assert broker.running.authentication.outcomes.failed[*FAILED, "REVOKED_TOKEN"] == 1


async def test_a_broker_that_starts_accepts_no_token_that_was_revoked(
    instance: BrokerInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The records are read before clients are accepted, and not only as changes are followed.
    monkeypatch.setattr(RevokedTokens, "start", lambda self: None)
    store, clock = instance.cluster.store, instance.cluster.clock
    await revoke_token(store, "one", expires_at=None, clock=clock)
    broker = await instance.broker(settings=SETTINGS)
    with pytest.raises(RefusedError, match="Failed to authenticate"):
        await link(instance, broker, "app", token("app", jti="one"))


async def test_connections_of_tokens_by_a_replaced_key_end(
    instance: BrokerInstance, tmp_path: Path
) -> None:
    path = tmp_path / "secret.key"
    write_private(path, KEY)
    own = tmp_path / "broker.token"
    write_private(own, token("root").encode())
    broker = await instance.broker(
        settings=SETTINGS
        | {
            "token_secret_key": path.as_uri(),
            "broker_client_authentication_parameters": own.as_uri(),
        }
    )
    app = await link(instance, broker, "app")
    new = bytes(reversed(KEY))
    path.write_bytes(new)
    own.write_text(jws.sign({"sub": "root"}, SecretKey(new), "HS256"))
    replaced = asyncio.get_running_loop().time()
    await until(lambda: app.closing)
    assert asyncio.get_running_loop().time() - replaced <= 5.0
    with pytest.raises(RefusedError, match="Failed to authenticate"):
        await link(instance, broker, "app")
    (await link(instance, broker, "app", jws.sign({"sub": "app"}, SecretKey(new), "HS256"))).close()
    # Its own log of policies, of which the broker is a client, is written by the new token.
    await instance.admin.call(CREATE_TOPIC, CreateTopic(TOPIC), principal="root")
    policy = SetTopicPolicy(TOPIC, "maxConsumersPerTopic", 3)
    await instance.admin.call(SET_TOPIC_POLICY, policy, principal="root")


async def test_a_proxy_names_its_client(instance: BrokerInstance, broker: BrokerService) -> None:
    with pytest.raises(RefusedError, match="Invalid roles"):
        await link(instance, broker, "proxy")


def forwarded(role: str, credentials: str) -> bytes:
    """Return the CONNECT of a proxy for a client with this role and these credentials."""
    return command_frame(
        "connect",
        client_version="test",
        auth_method_name="token",
        auth_data=token("proxy").encode(),
        original_principal=role,
        original_auth_data=credentials,
        original_auth_method="token",
    )


async def test_the_credentials_that_a_proxy_forwards_are_checked_and_both_roles_judged(
    instance: BrokerInstance,
) -> None:
    settings = {**SETTINGS, "authenticate_original_auth_data": "true", "super_user_roles": "root"}
    broker = await instance.broker(settings=settings)
    store = instance.cluster.store

    def connected(credentials: str) -> Wire:
        wire = Wire(broker.running.sessions.accept())
        wire.send(forwarded("app", credentials))
        return wire

    assert connected("not a token").bodies("error")[0].error == ServerError.AuthenticationError
    client = connected(token("app"))

    async def is_refused() -> bool:
        answer = await client.ask(lambda request: client_commands.lookup(TOPIC.full, request))
        return bool(answer.error == ServerError.AuthorizationError)

    for granted in ("app", "proxy"):
        assert await is_refused()
        await grants.grant(store, TOPIC.namespace, granted, ["produce"])
    # A grant counts from the notice of the change on.
    async with asyncio.timeout(30):
        while await is_refused():
            await asyncio.sleep(0.01)
    client.session.closed(None)


async def test_a_broker_that_is_no_superuser_does_not_start(instance: BrokerInstance) -> None:
    with pytest.raises(ProviderError, match="role 'root' must be in super_user_roles"):
        await instance.broker(settings={**SETTINGS, "super_user_roles": "proxy"})


async def test_authorization_without_authentication_does_not_start(
    instance: BrokerInstance,
) -> None:
    with pytest.raises(SettingsError, match="authentication_enabled must be true where"):
        await instance.broker(settings={"authorization_enabled": "true"})
