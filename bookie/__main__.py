"""``python -m bookie``: one bookie as a process, with auto-recovery beside it; ``python -m bookie autorecovery``:
auto-recovery alone.

Stops cleanly on SIGTERM and SIGINT. Exit status 1 after a failure, 78 (EX_CONFIG) for invalid settings.
"""

import argparse
import asyncio
import logging
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bookie.repairing import Repairing
from bookie.server import Bookie
from bookie.settings import PROGRAM, ProcessSettings
from bookie.storage.logs.log_files import FULL_ERRORS
from engine.base import log as logs
from engine.base.clock import SystemClock
from engine.base.disk.files import ThreadLane
from engine.base.disk.index_disk import SystemIndexDisk
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.base.log import LEVELS
from engine.base.loop import EventLoop, shorten_collections
from engine.base.settings import ProgramParser, SettingsError
from engine.metadata.apart.stores import SERVICE_FORM
from engine.metadata.connect import FORM, connect
from engine.net.network import LoopNetwork, raise_socket_limit
from engine.net.service_manager import notices

log = logging.getLogger("bookie")


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options by the names of their settings; None for an option that was not given."""
    parser = ProgramParser(prog="magnetar bookie", description=__doc__, argument_default=None)
    parser.add_argument("--data-dir", help="directory for journal and ledgers")
    parser.add_argument("--port", dest="bookie_port", help="BookKeeper port (3181)")
    parser.add_argument("--metadata", dest="metadata_url", help=FORM)
    parser.add_argument(
        "--metadata-service-uri", dest="bookkeeper_metadata_service_uri", help=SERVICE_FORM
    )
    parser.add_argument("--status-port", dest="http_server_port", help="for /metrics and /ready")
    parser.add_argument("--host", dest="listening_host", help="address to bind and advertise")
    parser.add_argument(
        "--insecure-anywhere",
        action="store_true",
        default=None,
        help="serve other machines without authentication",
    )
    parser.add_argument("--accept-journal-loss", action="store_true", default=None)
    parser.add_argument("--log-level", help=", ".join(LEVELS))
    return parser.parse_args(argv)


def load_settings(
    arguments: argparse.Namespace, environment: Mapping[str, str], directory: Path
) -> ProcessSettings:
    """Load the settings; the command line has precedence over the environment. Raises SettingsError."""
    given = vars(arguments)
    if given["metadata_url"] is not None and given["bookkeeper_metadata_service_uri"] is None:
        given["bookkeeper_metadata_service_uri"] = ""  # not the one of the file
    settings = PROGRAM.load(environment, directory, given)
    bookie = settings.bookie
    if bookie.data_dir:
        bookie = replace(bookie, data_dir=os.path.abspath(bookie.data_dir))
    return replace(settings, bookie=bookie)


async def serve(settings: ProcessSettings) -> int:
    """Run until a signal or a failure and return the exit status."""
    metadata, host = settings.metadata, settings.bookie.listening_host
    if warning := settings.reach.warning(
        "listening_host", host, authenticated=bool(settings.bookie.roles)
    ):
        log.warning("%s", warning)
    store = await connect(
        metadata.stores.of_bookies,
        access=metadata.access,
        session_timeout_s=settings.bookie.zk_timeout_s,
    )
    clock, entropy, network = SystemClock(), RandomEntropy(), LoopNetwork()
    bookie = Bookie(
        settings.bookie,
        clock=clock,
        entropy=entropy,
        network=network,
        store=store,
        disk=SystemIndexDisk(),
        lanes=lambda name: ThreadLane(f"bookie-{name}"),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, bookie.request_stop)
    repairing: Repairing | None = None
    try:
        await bookie.start()
        repairing = Repairing(
            settings,
            bookie.bookie_id,
            store=store,
            network=network,
            clock=clock,
            entropy=entropy,
        )
        repairing.join(bookie)
        repairing.follow_requests(bookie)
        if settings.repair.auto_recovery_daemon_enabled:
            repairing.start()
        shorten_collections()
        notices.ready()
        await bookie.over.wait()
    finally:
        notices.stopping()
        if repairing is not None:
            await repairing.stop()
        await bookie.stop()
        await store.close()
    return 1 if bookie.failed is not None else 0


async def serve_recovery(settings: ProcessSettings) -> int:
    """Run auto-recovery alone until a signal and return the exit status."""
    store = await connect(
        settings.metadata.stores.of_bookies,
        access=settings.metadata.access,
        session_timeout_s=settings.bookie.zk_timeout_s,
    )
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    host = settings.bookie.bookie_id or os.uname().nodename
    repairing = Repairing(
        settings,
        f"{host}-autorecovery",
        store=store,
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
    )
    try:
        await repairing.listen()
        repairing.start()
        notices.ready()
        await over.wait()
    finally:
        notices.stopping()
        await repairing.stop()
        await store.close()
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    alone = given[:1] == ["autorecovery"]
    arguments = parse_arguments(given[1:] if alone else given)
    logs.keep_private()
    logs.configure()
    raise_socket_limit()
    roots: list[str] = []
    try:
        settings = load_settings(arguments, os.environ, Path.cwd())
        roots = [] if alone else [settings.bookie.journal_root, *settings.bookie.ledger_roots]
        logs.configure(settings.log)
        with asyncio.Runner(loop_factory=EventLoop) as runner:
            return runner.run(serve_recovery(settings) if alone else serve(settings))
    except SettingsError as error:
        log.critical("cannot start: %s", error)
        return os.EX_CONFIG  # a restart will not help
    except (MagnetarError, OSError) as error:
        full = isinstance(error, OSError) and error.errno in FULL_ERRORS
        log.critical("cannot start: %s%s", error, f": {room(roots)}" if full else "")
        return 1


def room(roots: Sequence[str]) -> str:
    """Describe the free space where the directories ``roots`` are, or would be created."""
    descriptions = []
    for root in dict.fromkeys(roots):
        existing = next(path for path in (Path(root), *Path(root).parents) if path.exists())
        descriptions.append(f"{root} has {shutil.disk_usage(existing).free >> 20} MiB free")
    return ", ".join(descriptions)


if __name__ == "__main__":
    sys.exit(main())
