"""An HTTP server with the REST answers of a real Apache Pulsar 4.0.8 (tests/golden/apache), which records requests."""

import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from engine.tenancy.policies.policy import Level
from engine.tenancy.policies.table import POLICIES

GOLDEN = Path(__file__).parents[2] / "golden" / "apache"
TOKEN = "token-of-the-console"
BROKER = "127.0.0.1:17051"
"""The broker that was recorded."""
UNSET = {
    "backlogQuotaMap",
    *(route.path for policy in POLICIES if (route := policy.route_at(Level.TOPIC)) is not None),
}
"""Last segments of paths of topics' policies, which answer nothing where a topic does not set them."""


class Request(NamedTuple):
    """A request that changes something."""

    method: str
    path: str
    query: str
    body: Any


class RecordedApache(ThreadingHTTPServer):
    """``answers``: bodies by path, which tests change. ``refusals``: status and reason by path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        messages = json.loads((GOLDEN / "messages.json").read_text())
        self.answers: dict[str, Any] = json.loads((GOLDEN / "answers.json").read_text())["answers"]
        self.answers |= messages["answers"]
        self.entries: dict[str, Any] = messages["entries"]
        """Status, header fields and base64 body by the path of an entry."""
        self.refusals: dict[str, tuple[int, str]] = {}
        self.redirects: dict[str, str] = {}
        self.changed: dict[str, Any] = {}
        """Bodies that answer a change, by path."""
        self.reads: list[str] = []
        self.changes: list[Request] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: RecordedApache
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = self.server
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._send(401, {"reason": "Authentication required"})
        if path in server.redirects:
            self.send_response(307)
            self.send_header("Location", server.redirects[path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        if path in server.refusals:
            status, reason = server.refusals[path]
            return self._send(status, {"reason": reason})
        if self.command != "GET":
            given = json.loads(body) if body else None
            server.changes.append(Request(self.command, path, query, given))
            if path in server.changed:
                return self._send(200, server.changed[path])
            return self._send(204, None)
        server.reads.append(path)
        if path in server.entries:
            return self._send_entry(**server.entries[path])
        if path not in server.answers and path.rpartition("/")[2] in UNSET:
            return self._send(204, None)
        if path not in server.answers:
            return self._send(404, {"reason": "Not found"})
        return self._send(200, server.answers[path])

    do_GET = do_PUT = do_POST = do_DELETE = _answer

    def _send(self, status: int, body: Any) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_entry(self, status: int, headers: dict[str, str], body: str) -> None:
        data = b64decode(body)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def recorded_apache() -> Iterator[RecordedApache]:
    """Serve the recorded answers."""
    with RecordedApache() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
