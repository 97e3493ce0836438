"""Serve the gateway: bring the console's database up to date, then Daphne. ``python -m gateway.serve --port 8080``."""

import argparse
import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

import django


def migrate() -> None:
    """Apply migrations that the database lacks; a look at the migration table when it lacks none."""
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", interactive=False, verbosity=0)
    connection.close()


def say_why_refused() -> None:
    """Refuse WebSocket handshakes with the application's HTTP status and text.

    ASGI lets an application only close an unaccepted socket, which Daphne makes 403 whatever the cause. Pulsar answers
    400, 404, 409 and so on, so a close code of 4400..4599 becomes the HTTP status 400..599.
    """
    from autobahn.websocket.types import ConnectionDeny
    from daphne.ws_protocol import WebSocketProtocol

    handle = WebSocketProtocol.handle_reply

    def handle_reply(self: WebSocketProtocol, message: dict[str, object]) -> None:
        code = message.get("code")
        refused = message.get("type") == "websocket.close" and self.state == self.STATE_CONNECTING
        if not refused or not isinstance(code, int) or not 4400 <= code <= 4599:
            handle(self, message)
            return
        # header lines hold no line breaks, and ASCII only
        reason = " ".join(str(message.get("reason", "")).split())[:500]
        text = reason.encode("ascii", "replace").decode() or "Refused"
        denial: Any = ConnectionDeny
        self.handshake_deferred.errback(denial(code=code - 4000, reason=text))
        del self.handshake_deferred
        self.server.protocol_disconnected(self)

    WebSocketProtocol.handle_reply = handle_reply


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    args = parser.parse_args()
    django.setup()
    migrate()
    # Daphne installs Twisted's asyncio reactor on import, so it comes after the set-up.
    from daphne.endpoints import build_endpoint_description_strings
    from daphne.server import Server

    from gateway.asgi import application

    say_why_refused()
    Server(
        application=application,
        endpoints=build_endpoint_description_strings(host=args.host, port=args.port),
        websocket_handshake_timeout=5,
        ping_interval=20,
        ping_timeout=30,
        server_name="magnetar",
        proxy_forwarded_address_header=None,
        request_buffer_size=65536,
        verbosity=1,
    ).run()


if __name__ == "__main__":
    main()
