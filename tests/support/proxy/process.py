"""A proxy as a child process, in front of the brokers of an instance."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from gateway.standalone.secure import SecureFiles
from tests.support.instance import ROOT, Instance
from tests.support.ports import free_ports
from tests.support.waiting import until_blocking


def variables_of(instance: Instance) -> dict[str, str]:
    """Return the variables of a proxy of an instance, with its credentials where it is secure."""
    variables = {"MAGNETAR_METADATA_URL": f"zk:127.0.0.1:{instance.ports['ZOOKEEPER']}"}
    if instance.secure:
        files = SecureFiles(instance.data_dir)
        variables |= {
            **files.environment(),
            **files.of_metadata_clients(),
            **files.of_proxy(),
        }
    return variables


class ProxyProcess:
    """The program on free ports, with its log in ``folder``. The ports stay when it is started again."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.port, self.port_tls, self.web_port = free_ports(3)
        self._log = folder / "proxy.log"
        tls = "MAGNETAR_TLS_KEY_FILE_PATH" in variables
        self._environment = {
            "PATH": os.environ["PATH"],
            **variables,
            "MAGNETAR_PROXY_SERVICE_PORT": str(self.port),
            "MAGNETAR_PROXY_WEB_SERVICE_PORT": str(self.web_port),
            **({"MAGNETAR_PROXY_SERVICE_PORT_TLS": str(self.port_tls)} if tls else {}),
        }
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def url_tls(self) -> str:
        return f"pulsar+ssl://127.0.0.1:{self.port_tls}"

    def start(self) -> None:
        """Start and wait until it serves."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "engine", "proxy"],
                cwd=ROOT,
                env=self._environment,
                stderr=log,
            )
        until_blocking(self._is_ready, self.log)

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        try:
            return self.page("/ready") == "ok\n"
        except OSError:
            return False

    def page(self, path: str) -> str:
        """Return a page. Raises OSError."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.web_port}{path}", timeout=20) as got:
            return str(got.read().decode())

    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def stop(self) -> int:
        """End it as an operator does; return its exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60)

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)
