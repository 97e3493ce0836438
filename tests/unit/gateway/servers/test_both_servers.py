"""Behaviour that Daphne and uvicorn share, on real sockets: each runs a small application in its own process."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.support.ports import free_ports

TIMEOUT_S = 60.0


class Server:
    """A running server. ``kilobytes`` is what it holds of its own (USS)."""

    def __init__(self, name: str, idle_s: int = 60, address_max: int = 1000) -> None:
        (self.port,) = free_ports(1)
        command = [sys.executable, "-m", "tests.support.net.echo_server", name]
        command += [str(self.port), str(idle_s), str(address_max)]
        # in debug mode a loop that is late says so
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

    def kilobytes(self) -> int:
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))

    def socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)

    def opened(self, path: str = "/") -> ClientConnection:
        made: ClientConnection = connect(f"ws://127.0.0.1:{self.port}{path}", max_size=None)
        return made

    def stop(self) -> tuple[int, str]:
        """Stop it and return the exit code and its standard error."""
        self.process.send_signal(signal.SIGTERM)
        _, output = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, output.decode()


@pytest.fixture(scope="module", params=["daphne", "uvicorn"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    made = Server(request.param)
    yield made
    assert made.stop() == (0, "")


def replied(sock: socket.socket) -> bytes:
    """Return the bytes that the server sends until it closes the connection."""
    received = b""
    try:
        while data := sock.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received


def test_a_connection_is_kept_for_the_next_request(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    for size in (0, 100_000, 3):
        connection.request("POST", "/", b"x" * size)
        used = connection.sock
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (200, str(size).encode())
        assert reply.headers["Server"] == "magnetar"
        assert connection.sock is used
    connection.close()


def test_an_answer_does_not_wait_for_the_peers_acknowledgement(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    took = []
    for _ in range(60):
        began = time.monotonic()
        connection.request("GET", "/")
        connection.getresponse().read()
        took.append(time.monotonic() - began)
    connection.close()
    assert min(took[30:]) < 0.03  # Linux acknowledges at once for a while, then after 40 ms


def test_a_refused_handshake_is_a_page(server: Server) -> None:
    with pytest.raises(InvalidStatus) as caught, server.opened("/no"):
        pass
    response = caught.value.response
    assert response.status_code == 404
    assert response.headers["Content-Type"] == "text/html;charset=utf-8"
    assert response.headers["Server"] == "magnetar"
    assert b"<title>Error 404 not &lt;here&gt;</title>" in bytes(response.body)


def test_a_malformed_handshake_is_refused(server: Server) -> None:
    with server.socket() as sock:
        head = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        sock.sendall(head)
        assert replied(sock).startswith(b"HTTP/1.1 400 ")


def test_bytes_that_are_not_http_are_refused(server: Server) -> None:
    with server.socket() as sock:
        sock.sendall(b"\x16\x03\x01 nothing\r\n\r\n")
        assert replied(sock)[:12] in (b"HTTP/1.1 400", b"")


@pytest.mark.parametrize("line", [b"A: " + b"x" * 20_000, b"A: b\r\n" * 5_000])
def test_a_head_is_bounded(server: Server, line: bytes) -> None:
    with server.socket() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n" + line)
        received = b""
        for _ in range(1000):  # a client that never comes to the end
            try:
                sock.sendall(b"x" * 1000)
            except OSError:
                break
            time.sleep(0.001)  # time: leaves the server a turn between the pieces
        else:
            pytest.fail("the server took a megabyte of headers")
        assert received[:12] in (b"HTTP/1.1 400", b"")


def test_a_folded_header_is_refused(server: Server) -> None:
    for fold in (b" ", b"\t"):
        with server.socket() as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n" + fold + b"z\r\n\r\n")
            assert replied(sock).startswith(b"HTTP/1.1 400 ")


CHUNKED = b"Transfer-Encoding: chunked"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(b"Content-Length: 6\r\n" + CHUNKED, id="length and chunks"),
        pytest.param(CHUNKED + b"\r\nContent-Length: 6", id="chunks and length"),
        pytest.param(b"Content-Length: 5\r\nContent-Length: 6", id="two lengths"),
        pytest.param(b"Content-Length: 5, 6", id="list of lengths"),
        pytest.param(b"Content-Length: +5", id="signed length"),
        pytest.param(b"Content-Length: 0_5", id="length in Python's form"),
        pytest.param(b"Transfer-Encoding: xchunked", id="unknown coding"),
        pytest.param(CHUNKED + b", identity", id="list of codings"),
        pytest.param(CHUNKED + b"\r\nTransfer-Encoding: identity", id="two codings"),
        pytest.param(b"Transfer-Encoding: identity\r\nContent-Length: 5", id="identity"),
        pytest.param(b"Transfer-Encoding : chunked\r\nContent-Length: 5", id="blank in a name"),
        pytest.param(b"X: y\nContent-Length: 5", id="bare LF"),
        pytest.param(b"X: y\rContent-Length: 5", id="bare CR"),
        pytest.param(b"X: y\0z", id="zero byte"),
        pytest.param(b"X", id="no colon"),
        pytest.param(CHUNKED + b"\r\n\r\n0x5\r\nabcde\r\n0", id="chunk in Python's form"),
        pytest.param(CHUNKED + b"\r\n\r\n-5\r\nabcde\r\n0", id="signed chunk"),
        pytest.param(CHUNKED + b"\r\n\r\n5\r\nabcdefg\r\n0", id="chunk that is too long"),
        pytest.param(CHUNKED + b"\r\n\r\n5\nabcde\n0\n\n", id="chunks by bare LF"),
        pytest.param(CHUNKED + b"\r\n\r\n5;a\nx\r\nabcde\r\n0", id="extension with LF"),
    ],
)
def test_a_request_whose_end_is_ambiguous_is_refused(server: Server, lines: bytes) -> None:
    smuggled = b"\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    with server.socket() as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\n" + lines + smuggled)
        received = replied(sock)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1 ") == 1


def test_lines_of_a_head_end_with_both_characters(server: Server) -> None:
    with server.socket() as sock:
        sock.sendall(b"GET / HTTP/1.1\nHost: a\n\n\r\n\r\n")
        assert replied(sock).startswith(b"HTTP/1.1 400 ")


BODY_MAX = 1 << 20


def files_of(server: Server) -> set[str]:
    """Return the temporary files that a server has open, including those without a name."""
    opened = set()
    for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            opened.add(str(link.readlink()))
    return {path for path in opened if path.startswith(tempfile.gettempdir())}


def poured(sock: socket.socket, piece: bytes, most: int) -> int:
    """Send pieces until the server accepts no more; return the bytes sent."""
    sent = 0
    try:
        while sent < most:
            sock.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    return sent


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"Content-Length: 99999999999", b"x" * 65536),
        (b"Content-Length: 1048577\r\nExpect: 100-continue", b""),
        (b"Transfer-Encoding: chunked", b"10000\r\n" + b"x" * 65536 + b"\r\n"),
    ],
)
def test_a_body_above_the_limit_is_refused_and_not_kept(
    server: Server, head: bytes, piece: bytes
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    connection.request("PUT", "/", b"x" * BODY_MAX)  # whatever grows once
    connection.getresponse().read()
    connection.close()
    before, files = server.kilobytes(), files_of(server)
    with server.socket() as sock:
        sock.sendall(b"PUT / HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n")
        poured(sock, piece or b"x", len(piece) * 17)
        assert sock.recv(64).startswith(b"HTTP/1.1 413 ")
        assert not piece or poured(sock, piece, 300_000_000) < 300_000_000
        assert files_of(server) == files
    assert server.kilobytes() - before < 12_000


@pytest.mark.parametrize("chunked", [False, True])
def test_a_client_that_sends_a_refused_body_to_its_end_reads_why(
    server: Server, chunked: bool
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    body = iter([b"x" * 65536] * 320) if chunked else b"x" * (20 << 20)
    connection.request("PUT", "/", body)
    reply = connection.getresponse()
    assert reply.status == 413
    reply.read()


def test_a_body_at_the_limit_is_taken_whole_and_stays_in_memory(server: Server) -> None:
    files = files_of(server)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    for body in (b"x" * BODY_MAX, iter([b"x" * 65536] * 16)):
        connection.request("PUT", "/", body)
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (200, str(BODY_MAX).encode())
    with server.socket() as sock:
        sock.sendall(
            b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n" + b"x" * 999_999
        )
        connection.request("GET", "/")  # the server has read what came before it
        connection.getresponse().read()
        assert files_of(server) == files
    connection.close()


@pytest.mark.parametrize("name", ["daphne", "uvicorn"])
def test_an_address_has_only_so_many_connections(name: str) -> None:
    """Count WebSockets as well; one that ends makes room."""
    server = Server(name, address_max=2)

    def is_accepted() -> bool:
        with server.socket() as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return replied(sock).startswith(b"HTTP/1.1 200 ")

    eventually(is_accepted)  # the one that looked whether the server is there has ended
    with server.socket() as other:
        other.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert other.recv(64).startswith(b"HTTP/1.1 200 ")
        eventually(is_accepted)
        with server.opened() as upgraded:
            upgraded.send("a")
            assert upgraded.recv(TIMEOUT_S) == "a"
            with server.socket() as sock:
                sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                page = replied(sock)
            assert page.startswith(b"HTTP/1.1 429 ")
            assert b"max_connections_per_address" in page
            with pytest.raises(InvalidStatus) as caught, server.opened():
                pass
            assert caught.value.response.status_code == 429
        eventually(is_accepted)
    assert server.stop() == (0, "")


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < until


def test_texts_are_echoed_in_order(server: Server) -> None:
    with server.opened() as sock:
        texts = [str(number) * (1 + number * 37) for number in range(200)]
        for text in texts:
            sock.send(text)
        assert [sock.recv(TIMEOUT_S) for _ in texts] == texts


def test_a_message_above_a_mebibyte_closes_with_1009_in_pulsars_words(server: Server) -> None:
    with server.opened() as sock:
        sock.send("x" * (1 << 20))
        assert len(sock.recv(TIMEOUT_S)) == 1 << 20
        with pytest.raises(ConnectionClosed) as caught:
            sock.send("x" * ((1 << 20) + 1))
            sock.recv(TIMEOUT_S)
    assert caught.value.rcvd is not None
    reason = "Resulting message size [1048577] is too large for configured max of [1048576]"
    assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1009, reason)


def test_a_clients_close_is_answered_at_once(server: Server) -> None:
    with server.opened() as sock:
        began = time.monotonic()
        sock.close(4001)
        assert time.monotonic() - began < 2
        assert sock.close_code == 4001


def test_a_client_that_does_not_read_is_not_read(server: Server) -> None:
    """Send until the server's bounds are full, far below the total, and check that everything arrives at the end."""
    with server.socket() as sock:
        before = server.kilobytes()
        key = b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        sock.sendall(
            b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + key
        )
        assert sock.recv(4096).startswith(b"HTTP/1.1 101")
        frame = b"\x81\xfe\xea\x60\0\0\0\0" + b"x" * 60_000
        sock.setblocking(False)
        sent = 0
        quiet_since = time.monotonic()
        rest = b""
        while time.monotonic() - quiet_since < 1 and sent < 60_000_000:
            try:
                rest = rest or frame
                count = sock.send(rest)
                sent, rest, quiet_since = sent + count, rest[count:], time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
        assert sent < 60_000_000
        assert server.kilobytes() - before < 12_000
        sock.setblocking(True)
        sock.settimeout(TIMEOUT_S)
        whole, got = sent // len(frame), 0
        while got < whole * 60_004:
            got += len(sock.recv(1 << 20))


def test_idle_sockets_cost_little(server: Server) -> None:
    count = 400
    request = (
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )

    def open_many() -> list[socket.socket]:
        made = [server.socket() for _ in range(count)]
        for sock in made:
            sock.sendall(request)
            assert sock.recv(4096).startswith(b"HTTP/1.1 101")
        return made

    for sock in open_many():  # whatever grows once
        sock.close()
    before = server.kilobytes()
    socks = open_many()
    assert (server.kilobytes() - before) / count <= 20
    for sock in socks:
        sock.close()


@pytest.mark.parametrize("name", ["daphne", "uvicorn"])
def test_a_client_without_a_complete_request_in_time_is_disconnected(name: str) -> None:
    server = Server(name, idle_s=1)
    head = b"GET / HTTP/1.1\r\nHost: a\r\n"
    silent, stalled, kept, drips = (server.socket() for _ in range(4))
    with silent, stalled, kept, drips, server.opened() as upgraded:
        stalled.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
        moves = server.socket()
        moves.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n")
        kept.sendall(head + b"\r\n")
        assert kept.recv(4096).startswith(b"HTTP/1.1 200")
        drips.sendall(head)
        began = time.monotonic()
        with pytest.raises(OSError, match=r"reset|pipe"):
            while time.monotonic() - began < TIMEOUT_S:
                drips.sendall(b"X: y\r\n")
                with contextlib.suppress(OSError):
                    moves.sendall(b"x")
                time.sleep(0.1)
        assert replied(moves).startswith(b"HTTP/1.1 408 ")
        moves.close()
        for sock in (silent, stalled, kept):
            replied(sock)
        assert time.monotonic() - began < TIMEOUT_S
        upgraded.send("still here")
        assert upgraded.recv(TIMEOUT_S) == "still here"
    assert server.stop() == (0, "")


@pytest.mark.parametrize("name", ["daphne", "uvicorn"])
def test_a_server_that_stops_closes_its_sockets_and_exits_with_zero(name: str) -> None:
    server = Server(name)
    with server.opened() as sock:
        stopped = server.stop()
        with pytest.raises(ConnectionClosed) as caught:
            sock.recv(TIMEOUT_S)
    assert stopped == (0, "")
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1012


UPLOAD = "/admin/v3/functions/public/default/f"
FORM = {"Content-Type": "multipart/form-data; boundary=b"}


def upload_head(framing: str, *more: str) -> bytes:
    lines = [f"PUT {UPLOAD} HTTP/1.1", "Host: x", "Content-Type: multipart/form-data; boundary=b"]
    return "\r\n".join([*lines, framing, *more, "", ""]).encode()


@pytest.mark.parametrize("framing", ["Content-Length: 104857600", "Transfer-Encoding: chunked"])
def test_an_upload_of_a_wrong_caller_is_refused_by_its_head_and_not_kept(
    server: Server, framing: str
) -> None:
    before, files = server.kilobytes(), files_of(server)
    head = upload_head(framing, "Authorization: Bearer wrong")
    with server.socket() as sock:
        sock.sendall(head)
        assert sock.recv(4096).startswith(b"HTTP/1.1 401 ")
    with server.socket() as sock:
        sock.sendall(head)
        piece = b"x" * (1 << 20)
        chunked = b"%x\r\n%b\r\n" % (len(piece), piece)
        poured(sock, piece if framing.startswith("Content") else chunked, 8 << 20)
        assert server.kilobytes() - before < 12_000
        assert files_of(server) == files


def test_daphne_ends_the_connection_of_a_refused_upload(server: Server) -> None:
    if b"daphne" not in Path(f"/proc/{server.process.pid}/cmdline").read_bytes():
        pytest.skip("uvicorn receives the rest and drops it")
    with server.socket() as sock:
        sock.sendall(upload_head("Content-Length: 1073741824"))
        sock.settimeout(TIMEOUT_S)
        page = sock.recv(4096)
        assert page.startswith(b"HTTP/1.1 401 ")
        assert b"\r\nconnection: close\r\n" in page.lower()
        assert poured(sock, b"x" * (1 << 20), 1 << 30) < 1 << 30


def test_an_upload_is_received_whole_and_not_faster_than_it_is_taken(server: Server) -> None:
    before, files = server.kilobytes(), files_of(server)
    size = 16 << 20
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    right = {**FORM, "Authorization": "Bearer right"}
    for path, body in (
        (UPLOAD, b"x" * size),
        (UPLOAD, iter([b"x" * 65536] * (size >> 16))),
        (f"{UPLOAD}/slow", b"x" * size),
        (UPLOAD, b""),
    ):
        connection.request("POST", path, body, right)
        assert server.kilobytes() - before < 12_000
        assert files_of(server) == files
        used = connection.sock
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (200, b"%d" % (size if body != b"" else 0))
        assert connection.sock is used
    connection.close()


def test_a_client_is_asked_for_an_upload_only_when_its_caller_is_right(server: Server) -> None:
    expecting = ("Content-Length: 5", "Expect: 100-continue")
    with server.socket() as sock:
        sock.sendall(upload_head(*expecting, "Authorization: Bearer wrong"))
        assert sock.recv(4096).startswith(b"HTTP/1.1 401 ")
    with server.socket() as sock:
        sock.sendall(upload_head(*expecting, "Authorization: Bearer right"))
        assert sock.recv(4096).startswith(b"HTTP/1.1 100 ")
        sock.sendall(b"abcde")
        assert sock.recv(4096).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("name", ["daphne", "uvicorn"])
def test_an_upload_that_stands_still_is_cut_off(name: str) -> None:
    server = Server(name, idle_s=1)
    with server.socket() as sock:
        sock.sendall(upload_head("Content-Length: 9", "Authorization: Bearer right") + b"abc")
        sock.settimeout(TIMEOUT_S)
        assert replied(sock) == b""
    assert server.stop() == (0, "")
