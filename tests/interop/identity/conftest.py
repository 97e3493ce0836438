"""An instance with ``--secure`` for clients with tokens, certificates, passwords, and tokens of an issuer."""

import base64
import subprocess
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest

from gateway.standalone.secure import SecureFiles
from tests.support.access.identified import APR1, USER
from tests.support.access.issuer import Issuer
from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance

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


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    """The issuer whose tokens the instance accepts."""
    made = Issuer()
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def secured_instance(
    tmp_path_factory: pytest.TempPathFactory, issuer: Issuer
) -> Iterator[SharedInstance]:
    """An instance for the files that ``tests/support/instances/shared.py`` lists under this name."""
    users = base64.b64encode(f"{USER}:{APR1}\n".encode()).decode()
    settings = {
        "tls_cert_refresh_check_duration_sec": "0",
        "broker_client_auto_cert_refresh_seconds": "0",
        "authentication_providers": "basic,oidc",
        "basic_auth_conf": f"data:;base64,{users}",
        **issuer.settings(),
    }

    def start() -> Instance:
        env = {f"MAGNETAR_{name.upper()}": value for name, value in settings.items()}
        made = Instance(tmp_path_factory.mktemp("secure"), secure=True, **env)
        made.start()
        return made

    shared = SharedInstance(start)
    yield shared
    shared.close()
