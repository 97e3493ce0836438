"""A proxy in front of a server of the S3 protocol, which refuses, delays, cuts and changes answers on request."""

import http.client
import threading
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

FORBIDDEN = (403, "AccessDenied")
FULL = (507, "QuotaExceeded")
BUSY = (503, "SlowDown")
NO_BUCKET = (404, "NoSuchBucket")
METHODS = ("GET", "PUT", "POST", "DELETE", "HEAD")


class S3Proxy:
    """``refusal``: status and code of all answers, None for those of the server. ``silent``: no request is answered.
    ``kept``: bytes that answers to reads of data are cut to. ``changed``: set to change a byte of each. ``faults``: how
    many answers are still cut or changed; -1 for all. ``requests``: method and path of each, with its query.
    ``before``: called with both before a request is forwarded, in a thread of its own."""

    def __init__(self, server: str) -> None:
        self.refusal: tuple[int, str] | None = None
        self.silent = False
        self.kept: int | None = None
        self.changed = False
        self.faults = -1
        self.requests: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda _method, _path: None
        self._address = urlsplit(server).netloc
        self._over = threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                proxy._forward(self)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        for method in METHODS:
            setattr(Handler, f"do_{method}", Handler.forward)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _forward(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        self.requests.append((request.command, request.path))
        self.before(request.command, request.path)
        if self.silent:
            self._over.wait(30)
            request.close_connection = True
            return
        if self.refusal is not None:
            status, code = self.refusal
            text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"
            self._answer(request, status, {"content-type": "application/xml"}, text.encode())
            return
        connection = http.client.HTTPConnection(self._address)
        try:
            connection.request(request.command, request.path, body, dict(request.headers))
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        if request.command == "GET" and "range" in request.headers and self.faults:
            data = self._damaged(data)
            if data and "content-range" in headers and self.kept is not None:
                start = int(headers["content-range"].split()[1].partition("-")[0])
                total = headers["content-range"].rpartition("/")[2]
                headers["content-range"] = f"bytes {start}-{start + len(data) - 1}/{total}"
        self._answer(request, answer.status, headers, data)

    def _damaged(self, data: bytes) -> bytes:
        if self.kept is None and not self.changed:
            return data
        self.faults -= 1
        if self.changed:
            data = data[:-1] + bytes([data[-1] ^ 1])
        return data if self.kept is None else data[: self.kept]

    def _answer(
        self, request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], data: bytes
    ) -> None:
        request.send_response(status)
        for name, value in headers.items():
            if name not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                request.send_header(name, value)
        length = headers.get("content-length") if request.command == "HEAD" else None
        request.send_header("content-length", length or str(len(data)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(data)


def unfinished_uploads(endpoint: str, bucket: str = "cold") -> int:
    """Return the number of uploads by parts in a bucket that were neither completed nor aborted."""
    with urllib.request.urlopen(f"{endpoint}/{bucket}?uploads") as answer:
        return int(answer.read().count(b"<Upload>"))
