"""An instance with ``--secure``: clients with credentials are served in TLS, strangers nowhere, and no secret shows."""

import datetime
import http.client
import json
import os
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from tests.interop.identity.conftest import Secured
from tests.support.instances.shared import SharedInstance

TOPIC = "persistent://public/default/secured"
RECEIVE_MS = 10_000


@pytest.fixture(scope="module")
def secured(secured_instance: SharedInstance) -> Iterator[Secured]:
    refused = (r"WARNING engine\.\S+ authentication failed ",)
    with secured_instance.used(refused) as instance:
        yield Secured(instance)


def test_a_token_and_a_certificate_are_served_in_tls(secured: Secured) -> None:
    shown = (str(secured.files.certificate("superuser")), str(secured.files.key("superuser")))
    credentials = (pulsar.AuthenticationToken(secured.token), pulsar.AuthenticationTLS(*shown))
    for number, authentication in enumerate(credentials):
        client = secured.client(authentication)
        consumer = client.subscribe(TOPIC, f"s-{number}")
        client.create_producer(TOPIC).send(b"secret")
        assert consumer.receive(RECEIVE_MS).data() == b"secret"
        client.close()


def test_https_is_served_by_token_and_by_certificate(secured: Secured) -> None:
    files = secured.files
    by_token = ("-H", f"@{files.header}")
    by_certificate = ("--cert", str(files.certificate("superuser")))
    for shown in (by_token, (*by_certificate, "--key", str(files.key("superuser")))):
        status, body = secured.curl("/admin/v2/tenants", *shown)
        assert (status, json.loads(body)) == (200, ["public", "pulsar"])


def test_a_stranger_is_refused_everywhere(secured: Secured) -> None:
    assert secured.curl("/admin/v2/tenants")[0] == 401
    assert secured.curl("/api/v1/environment")[0] == 401
    clear = http.client.HTTPConnection("127.0.0.1", secured.instance.ports["HTTP"], timeout=60)
    for path, status in (
        *(("/admin/v2/tenants", 401), ("/metrics", 401)),
        ("/admin/v2/brokers/health", 200),
    ):
        clear.request("GET", path)
        answer = clear.getresponse()
        answer.read()
        assert answer.status == status
    clear.close()
    of_broker = http.client.HTTPConnection(
        "127.0.0.1", secured.instance.ports["BROKER_HTTP"], timeout=60
    )
    of_broker.request("GET", "/metrics")
    assert of_broker.getresponse().status == 401
    of_broker.close()
    for url in (secured.url, secured.instance.url):
        client = secured.client(None, url)
        with pytest.raises(pulsar.PulsarException):
            client.get_topic_partitions(TOPIC)
        client.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        http.client.HTTPSConnection(
            "127.0.0.1",
            secured.instance.ports["HTTPS"],
            timeout=60,
            context=ssl.create_default_context(),
        ).request("GET", "/")


def test_certificates_are_replaced_while_a_client_publishes(secured: Secured) -> None:
    client = secured.client(pulsar.AuthenticationToken(secured.token))
    consumer = client.subscribe(TOPIC, "replaced")
    producer = client.create_producer(TOPIC)
    stop, confirmed = threading.Event(), []

    def publish() -> None:
        while not stop.is_set():
            producer.send(str(len(confirmed)).encode())
            confirmed.append(len(confirmed))

    publisher = threading.Thread(target=publish)
    publisher.start()
    before = secured.files.certificate("server").read_bytes()
    secured.files.certificate("server").unlink()
    secured.files.prepare(datetime.datetime.now(datetime.UTC), lambda line: None)
    assert secured.files.certificate("server").read_bytes() != before
    connection = http.client.HTTPSConnection(
        "127.0.0.1",
        secured.instance.ports["HTTPS"],
        timeout=60,
        context=ssl._create_unverified_context(),
    )
    connection.connect()
    assert connection.sock is not None
    shown = connection.sock.getpeercert(binary_form=True)  # type: ignore[attr-defined]
    assert (
        ssl.DER_cert_to_PEM_cert(shown).encode() == secured.files.certificate("server").read_bytes()
    )
    connection.close()
    stop.set()
    publisher.join()
    received = [int(consumer.receive(RECEIVE_MS).data()) for _ in confirmed]
    assert received == confirmed
    client.close()


def test_no_secret_is_in_a_log_a_command_line_or_an_answer(secured: Secured) -> None:
    files = secured.files
    secrets = [path.read_text().rpartition(".")[2] for path in files.folder.glob("*.token")]
    secrets += [
        line
        for path in files.folder.glob("*.key")
        if path != files.token_key
        for line in path.read_text().splitlines()
        if not line.startswith("-----")
    ]
    secrets += [files.token_key.read_bytes().hex(), files.redis_password.read_text()]
    data_dir = secured.instance.data_dir
    secrets += [
        (data_dir / name).read_text().strip()
        for name in ("internal-token", "set-up-code", "secret_key")
    ]
    assert min(map(len, secrets)) >= 16
    texts = {
        str(path): path.read_text(errors="replace")
        for path in [*(data_dir / "logs").iterdir(), data_dir / "supervisor.log"]
    }
    children = secured.instance.control("status")["children"]
    for pid in [child["pid"] for child in children if child["pid"]]:
        process = Path(f"/proc/{pid}")
        texts[f"command line of {pid}"] = (process / "cmdline").read_bytes().decode()
        texts[f"environment of {pid}"] = (process / "environ").read_bytes().decode()
        assert (process / "environ").stat().st_mode & 0o777 == 0o400
    shown = ("-H", f"@{files.header}")
    for path in (
        *("/admin/v2/brokers/configuration/runtime", "/admin/v2/brokers/configuration"),
        *("/admin/v2/clusters/standalone", "/metrics", "/api/v1/environment", "/api/v1/audit"),
    ):
        status, texts[path] = secured.curl(path, *shown)
        assert status == 200, path
    shown_secrets = [
        (where, secret) for where, text in texts.items() for secret in secrets if secret in text
    ]
    assert shown_secrets == []
    assert os.stat(files.folder).st_mode & 0o777 == 0o700
