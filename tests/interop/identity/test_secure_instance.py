"""An instance with ``--secure``: clients with credentials are served in TLS, strangers nowhere, and no secret shows."""

import datetime
import http.client
import json
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from gateway.standalone.secure import SecureFiles
from tests.support.instance import Instance

TOPIC = "persistent://public/default/secured"
RECEIVE_MS = 10_000
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


class Secured:
    """A secure instance with its files."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.files = SecureFiles(instance.data_dir)
        self.url = f"pulsar+ssl://127.0.0.1:{instance.ports['BROKER_TLS']}"

    def client(self, authentication: pulsar.Authentication | None, url: str = "") -> pulsar.Client:
        given: dict[str, Any] = {} if authentication is None else {"authentication": authentication}
        return pulsar.Client(
            url or self.url,
            tls_trust_certs_file_path=str(self.files.authority),
            tls_validate_hostname=True,
            operation_timeout_seconds=20,
            logger=QUIET,
            **given,
        )

    @property
    def token(self) -> str:
        return self.files.token("superuser").read_text()

    def curl(self, path: str, *options: str) -> tuple[int, str]:
        """Return the status and the body of a request by HTTPS."""
        url = f"https://127.0.0.1:{self.instance.ports['HTTPS']}{path}"
        command = ["curl", "-sS", "--cacert", str(self.files.authority), "-w", "\n%{http_code}"]
        done = subprocess.run(
            [*command, *options, url], capture_output=True, text=True, check=True, timeout=60
        )
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    refreshed = {
        "MAGNETAR_TLS_CERT_REFRESH_CHECK_DURATION_SEC": "0",
        "MAGNETAR_BROKER_CLIENT_AUTO_CERT_REFRESH_SECONDS": "0",
    }
    instance = Instance(tmp_path_factory.mktemp("secure"), secure=True, **refreshed)
    instance.start()
    yield Secured(instance)
    instance.stop()


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
    for path, status in (("/admin/v2/tenants", 401), ("/admin/v2/brokers/health", 200)):
        clear.request("GET", path)
        answer = clear.getresponse()
        answer.read()
        assert answer.status == status
    clear.close()
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
    secrets += [files.token_key.read_bytes().hex()]
    texts = {
        str(path): path.read_text(errors="replace")
        for path in (secured.instance.data_dir / "logs").iterdir()
    }
    children = secured.instance.control("status")["children"]
    for pid in [child["pid"] for child in children if child["pid"]]:
        texts[f"command line of {pid}"] = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
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
