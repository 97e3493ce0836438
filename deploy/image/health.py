#!/opt/magnetar/bin/python
"""Exits with 0 when the program of this container does its work, else with 1 and the reason.

The program is that of the process 1, or the first argument. A broker, a bookie and a proxy are asked for ``/ready``, a
gateway for a page, a functions worker for ``/live``. A metadata server must accept a connection. Of a worker only its
process is known. Ports are those of the variables and of the file of settings; options of a command line are not known
here.
"""

import os
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import magnetar  # noqa: F401 - finds the packages
from engine.base.errors import MagnetarError

TIMEOUT_S = 5.0


def program_of(command: bytes) -> str:
    """Return the program in a command line with zero bytes between its words; empty when there is none."""
    words = [word.decode() for word in command.split(b"\0")]
    return next((word for word in words if word in CHECKS), "")


def _asks(host: str, port: int | None, path: str, good: tuple[int, ...] = (200,)) -> str:
    """Return an empty text when a page answers as it should, else the reason."""
    if port is None:
        return "no port is set that it could be asked at"
    local = "127.0.0.1" if host in ("", "*", "0.0.0.0") else "[::1]" if host == "::" else host
    url = f"http://{local}:{port}{path}"
    request = urllib.request.Request(url, headers={"Host": "localhost"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            status, body = answer.status, b""
    except urllib.error.HTTPError as error:
        with error:
            status, body = error.code, error.read(200)
    except OSError as error:
        return f"{url}: {error}"
    return "" if status in good else f"{url}: {status} {body.decode(errors='replace').strip()}"


def _load(program: Any, environ: Mapping[str, str], folder: Path) -> Any:
    return program.load(environ, folder)


def _broker(environ: Mapping[str, str], folder: Path) -> str:
    from engine.settings import PROGRAM

    node = _load(PROGRAM, environ, folder).node
    return _asks(node.bind_address, node.broker_http_port, "/ready")


def _bookie(environ: Mapping[str, str], folder: Path) -> str:
    from bookie.settings import PROGRAM

    settings = _load(PROGRAM, environ, folder).bookie
    return _asks(settings.listening_host, settings.http_server_port, "/ready")


def _proxy(environ: Mapping[str, str], folder: Path) -> str:
    from engine.proxy.settings import PROGRAM

    settings = _load(PROGRAM, environ, folder).proxy
    return _asks(settings.bind_address, settings.web_service_port, "/ready")


def _functions_worker(environ: Mapping[str, str], folder: Path) -> str:
    from engine.functions.worker.settings import PROGRAM

    worker = _load(PROGRAM, environ, folder).worker
    # Ready is one that has read the functions, for which it waits as long as brokers are away.
    return _asks(worker.bind_address, worker.worker_port, "/live")


def _gateway(environ: Mapping[str, str], folder: Path) -> str:
    from gateway.environment import PROGRAM

    port = _load(PROGRAM, environ, folder).environment.http_port
    return _asks("0.0.0.0", port, "/status.html", (200, 404))


def _metadata(environ: Mapping[str, str], folder: Path) -> str:
    from engine.metadata.server.settings import PROGRAM

    settings = _load(PROGRAM, environ, folder).server
    port = settings.tls_port if settings.tls_only else settings.port
    host = "127.0.0.1" if settings.host in ("", "0.0.0.0") else settings.host
    try:
        socket.create_connection((host, port), TIMEOUT_S).close()
    except OSError as error:
        return f"{host}:{port}: {error}"
    return ""


CHECKS: dict[str, Callable[[Mapping[str, str], Path], str]] = {
    "broker": _broker,
    "bookie": _bookie,
    "proxy": _proxy,
    "functions-worker": _functions_worker,
    "gateway": _gateway,
    "metadata": _metadata,
    "worker": lambda environ, folder: "",
}
"""Checks by program. Each returns the reason why the program is not healthy."""


def main(arguments: list[str]) -> int:
    """Check the program and return the exit status."""
    program = arguments[0] if arguments else program_of(Path("/proc/1/cmdline").read_bytes())
    if program not in CHECKS:
        print(f"no program to check: {program or 'process 1 is another one'}")
        return 1
    try:
        reason = CHECKS[program](os.environ, Path.cwd())
    except MagnetarError as error:
        reason = str(error)
    if reason:
        print(reason)
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
