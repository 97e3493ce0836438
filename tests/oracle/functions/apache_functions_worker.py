"""Apache's functions worker as published, beside any broker.

Its port is on all addresses, which no setting changes. The instances that it starts in Python listen on loopback, by
``PYTHON_START``.
"""

import os
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.oracle.peer import DIST
from tests.support.ports import free_ports

READY_S_MAX = 300.0
PYTHON_START = '''"""Start of each Python of the worker: loopback alone, and stand-ins for modules."""
import socket
import sys
import types

_bind = socket.socket.bind
socket.socket.bind = lambda self, at: _bind(
    self, ("127.0.0.1", *at[1:]) if isinstance(at, tuple) and at[0] in ("", "0.0.0.0") else at
)


def _stand_in(name, **members):
    made = types.ModuleType(name)
    made.__path__ = []
    made.__dict__.update(members)
    made.__getattr__ = lambda member: type(member, (Exception,), {})
    sys.modules[name] = made


if any(word.endswith("python_instance_main.py") for word in sys.orig_argv):
    for name in ("", ".kv", ".kv.client", ".types", ".admin", ".admin.client", ".common", ".common.exceptions"):
        _stand_in("bookkeeper" + name)
    for name in (".proto", ".proto.stream_pb2"):
        _stand_in("bookkeeper" + name)
    _stand_in("ratelimit", limits=lambda calls, period: lambda limited: limited)
    from grpc import _server as grpc_server

    _server = grpc_server._Server
    _add = _server.add_insecure_port
    _server.add_insecure_port = lambda self, at: _add(self, at.replace("[::]", "127.0.0.1"))
'''


class ApacheFunctionsWorker(NamedTuple):
    """A running worker: its id, the address of its REST interface, and its process."""

    id: str
    http: str
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End the worker in order; it may have ended."""
        self.process.terminate()
        self.process.wait(60)


def worker_port() -> int:
    """Return a port for a worker, whose id may depend on it."""
    return free_ports(1)[0]


@contextmanager
def apache_functions_worker(
    folder: Path,
    worker_id: str,
    port: int,
    *,
    broker_url: str,
    web_url: str,
    zk: str,
    java: str = "-Xms32m -Xmx256m -XX:MaxDirectMemorySize=128m",
    ready: str = "",
    collector: str = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    **settings: str,
) -> Iterator[ApacheFunctionsWorker]:
    """Yield a worker beside the broker at ``broker_url``; further settings by Apache's names. ``ready``: the page whose
    answer shows that it serves, also one that refuses a caller without credentials."""
    folder.mkdir(parents=True)
    start = folder / "python"
    start.mkdir()
    (start / "sitecustomize.py").write_text(PYTHON_START)
    # The worker sets PYTHONPATH for its instances.
    (start / "python3").write_text(f'#!/bin/sh\nPYTHONPATH={start} exec {sys.executable} "$@"\n')
    (start / "python3").chmod(0o755)
    given = {
        "workerId": worker_id,
        "workerHostname": "127.0.0.1",
        "workerPort": str(port),
        "configurationMetadataStoreUrl": f"zk:{zk}",
        "configurationStoreServers": zk,
        "pulsarServiceUrl": broker_url,
        "pulsarWebServiceUrl": web_url,
        "functionsWorkerEnablePackageManagement": "true",
        "downloadDirectory": str(folder / "downloads"),
        "connectorsDirectory": str(folder / "connectors"),
        "functionsDirectory": str(folder / "functions"),
        "logDirectory": str(folder / "logs"),
        "failureCheckFreqMs": "1000",
        "rescheduleTimeoutMs": "5000",
        "instanceLivenessCheckFreqMs": "1000",
        **settings,
    }
    text = (DIST / "conf" / "functions_worker.yml").read_text()
    for name, value in given.items():
        text, count = re.subn(rf"(?m)^(\s*){name}:.*$", rf"\g<1>{name}: {value}", text)
        if not count:
            text += f"\n{name}: {value}\n"
    conf = folder / "functions_worker.yml"
    conf.write_text(text)
    with (folder / "out.log").open("wb") as log:
        process = subprocess.Popen(
            [str(DIST / "bin" / "pulsar"), "functions-worker"],
            env={
                **os.environ,
                "PULSAR_WORKER_CONF": str(conf),
                "PULSAR_LOG_DIR": str(folder),
                "PULSAR_MEM": java,
                "PULSAR_GC": collector,
                "PULSAR_GC_LOG": " ",
                "PATH": f"{start}:{os.environ['PATH']}",
            },
            stdout=log,
            stderr=log,
        )
    worker = ApacheFunctionsWorker(worker_id, f"http://127.0.0.1:{port}", process)
    try:
        until = time.monotonic() + READY_S_MAX
        while not _serves(ready or f"{worker.http}/admin/v3/functions/public/default"):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((folder / "out.log").read_text()[-4000:])
            time.sleep(0.2)
        yield worker
    finally:
        worker.stop()


def _serves(url: str) -> bool:
    try:
        # A worker of a test, whose certificate is not what is asked about here.
        unverified = ssl._create_unverified_context()
        with urllib.request.urlopen(url, timeout=5, context=unverified):
            return True
    except urllib.error.HTTPError as error:
        return error.code == 401
    except OSError:
        return False
