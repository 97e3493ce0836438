"""Receivers of notifications on this machine: a webhook and a mail server that accept everything."""

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "CANARY-7"
"""Part of the webhook's URL."""


class Webhook(ThreadingHTTPServer):
    """Records documents; ``status``: its answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), WebhookRequest)
        self.status = 200
        self.received: list[Any] = []
        self.refused: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{SECRET}"


class WebhookRequest(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        accepted = self.server.status == 200
        (self.server.received if accepted else self.server.refused).append(document)
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Log nothing."""


class MailSink(socketserver.ThreadingTCPServer):
    """A mail server that accepts everything."""

    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), MailSession)
        self.mails: list[str] = []


class MailSession(socketserver.StreamRequestHandler):
    server: MailSink

    def handle(self) -> None:
        self.wfile.write(b"220 sink\r\n")
        while line := self.rfile.readline():
            verb = line[:4].upper()
            if verb == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = []
                while (text := self.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(text.decode())
                self.server.mails.append("".join(lines))
            self.wfile.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n")
            if verb == b"QUIT":
                return


def serving(server: Any) -> Iterator[Any]:
    """Serve until the generator continues."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
