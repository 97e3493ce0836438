"""Serve the gateway: bring the console's database up to date, then Daphne. ``python -m gateway.serve --port 8080``."""

import argparse
import logging
import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from engine.base import log as logs
from engine.base.addresses import is_loopback

log = logging.getLogger("gateway")


def migrate() -> None:
    """Apply migrations that the database lacks; a look at the migration table when it lacks none."""
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", interactive=False, verbosity=0)
    connection.close()


def prepare(host: str) -> None:
    """Make the data folder. Raises ImproperlyConfigured when it cannot be, and for an address that others reach."""
    if not is_loopback(host):
        raise ImproperlyConfigured(
            f"host {host} is not loopback: without authentication only loopback is served"
        )
    data_dir = settings.ENVIRONMENT.data_dir
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(f"cannot write to {data_dir}: {error.strerror}") from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, help="instead of the setting http_port")
    args = parser.parse_args()
    logs.configure()
    try:
        django.setup()
        prepare(args.host)
    except ImproperlyConfigured as error:
        log.critical("cannot start: %s", error)
        sys.exit(os.EX_CONFIG)  # trying again will not help
    migrate()
    port = settings.ENVIRONMENT.http_port if args.port is None else args.port
    # Daphne installs Twisted's asyncio reactor on import, so it comes after the set-up.
    from daphne.endpoints import build_endpoint_description_strings
    from daphne.server import Server
    from twisted.internet import reactor

    from gateway.asgi import application
    from gateway.http import websocket_server
    from gateway.services import engine_link

    engine_link.live_on(reactor._asyncioEventloop)
    websocket_server.install()
    Server(
        application=application,
        endpoints=build_endpoint_description_strings(host=args.host, port=port),
        websocket_handshake_timeout=15,  # longer than an operation on a broker may take
        # ours instead (gateway.http.websocket_server): Daphne's would hold for what we send, too
        websocket_max_message_size=0,
        websocket_max_frame_size=0,
        ping_interval=20,
        ping_timeout=30,
        server_name="magnetar",
        proxy_forwarded_address_header=None,
        request_buffer_size=65536,
        verbosity=1,
    ).run()


if __name__ == "__main__":
    main()
