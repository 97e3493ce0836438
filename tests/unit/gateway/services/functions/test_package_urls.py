"""Code at URLs: permitted by a pattern, at public addresses, the one connected to being the one judged."""

import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from engine.base.errors import InvalidRequest
from gateway.services.functions.package_urls import (
    NOT_VALID,
    check_url,
    fetch,
    file_name_of,
    resolve,
)
from gateway.services.outside.pinned_http import Destination

ANY = [re.compile(".*")]
PUBLIC, PRIVATE = "93.184.216.34", "10.0.0.1"


@pytest.mark.parametrize(
    "url",
    [
        *(
            "file:///etc/passwd",
            "ftp://x/y",
            "http://",
            "http:///x",
            "https://user@x/y",
            "https://x/ y",
        ),
        *("https://x:99999/y", "https://x/\n", "https://ü/x", "https://x/" + "y" * 2_000, "x", ""),
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(NOT_VALID)):
        check_url(url, ANY)


def test_a_url_is_permitted_by_a_pattern_of_all_of_it() -> None:
    patterns = [re.compile(r"https://example\.org/[a-z]+\.py")]
    assert check_url("https://example.org/a.py", patterns) == Destination(
        "https", "example.org", 443, "/a.py"
    )
    for other in ("https://example.org/a.py?x", "https://example.org.evil.net/a.py"):
        with pytest.raises(InvalidRequest):
            check_url(other, patterns)
    with pytest.raises(InvalidRequest):
        check_url("https://example.org/a.py", [])


def answers(*addresses: str) -> Any:
    def look_up(host: str, port: int, **options: Any) -> list[tuple[Any, ...]]:
        return [(0, 0, 0, "", (address, port)) for address in addresses]

    return look_up


DESTINATION = Destination("http", "example.org", 80, "/")


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "224.0.0.1"),
        *("::1", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::"),
        "100.64.0.1",
    ],
)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    with pytest.raises(InvalidRequest, match="not public"):
        resolve(DESTINATION, answers(address))
    with pytest.raises(InvalidRequest, match="not public"):
        resolve(DESTINATION, answers(PUBLIC, address))


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "localhost"])
def test_other_forms_of_loopback_are_refused_after_they_are_resolved(host: str) -> None:
    with pytest.raises(InvalidRequest):
        resolve(Destination("http", host, 80, "/"))


def test_a_name_without_an_address_is_named() -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise socket.gaierror

    with pytest.raises(InvalidRequest, match=r"example\.org cannot be resolved"):
        resolve(DESTINATION, fail)
    with pytest.raises(InvalidRequest):
        resolve(DESTINATION, answers())


class Handler(BaseHTTPRequestHandler):
    hosts: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        Handler.hosts.append(self.headers["Host"])
        if self.path == "/away.py":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1/ex.py")
            self.end_headers()
            return
        body = b"" if self.path == "/empty.py" else b"code"
        self.send_response(404 if self.path == "/no.py" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return None


@pytest.fixture
def port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def fetched(url: str, bytes_max: int = 100) -> bytes:
    return bytes(memoryview(fetch(url, ANY, bytes_max, lambda destination: "127.0.0.1")))


def test_the_address_that_was_judged_is_connected_to(port: int) -> None:
    Handler.hosts.clear()
    assert fetched(f"http://example.invalid:{port}/ex.py") == b"code"
    assert Handler.hosts == [f"example.invalid:{port}"]
    assert fetched(f"http://example.invalid:{port}/empty.py") == b""


@pytest.mark.parametrize(
    ("path", "bytes_max", "reason"),
    [
        ("away.py", 100, "it answers HTTP 302"),
        ("no.py", 100, "it answers HTTP 404"),
        ("ex.py", 3, r"more than 3 bytes \(package_bytes_max\)"),
    ],
)
def test_other_answers_are_refused(port: int, path: str, bytes_max: int, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        fetched(f"http://example.invalid:{port}/{path}", bytes_max)


def test_a_server_that_does_not_answer_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(InvalidRequest, match=r"example\.invalid gave no package"):
            fetched(f"http://example.invalid:{free.getsockname()[1]}/ex.py")


def test_the_file_of_a_url_has_its_last_name() -> None:
    assert file_name_of("https://x/a/b%20c.py?d#e") == "b c.py"
    assert file_name_of("https://x") == ""
