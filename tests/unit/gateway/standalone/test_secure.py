"""The files of a secure instance: made once, renewed in time, for the instance's user alone; and its children."""

import datetime
import socket
from pathlib import Path

import pytest
from cryptography import x509

from bookie.settings import PROGRAM as BOOKIE
from engine.metadata.server.settings import PROGRAM as METADATA_SERVER
from engine.programs.proxy import load as load_proxy
from engine.settings import load as load_broker
from gateway.environment import load as load_gateway
from gateway.standalone.plan import (
    HTTPS_LISTENER,
    LISTENER,
    Child,
    InstanceOptions,
    PlanError,
    children,
)
from gateway.standalone.secure import GATEWAY, PROXY, SecureError, SecureFiles
from gateway.standalone.settings import PROGRAM

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


class Start:
    """Starts of one instance, with what they reported."""

    def __init__(self, data_dir: Path) -> None:
        self.files = SecureFiles(data_dir)
        self.reports: list[str] = []

    def at(self, now: datetime.datetime) -> dict[str, bytes]:
        """Start at ``now``; return the contents of the files."""
        self.reports.clear()
        self.files.prepare(now, self.reports.append)
        return {path.name: path.read_bytes() for path in self.files.folder.iterdir()}


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return Start(tmp_path)


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


def test_the_files_are_for_their_user_alone_and_stay_over_a_restart(start: Start) -> None:
    made = start.at(NOW)
    folder = start.files.folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert {"ca.pem", "token-secret.key", "superuser.token", "superuser.pem"} <= made.keys()
    assert changed(made, start.at(NOW + 300 * DAY)) == set()
    assert start.reports == []


def test_certificates_are_renewed_before_they_end_and_nothing_else_is(start: Start) -> None:
    made = start.at(NOW)
    later = start.at(NOW + 340 * DAY)
    names = ("server", "superuser", "magnetar-broker")
    assert changed(made, later) == {f"{name}.{kind}" for name in names for kind in ("pem", "key")}
    assert len(start.reports) == len(names)
    authority = x509.load_pem_x509_certificate(later["ca.pem"])
    for name in names:
        x509.load_pem_x509_certificate(later[f"{name}.pem"]).verify_directly_issued_by(authority)


def test_an_authority_that_would_end_before_its_certificates_is_replaced(start: Start) -> None:
    made = start.at(NOW)
    later = start.at(NOW + 3400 * DAY)
    assert "ca.pem" in changed(made, later)
    assert any("clients need the new one" in line for line in start.reports)
    authority = x509.load_pem_x509_certificate(later["ca.pem"])
    x509.load_pem_x509_certificate(later["server.pem"]).verify_directly_issued_by(authority)


def test_a_machine_with_another_name_has_another_certificate(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = start.at(NOW)
    monkeypatch.setattr(socket, "gethostname", lambda: "renamed.example")
    assert changed(made, start.at(NOW)) == {"server.pem", "server.key"}


def test_files_that_others_can_read_are_closed_and_reported(start: Start) -> None:
    start.at(NOW)
    opened = start.files.token("superuser")
    opened.chmod(0o644)
    start.files.folder.chmod(0o755)
    start.at(NOW)
    assert opened.stat().st_mode & 0o777 == 0o600
    assert start.files.folder.stat().st_mode & 0o777 == 0o700
    assert len(start.reports) == 2


def test_tokens_follow_the_key_that_signs_them(start: Start) -> None:
    made = start.at(NOW)
    start.files.token_key.write_bytes(bytes(32))
    later = start.at(NOW)
    tokens = {"superuser.token", "superuser.header", "magnetar-broker.token"}
    others = {
        *("magnetar-gateway.token", "magnetar-proxy.token", "magnetar-functions.token"),
        "token-secret.key",
    }
    assert changed(made, later) == tokens | others


@pytest.mark.parametrize(
    ("name", "contents"), [("server.pem", b"damaged"), ("token-secret.key", b"short")]
)
def test_a_file_that_cannot_be_used_stops_the_start(
    start: Start, name: str, contents: bytes
) -> None:
    start.at(NOW)
    (start.files.folder / name).write_bytes(contents)
    with pytest.raises(SecureError, match=str(start.files.folder)):
        start.at(NOW)


def plan(data_dir: Path, **environ: str) -> dict[str, Child]:
    files = SecureFiles(data_dir)
    files.prepare(NOW, lambda line: None)
    options = InstanceOptions(data_dir, PROGRAM.load(environ, data_dir), secure=files, proxy=True)
    made = children(options, java_home=data_dir, classpath="", redis="redis-server")
    return {child.name: child for child in made}


def test_each_child_accepts_its_secure_settings(tmp_path: Path) -> None:
    made = plan(tmp_path)
    broker = load_broker(made["broker-1"].env, tmp_path)
    gateway = load_gateway(made["gateway"].env, tmp_path)
    BOOKIE.load(made["bookie-1"].env, tmp_path, {"data_dir": str(tmp_path)})
    assert (broker.node.broker_service_port_tls, broker.node.broker_http_port_tls) == (6651, 8082)
    assert gateway.environment.https_port == 8443
    proxy = load_proxy(made["proxy"].env, tmp_path)
    assert (proxy.proxy.service_port_tls, proxy.encrypted) == (6641, True)
    for identity in (broker.identity, gateway.identity, proxy.identity):
        assert identity.general.providers == ("token", "tls")
        assert identity.authorization.authorization_enabled
        assert identity.general.authenticate_metrics_endpoint
        assert identity.general.proxy_roles == f"{GATEWAY},{PROXY}"
    assert broker.node.bind_address == "127.0.0.1"
    assert broker.ledger.bookie_tls_provider
    server = METADATA_SERVER.load(made["zookeeper"].env, tmp_path, {"data_dir": str(tmp_path)})
    assert (server.server.tls_port, server.server.tls_only) == (2181, True)
    assert (broker.metadata.access.zookeeper_tls, broker.metadata.access) == (
        True,
        gateway.metadata.access,
    )


def test_further_providers_are_listed_after_those_of_the_instance(tmp_path: Path) -> None:
    listed = SecureFiles(tmp_path, "oidc, token,basic").environment()
    assert listed["MAGNETAR_AUTHENTICATION_PROVIDERS"] == "token,tls,oidc,basic"


def test_the_ports_move_with_the_offset_and_several_gateways_share_https(tmp_path: Path) -> None:
    made = plan(tmp_path, MAGNETAR_PORT_OFFSET="4000", MAGNETAR_GATEWAYS="2")
    assert made["broker-1"].ports == {
        "pulsar": 10_650,
        "http": 12_081,
        "pulsar+ssl": 10_651,
        "https": 12_082,
    }
    for number in (1, 2):
        gateway = made[f"gateway-{number}"]
        assert gateway.listeners == {LISTENER: 12_080, HTTPS_LISTENER: 12_443}
        assert gateway.env["MAGNETAR_HTTPS_PORT"] == "12443"


def test_no_command_line_and_no_variable_has_a_secret(tmp_path: Path) -> None:
    made = plan(tmp_path)
    files = SecureFiles(tmp_path)
    tokens = [path.read_text() for path in files.folder.glob("*.token")]
    tokens.append(files.redis_password.read_text())
    keys = [path.read_text() for path in files.folder.glob("*.key") if path != files.token_key]
    for child in made.values():
        for text in (*child.argv, *child.env.values()):
            assert not any(secret in text for secret in (*tokens, *keys))


def test_redis_and_spark_ask_for_a_secret_of_their_files(tmp_path: Path) -> None:
    made = plan(tmp_path)
    files = SecureFiles(tmp_path)
    redis, spark, worker = made["redis"], made["spark"], made["worker"]
    assert redis.argv[1] == str(files.redis_config)
    password = files.redis_password.read_text()
    assert files.redis_config.read_text() == f"requirepass {password}\n"
    index = spark.argv.index("--properties-file")
    properties = dict(
        line.split(" ") for line in Path(spark.argv[index + 1]).read_text().splitlines()
    )
    assert properties == {
        "spark.connect.authenticate.token": files.spark_token.read_text(),
        "spark.authenticate": "true",
    }
    assert worker.env["SPARK_REMOTE"].startswith("sc://localhost:")
    assert worker.env["SPARK_CONNECT_TOKEN_FILE"] == str(files.spark_token)
    assert {redis.ready.password_file, worker.ready.password_file} == {files.redis_password}
    for child in (worker, made["gateway"]):
        # A worker opens the clusters of a gateway, so that it needs what a gateway presents to brokers.
        assert load_gateway(child.env, tmp_path).redis.password() == password
    assert len(password) == len(files.spark_token.read_text()) == 64


def test_secrets_of_redis_and_spark_stay_over_a_restart(start: Start) -> None:
    made = start.at(NOW)
    assert changed(made, start.at(NOW)) == set()
    start.files.redis_password.write_text("short")
    assert changed(made, start.at(NOW)) == {"redis.password", "redis.conf"}


def test_a_secure_instance_has_no_apache_zookeeper(tmp_path: Path) -> None:
    files = SecureFiles(tmp_path)
    options = InstanceOptions(
        tmp_path, PROGRAM.load({}, tmp_path), metadata="zookeeper", secure=files
    )
    with pytest.raises(PlanError, match="--secure needs --metadata embedded"):
        children(options, java_home=tmp_path, classpath="", redis="redis-server")
