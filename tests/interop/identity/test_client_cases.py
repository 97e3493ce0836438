"""The official client's cases of certificates, tokens, passwords and OAuth 2, by each scheme of service URLs."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar.schema import JsonSchema, Record, String

from tests.interop.identity.conftest import QUIET, Secured
from tests.support.access.identified import PASSWORD, USER
from tests.support.access.issuer import AUDIENCE, SECRET, Issuer
from tests.support.instances.shared import SharedInstance
from tests.support.net.certificates import Authority

NAMESPACE = "public/client-cases"
TOPIC = f"persistent://{NAMESPACE}/{{}}".format
RECEIVE_MS = 10_000
REFUSED_S = 1
"""Time-out of clients that are refused."""
CERTIFICATE = "superuser"
"""The role by certificates. Passwords and tokens of the issuer have roles with grants alone."""
LOGGED = (r"WARNING engine\.\S+ authentication failed ",)


class Named(Record):  # type: ignore[misc]
    name = String()


@pytest.fixture(scope="module")
def secured(secured_instance: SharedInstance) -> Iterator[Secured]:
    with secured_instance.used(LOGGED) as instance:
        secured = Secured(instance)
        shown = ("-H", f"@{secured.files.header}", "-H", "Content-Type: application/json")
        path = f"/admin/v2/namespaces/{NAMESPACE}"
        assert secured.curl(path, "-X", "PUT", *shown)[0] == 204
        for role in (USER, "by-issuer"):
            given = ("-X", "POST", "-d", '["produce", "consume"]', *shown)
            assert secured.curl(f"{path}/permissions/{role}", *given)[0] == 204
        partitioned = f"/admin/v2/persistent/{NAMESPACE}/partitioned/partitions"
        assert secured.curl(partitioned, "-X", "PUT", "-d", "3", *shown)[0] == 204
        yield secured


def urls(secured: Secured) -> dict[str, str]:
    ports = secured.instance.ports
    return {
        "pulsar": secured.instance.url,
        "pulsar+ssl": secured.url,
        "http": secured.instance.http,
        "https": f"https://127.0.0.1:{ports['HTTPS']}",
    }


def opened(secured: Secured, scheme: str, authentication: Any, **given: Any) -> pulsar.Client:
    """Return a client that trusts the instance's authority and verifies the host, unless ``given`` says otherwise."""
    options: dict[str, Any] = {
        "tls_trust_certs_file_path": str(secured.files.authority),
        "tls_validate_hostname": True,
        "operation_timeout_seconds": 20,
        "logger": QUIET,
    }
    url = given.pop("url", "") or urls(secured)[scheme]
    return pulsar.Client(url, authentication=authentication, **options | given)


def exchange(client: pulsar.Client, topic: str) -> None:
    """Publish a message and receive it, and no other."""
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    client.create_producer(topic).send(b"hello")
    message = consumer.receive(RECEIVE_MS)
    consumer.acknowledge(message)
    assert message.data() == b"hello"
    with pytest.raises(pulsar.Timeout):
        consumer.receive(50)
    client.close()


def refused(client: pulsar.Client, *errors: type[Exception]) -> None:
    with pytest.raises(errors):
        client.create_producer(TOPIC("refused"))
    client.close()


def files_of(secured: Secured) -> tuple[str, str]:
    return str(secured.files.certificate(CERTIFICATE)), str(secured.files.key(CERTIFICATE))


def by_parameters(plugin: str) -> Callable[[Secured], pulsar.Authentication]:
    def make(secured: Secured) -> pulsar.Authentication:
        certificate, key = files_of(secured)
        return pulsar.Authentication(plugin, f"tlsCertFile:{certificate},tlsKeyFile:{key}")

    return make


CERTIFICATES: dict[str, Callable[[Secured], pulsar.Authentication]] = {
    "files": lambda secured: pulsar.AuthenticationTLS(*files_of(secured)),
    "class": by_parameters("org.apache.pulsar.client.impl.auth.AuthenticationTls"),
    "name": by_parameters("tls"),
}


@pytest.mark.parametrize("scheme", ["pulsar+ssl", "https"])
@pytest.mark.parametrize("given", CERTIFICATES)
def test_a_certificate_is_accepted_however_it_is_given(
    secured: Secured, given: str, scheme: str
) -> None:
    client = opened(secured, scheme, CERTIFICATES[given](secured))
    exchange(client, TOPIC(f"certificate-{given}-{scheme[:4]}"))


def test_a_plug_in_that_does_not_exist_is_an_authentication_error(secured: Secured) -> None:
    authentication = pulsar.Authentication("junk.so", "blah")
    refused(opened(secured, "pulsar+ssl", authentication), pulsar.AuthenticationError)


@pytest.mark.parametrize("scheme", ["pulsar+ssl", "https"])
def test_a_server_of_an_unknown_authority_is_accepted_by_insecure_clients_alone(
    secured: Secured, scheme: str, tmp_path: Path
) -> None:
    given = {"tls_trust_certs_file_path": Authority(tmp_path, "other").cert}
    token = pulsar.AuthenticationToken(secured.token)
    insecure = {"tls_allow_insecure_connection": True, "tls_validate_hostname": False}
    exchange(opened(secured, scheme, token, **given, **insecure), TOPIC("insecure"))
    wrong = opened(secured, scheme, token, operation_timeout_seconds=REFUSED_S, **given)
    refused(wrong, pulsar.ConnectError if scheme == "pulsar+ssl" else pulsar.LookupError)


def test_the_name_of_the_host_is_verified_where_the_client_asks_for_it(secured: Secured) -> None:
    # 127.1 is a way to write 127.0.0.1, and none of the names of the certificate; for HTTPS the client rewrites it.
    url = secured.url.replace("127.0.0.1", "127.1")
    token = pulsar.AuthenticationToken(secured.token)
    exchange(opened(secured, "", token, url=url, tls_validate_hostname=False), TOPIC("other-host"))
    verifying = opened(secured, "", token, url=url, operation_timeout_seconds=REFUSED_S)
    refused(verifying, pulsar.ConnectError)


@pytest.mark.parametrize("scheme", ["pulsar", "pulsar+ssl", "http", "https"])
def test_a_token_is_accepted_however_it_is_given(secured: Secured, scheme: str) -> None:
    file = secured.files.token("superuser")
    for number, authentication in enumerate(
        (
            pulsar.AuthenticationToken(secured.token),
            pulsar.AuthenticationToken(file.read_text),
            pulsar.Authentication("token", f"token:{secured.token}"),
            pulsar.Authentication(
                "org.apache.pulsar.client.impl.auth.AuthenticationToken", f"file://{file}"
            ),
        )
    ):
        client = opened(secured, scheme, authentication)
        client.create_producer(TOPIC(f"token-{number}")).send(b"x")
        client.close()


PASSWORDS = {
    "words": lambda: pulsar.AuthenticationBasic(USER, PASSWORD),
    "method": lambda: pulsar.AuthenticationBasic(USER, PASSWORD, "basic"),
    "text": lambda: pulsar.AuthenticationBasic(
        auth_params_string=json.dumps({"username": USER, "password": PASSWORD})
    ),
}


@pytest.mark.parametrize("scheme", ["pulsar", "pulsar+ssl", "http", "https"])
@pytest.mark.parametrize("given", PASSWORDS)
def test_a_password_is_accepted_however_it_is_given(
    secured: Secured, given: str, scheme: str
) -> None:
    client = opened(secured, scheme, PASSWORDS[given]())
    client.create_producer(TOPIC(f"password-{given}")).send(b"x")
    client.close()


@pytest.mark.parametrize("scheme", ["pulsar", "http"])
def test_a_password_of_an_unknown_method_is_refused(secured: Secured, scheme: str) -> None:
    authentication = pulsar.AuthenticationBasic(USER, PASSWORD, "unknown")
    client = opened(secured, scheme, authentication, operation_timeout_seconds=REFUSED_S)
    refused(client, pulsar.AuthenticationError, pulsar.ConnectError, pulsar.Timeout)


@pytest.mark.parametrize("scheme", ["pulsar", "http"])
@pytest.mark.parametrize("shown", [("stranger", PASSWORD), (USER, "wrong")])
def test_a_wrong_name_or_password_is_refused(
    secured: Secured, shown: tuple[str, str], scheme: str
) -> None:
    authentication = pulsar.AuthenticationBasic(*shown)
    client = opened(secured, scheme, authentication, operation_timeout_seconds=REFUSED_S)
    refused(client, pulsar.AuthenticationError, pulsar.ConnectError, pulsar.Timeout)


def test_a_certificate_encrypts_beside_a_password(secured: Secured) -> None:
    certificate, key = files_of(secured)
    password = pulsar.AuthenticationBasic(USER, PASSWORD)

    def client(certificate: str, key: str) -> pulsar.Client:
        given = {"tls_certificate_file_path": certificate, "tls_private_key_file_path": key}
        return opened(secured, "pulsar+ssl", password, operation_timeout_seconds=5, **given)

    exchange(client(certificate, key), TOPIC("encrypted"))
    refused(client(key, certificate), pulsar.ConnectError)


def oauth2(issuer: Issuer, key: str, **more: str) -> pulsar.AuthenticationOauth2:
    given = {"issuer_url": issuer.url, "private_key": key, "audience": AUDIENCE, **more}
    return pulsar.AuthenticationOauth2(json.dumps(given))


def in_the_url(client_id: str, secret: str) -> str:
    credentials = json.dumps({"client_id": client_id, "client_secret": secret}).encode()
    return f"data:application/json;base64,{base64.b64encode(credentials).decode()}"


@pytest.mark.parametrize("scheme", ["pulsar", "pulsar+ssl", "http", "https"])
def test_a_token_is_fetched_from_the_issuer(
    secured: Secured, issuer: Issuer, scheme: str, tmp_path: Path
) -> None:
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({"client_id": "by-issuer", "client_secret": SECRET}))
    for key in (in_the_url("by-issuer", SECRET), str(file), f"file://{file}"):
        client = opened(secured, scheme, oauth2(issuer, key, scope="publish"))
        client.create_producer(TOPIC("by-issuer")).send(b"x")
        client.close()
        form = issuer.granted[-1]
        assert (form["client_id"], form["audience"], form["scope"]) == (
            "by-issuer",
            AUDIENCE,
            "publish",
        )


@pytest.mark.parametrize(
    "key",
    [
        in_the_url("by-issuer", "wrong"),
        *("xxx:yyy", "data:", "data:application/x-pem", "data:application/json;xxx"),
    ],
)
def test_a_client_that_gets_no_token_from_the_issuer_is_refused(
    secured: Secured, issuer: Issuer, key: str
) -> None:
    refused(opened(secured, "pulsar", oauth2(issuer, key)), pulsar.AuthenticationError)


def test_a_role_of_the_issuer_has_its_grants_alone(secured: Secured, issuer: Issuer) -> None:
    key = in_the_url("stranger", SECRET)
    refused(opened(secured, "pulsar", oauth2(issuer, key)), pulsar.AuthorizationError)


@pytest.mark.parametrize("scheme", ["pulsar+ssl", "https"])
def test_all_kinds_of_work_are_done_by_a_role_with_grants(secured: Secured, scheme: str) -> None:
    client = opened(secured, scheme, pulsar.AuthenticationBasic(USER, PASSWORD))
    names = [TOPIC(f"{scheme[:4]}-many-{number}") for number in range(2)]
    schema = JsonSchema(Named)
    for name in names:
        client.create_producer(name, schema=schema).send(Named(name=name), partition_key="key")
    pattern = TOPIC(f"{scheme[:4]}-many-.*")
    for topics in (names, re.compile(pattern)):
        consumer = client.subscribe(
            topics,
            f"s-{type(topics).__name__}",
            initial_position=pulsar.InitialPosition.Earliest,
            schema=schema,
        )
        received = {consumer.receive(RECEIVE_MS).value().name for _ in names}
        assert received == set(names)
    reader = client.create_reader(names[0], pulsar.MessageId.earliest, schema=schema)
    assert reader.has_message_available()
    assert reader.read_next(RECEIVE_MS).value().name == names[0]
    table = client.create_table_view(names[0], "view", schema=schema)
    assert table.get("key").name == names[0]
    partitions = [f"{TOPIC('partitioned')}-partition-{number}" for number in range(3)]
    assert client.get_topic_partitions(TOPIC("partitioned")) == partitions
    exchange(client, TOPIC("partitioned"))
