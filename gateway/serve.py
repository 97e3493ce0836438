"""The gateway's process, ``python -m gateway.serve``: migrates the console's database, then serves the gateway."""

import asyncio
import fcntl
import logging
import os
import socket
import ssl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError
from django.urls import get_resolver

from engine.base import log as logs
from engine.base.addresses import ReachSettings
from engine.base.errors import MagnetarError
from engine.base.loop import EventLoop, shorten_collections
from engine.base.settings import ProgramParser, SettingsError
from engine.base.tasks import TaskScope
from engine.net.network import raise_socket_limit
from engine.net.tls import TlsFileError
from gateway.database.refusals import reason_of
from gateway.servers.first_answer import report_ready

log = logging.getLogger("gateway")

NAME = "magnetar"
BACKLOG = 1024
MIGRATION_LOCK = 0x6D61676E65746172
"""Number of the lock in PostgreSQL."""


def migrate() -> None:
    """Apply migrations that the database lacks; only the table of migrations is read when it lacks none.

    Processes that start together migrate one after the other, and those after the first have nothing to do.
    """
    with (settings.ENVIRONMENT.data_dir / "migrations.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # The kernel releases it when the process ends in any way.
        _apply_migrations()


def _apply_migrations() -> None:
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    with _migrating(connection):
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            call_command("migrate", interactive=False, verbosity=0)
    connection.close()


@contextmanager
def _migrating(connection: Any) -> Iterator[None]:
    """Hold the lock of PostgreSQL for gateways that migrate, which may be on several machines."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        # Another gateway may migrate for longer than a statement may take else, and so may this one.
        connection.connection.limit(bounded=False)
        # It ends with the session, in any way that the process ends.
        cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])
            connection.connection.limit(bounded=True)


def announce_set_up() -> None:
    """Write the code by which the first person is created, if one is needed; print it where a terminal shows it."""
    from django.db import connection

    from gateway.people import set_up

    code = set_up.announce(settings.ENVIRONMENT.data_dir)
    if code and sys.stderr.isatty():
        print(f"the code is {code}", file=sys.stderr)
    connection.close()


def prepare(host: str) -> None:
    """Create the data folder and those of the clusters. Raises ImproperlyConfigured when that fails, and for a host
    that the settings do not permit to be listened on."""
    reach = settings.REACH
    authenticated = settings.IDENTITY.general.authentication_enabled
    try:
        reach.check("host", host, authenticated=authenticated)
    except SettingsError as error:
        raise ImproperlyConfigured(str(error)) from error
    if warning := reach.warning("host", host, authenticated=authenticated):
        log.warning("%s", warning)
    for folder in (settings.ENVIRONMENT.data_dir, *(item.folder for item in settings.CLUSTERS)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ImproperlyConfigured(f"cannot write to {folder}: {error.strerror}") from error


def main(arguments: Sequence[str]) -> None:
    parser = ProgramParser(prog="magnetar gateway", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, help="instead of the setting http_port")
    parser.add_argument(
        "--listener", type=int, help="serve this listening socket, too: its file descriptor"
    )
    parser.add_argument(
        "--https-listener",
        type=int,
        help="serve this listening socket in TLS instead of https_port: its file descriptor",
    )
    parser.add_argument(
        "--insecure-anywhere",
        action="store_true",
        help="serve other machines without authentication",
    )
    args = parser.parse_args(arguments)
    logs.keep_private()
    logs.configure()
    raise_socket_limit()
    try:
        django.setup()
        if args.insecure_anywhere:
            settings.REACH = ReachSettings(True)  # the console shows it, too
        shared, encrypted = (
            [] if given is None else [inherited(name, given)]
            for name, given in (
                ("--listener", args.listener),
                ("--https-listener", args.https_listener),
            )
        )
        for host in (args.host, *(sock.getsockname()[0] for sock in (*shared, *encrypted))):
            prepare(host)
        https_port = settings.ENVIRONMENT.https_port
        tls = None if https_port is None else settings.TLS.context()
    except (ImproperlyConfigured, TlsFileError) as error:
        log.critical("cannot start: %s", error)
        sys.exit(os.EX_CONFIG)  # The supervisor does not restart a process that ends with it.
    try:
        migrate()
        announce_set_up()
    except DatabaseError as error:
        log.critical("cannot start: %s: %s", reason_of(error).partition(";")[0], error)
        sys.exit(1)  # The supervisor starts it again.
    port = settings.ENVIRONMENT.http_port if args.port is None else args.port
    own = [listen_or_exit(args.host, port), *listen_on_second_loopback(args.host, port)]
    if https_port is not None and not encrypted:
        encrypted = [listen_or_exit(args.host, https_port)]
    try:
        serve([*own, *shared], encrypted, tls)
    except ImproperlyConfigured as error:
        log.critical("cannot start: %s", error)
        sys.exit(os.EX_CONFIG)


def listen_or_exit(host: str, port: int) -> socket.socket:
    """Return a listening socket; end the process with the reason in the log when there is none."""
    try:
        return listen(host, port)
    except OSError as error:
        log.critical("cannot start: port %d of %s: %s", port, host, error.strerror)
        sys.exit(1)


def listen_on_second_loopback(host: str, port: int) -> list[socket.socket]:
    """Return a listening socket on ::1 beside 127.0.0.1, since ``localhost`` may be that alone; none where the machine
    lacks the address or another program has the port."""
    if host != "127.0.0.1":
        return []
    with suppress(OSError):
        return [listen("::1", port)]
    return []


def inherited(option: str, descriptor: int) -> socket.socket:
    """Return a listening socket inherited from the parent process, which several gateways share.

    Raises ImproperlyConfigured when it is not one, and without Redis, by which the gateways exchange events.
    """
    try:
        listener = socket.socket(fileno=descriptor)
        listener.setblocking(False)
        if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise OSError(0, "it is not a listening socket")
    except OSError as error:
        raise ImproperlyConfigured(f"{option} {descriptor}: {error.strerror}") from error
    if not settings.REDIS.redis_url:
        raise ImproperlyConfigured(f"{option} needs redis_url: it joins gateways behind one port")
    return listener


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only for sockets with an explicit protocol.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def preload_routes() -> None:
    """Create routes and import their modules now, and exclude these objects from later garbage collections.

    Collections delay all requests.
    """
    get_resolver().url_patterns  # noqa: B018 - created at the first request otherwise
    shorten_collections()


def serve(
    listeners: list[socket.socket],
    encrypted: list[socket.socket],
    tls: ssl.SSLContext | None,
) -> None:
    """Serve by the configured server until SIGINT or SIGTERM; the other one is not imported. The listeners
    ``encrypted`` are served in TLS, which uvicorn alone does."""
    limit = settings.ENVIRONMENT.max_connections_per_address
    checks = TaskScope("readiness")
    # Before the server has the listeners, which Daphne takes over.
    address = listeners[0].getsockname()
    if settings.ENVIRONMENT.is_served_by_uvicorn:
        from gateway.servers import on_uvicorn

        loop: asyncio.AbstractEventLoop = EventLoop()
        application = opened(loop)
        loop.call_soon(checks.spawn, "first answer", report_ready(address))
        on_uvicorn.serve(
            application,
            listeners,
            NAME,
            loop,
            connections_per_address=limit,
            encrypted=encrypted,
            tls=tls,
        )
    else:
        from gateway.servers import on_daphne  # Installs Twisted's reactor.

        loop = on_daphne.loop()
        application = opened(loop)
        loop.call_soon(checks.spawn, "first answer", report_ready(address))
        on_daphne.serve(application, listeners, NAME, connections_per_address=limit)


def opened(loop: asyncio.AbstractEventLoop) -> Any:
    """Return the ASGI application with the configured clusters on ``loop``; their figures are recorded from the start
    of the loop, also while no console is open. Raises ImproperlyConfigured when callers cannot be authenticated."""
    from gateway.alerts.evaluator import Evaluator
    from gateway.asgi import application
    from gateway.clusters.configured import configured_clusters
    from gateway.clusters.registry import serving
    from gateway.copies import services as copies
    from gateway.http.auth.callers import Callers
    from gateway.jobs import schedules
    from gateway.jobs import services as jobs

    clusters = configured_clusters(loop)
    try:
        clusters.part(Callers)
    except MagnetarError as error:
        raise ImproperlyConfigured(str(error)) from error
    preload_routes()
    for cluster in clusters:
        cluster.record_history()
        cluster.link.start(cluster.part(Evaluator).run)
    jobs.resume()
    clusters.part(jobs.Warming).begin()
    copies.start_worker()
    schedules.start_due_for_ever()
    return serving(clusters, application)


if __name__ == "__main__":
    main(sys.argv[1:])
