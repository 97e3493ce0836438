"""HTTPS and WebSockets in TLS, served by uvicorn, on real sockets."""

import http.client
import os
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.support.net.certificates import Authority, Files
from tests.support.ports import free_ports
from tests.support.waiting import until_blocking

TIMEOUT_S = 60.0


class HttpsServer:
    """The server of a small application; ``files`` are its certificate, which may be replaced."""

    def __init__(self, folder: Path, address_max: int = 1000) -> None:
        self.authority = Authority(folder)
        self.files = self.authority.issue("first", "127.0.0.1")
        plain, self.port = free_ports(2)
        command = [sys.executable, "-m", "tests.support.net.echo_server", "uvicorn", str(plain)]
        command += ["60", str(address_max), str(self.port), *self.files, self.authority.cert]
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONASYNCIODEBUG"}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environ)
        until = time.monotonic() + TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.02)

    def context(self, shown: Files | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority.cert)
        if shown is not None:
            context.load_cert_chain(*shown)
        return context

    def client(self, shown: Files | None = None) -> http.client.HTTPSConnection:
        context = self.context(shown)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=TIMEOUT_S, context=context
        )

    def stop(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        _, output = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, output.decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsServer]:
    made = HttpsServer(tmp_path_factory.mktemp("https"))
    yield made
    assert made.stop() == (0, "")


def caller(connection: http.client.HTTPSConnection, body: bytes = b"") -> str:
    connection.request("POST", "/", body)
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, str(len(body)).encode())
    return answer.headers["X-Caller"]


def subject(connection: http.client.HTTPSConnection) -> str:
    assert isinstance(connection.sock, ssl.SSLSocket)
    certificate = connection.sock.getpeercert()
    assert certificate is not None
    return str(certificate["subject"])


def test_requests_in_tls_are_answered_on_one_connection(server: HttpsServer) -> None:
    connection = server.client()
    assert caller(connection, b"x" * 100_000) == "https None"
    used = connection.sock
    assert caller(connection) == "https None"
    assert connection.sock is used
    connection.close()


def test_the_certificate_of_a_client_is_passed_on(server: HttpsServer) -> None:
    connection = server.client(server.authority.issue("app"))
    assert caller(connection) == "https ((('commonName', 'app'),),)"
    connection.close()


def test_a_certificate_of_another_authority_is_refused(server: HttpsServer, tmp_path: Path) -> None:
    connection = server.client(Authority(tmp_path, "stranger").issue("app"))
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        caller(connection)
    connection.close()


def test_a_websocket_in_tls_is_echoed_and_refused_as_in_clear(server: HttpsServer) -> None:
    url = f"wss://127.0.0.1:{server.port}/"
    with connect(url, ssl=server.context(), max_size=None) as opened:
        for text in ("a", "b" * 1_000_000):
            opened.send(text)
            assert opened.recv(TIMEOUT_S) == text
    with pytest.raises(Exception, match="404"), connect(f"{url}no", ssl=server.context()):
        pass


def test_bytes_in_clear_end_the_connection(server: HttpsServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), TIMEOUT_S) as clear:
        clear.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"HTTP" not in clear.recv(100)


def test_a_replaced_certificate_serves_new_connections_and_ends_none(server: HttpsServer) -> None:
    open_before = server.client()
    caller(open_before)
    used = open_before.sock
    with connect(f"wss://127.0.0.1:{server.port}/", ssl=server.context()) as opened:
        second = server.authority.issue("second", "127.0.0.1")
        for old, new in zip(server.files, second, strict=True):
            shutil.copy(new, f"{old}.new")
            os.replace(f"{old}.new", old)
        later = server.client()
        caller(later)
        assert "second" in subject(later)
        later.close()
        opened.send("still there")
        assert opened.recv(TIMEOUT_S) == "still there"
    caller(open_before)
    assert open_before.sock is used
    assert "first" in subject(open_before)
    open_before.close()


def test_a_connection_above_the_limit_of_its_address_is_refused(tmp_path: Path) -> None:
    limited = HttpsServer(tmp_path, address_max=1)
    first, second = limited.client(), limited.client()
    caller(first)
    second.request("GET", "/")
    assert second.getresponse().status == 429
    for connection in (first, second):
        connection.close()
    assert limited.stop() == (0, "")


def test_peers_in_the_handshake_count_for_their_address(tmp_path: Path) -> None:
    limited = HttpsServer(tmp_path, address_max=1)
    silent = [socket.create_connection(("127.0.0.1", limited.port), TIMEOUT_S) for _ in range(10)]
    # One above the limit may begin a handshake, to be sent the reason; others are closed at once.
    until_blocking(lambda: len(select.select(silent, [], [], 0)[0]) >= 8)
    for connection in silent:
        connection.close()
    until_blocking(lambda: answers(limited))
    assert limited.stop() == (0, "")


def answers(server: HttpsServer) -> bool:
    connection = server.client()
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
