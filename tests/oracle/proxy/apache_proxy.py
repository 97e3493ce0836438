"""Apache's proxy as published, in front of any broker."""

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.oracle.peer import DIST
from tests.support.ports import free_ports

READY_S_MAX = 120.0


class ApacheProxy(NamedTuple):
    """Addresses and process of a running proxy."""

    url: str
    url_tls: str
    http: str
    pid: int


@contextmanager
def apache_proxy(
    folder: Path,
    broker_url: str,
    web_url: str,
    *,
    java: str = "-Xms32m -Xmx256m -XX:MaxDirectMemorySize=256m",
    collector: str = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    **settings: str,
) -> Iterator[ApacheProxy]:
    """Yield a proxy in front of the broker at ``broker_url``; further settings by Apache's names."""
    folder.mkdir(parents=True)
    port, port_tls, web_port = free_ports(3)
    given = {
        "brokerServiceURL": broker_url,
        "brokerWebServiceURL": web_url,
        "servicePort": str(port),
        "webServicePort": str(web_port),
        "bindAddress": "127.0.0.1",
        "advertisedAddress": "127.0.0.1",
        "brokerProxyAllowedTargetPorts": broker_url.rpartition(":")[2],
        "numIOThreads": "2",
        "numAcceptorThreads": "1",
        "clusterName": "standalone",
        **({"servicePortTls": str(port_tls)} if "tlsKeyFilePath" in settings else {}),
        **settings,
    }
    lines = [
        f"{name}={given.pop(name)}" if (name := line.partition("=")[0].strip()) in given else line
        for line in (DIST / "conf" / "proxy.conf").read_text().splitlines()
    ]
    conf = folder / "proxy.conf"
    conf.write_text("\n".join([*lines, *(f"{name}={text}" for name, text in given.items()), ""]))
    with (folder / "out.log").open("wb") as log:
        process = subprocess.Popen(
            [str(DIST / "bin" / "pulsar"), "proxy"],
            env={
                **os.environ,
                "PULSAR_PROXY_CONF": str(conf),
                "PULSAR_LOG_DIR": str(folder),
                "PULSAR_MEM": java,
                "PULSAR_GC": collector,
            },
            stdout=log,
            stderr=log,
        )
    http = f"http://127.0.0.1:{web_port}"
    try:
        until = time.monotonic() + READY_S_MAX
        while not _serves(f"{http}/metrics/"):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((folder / "out.log").read_text()[-3000:])
            time.sleep(0.1)
        yield ApacheProxy(
            f"pulsar://127.0.0.1:{port}", f"pulsar+ssl://127.0.0.1:{port_tls}", http, process.pid
        )
    finally:
        process.terminate()
        process.wait(60)


def _serves(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False
