"""Bring the console's database up to date, then serve the gateway by Daphne or uvicorn: ``python -m gateway.serve``."""

import argparse
import asyncio
import logging
import os
import socket
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from engine.base import log as logs
from engine.base.addresses import is_loopback

log = logging.getLogger("gateway")

NAME = "magnetar"
BACKLOG = 1024


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
    try:
        listener = listen(args.host, port)
    except OSError as error:
        log.critical("cannot start: port %d of %s: %s", port, args.host, error.strerror)
        sys.exit(1)
    serve(listener)


def listen(host: str, port: int) -> socket.socket:
    """A socket to which clients connect from now on. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def serve(listener: socket.socket) -> None:
    """Serve by the server that is set, until SIGINT or SIGTERM. Only one of the two is imported."""
    from gateway.services import engine_link

    if settings.ENVIRONMENT.asgi_server == "uvicorn":
        from gateway.servers import on_uvicorn

        loop = asyncio.new_event_loop()
        engine_link.live_on(loop)
        from gateway.asgi import application

        on_uvicorn.serve(application, listener, NAME, loop)
    else:
        from gateway.servers import on_daphne  # installs Twisted's reactor

        engine_link.live_on(on_daphne.loop())
        from gateway.asgi import application

        on_daphne.serve(application, listener, NAME)


if __name__ == "__main__":
    main()
