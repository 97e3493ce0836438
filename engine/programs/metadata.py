"""The metadata server as a process: the arguments of its command line, the lock of its data folder, a drain on SIGTERM
and SIGINT."""

import argparse
import asyncio
import fcntl
import logging
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.base.clock import SystemClock
from engine.base.disk.files import SystemDisk
from engine.base.disk.kernel_lane import KernelLane
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.base.loop import shorten_collections
from engine.base.settings import ProgramParser, SettingsError
from engine.metadata.server.server import MetadataServer
from engine.metadata.server.settings import PROGRAM, MetadataProgramSettings
from engine.net.network import LoopNetwork
from engine.net.service_manager import notices
from engine.programs.process import StartError, run_process

log = logging.getLogger(__name__)

LOCK_FILE = "lock"


def main(argv: Sequence[str]) -> int:
    """Run the server and return its exit status, see ``run_process``; 1 also after a failure of the disk."""
    arguments = _parse(argv)
    return run_process(partial(load, arguments), serve)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options by the names of their settings; None for an option that was not given."""
    parser = ProgramParser(prog="magnetar metadata")
    parser.add_argument("--data-dir", help="folder of the log and the snapshots")
    parser.add_argument("--port", help="port of ZooKeeper's protocol (2181)")
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument(
        "--insecure-anywhere",
        action="store_true",
        default=None,
        help="serve other machines without authentication",
    )
    parser.add_argument("--log-level")
    return parser.parse_args(argv)


def load(
    arguments: argparse.Namespace, environ: Mapping[str, str], directory: Path
) -> MetadataProgramSettings:
    """Load the settings; the command line has precedence over the environment. Raises SettingsError."""
    settings = PROGRAM.load(environ, directory, vars(arguments))
    if not settings.server.data_dir:
        raise SettingsError("data_dir must name a folder: give --data-dir")
    folder = os.path.abspath(settings.server.data_dir)
    return replace(settings, server=replace(settings.server, data_dir=folder))


async def serve(settings: MetadataProgramSettings) -> int:
    """Run until a signal or a failure and return the exit status. Raises StartError."""
    host, authenticated = settings.server.host, settings.server.authenticates
    if warning := settings.reach.warning("host", host, authenticated=authenticated):
        log.warning("%s", warning)
    with _locked(settings.server.data_dir):
        server = MetadataServer(
            settings.server,
            clock=SystemClock(),
            entropy=RandomEntropy(),
            network=LoopNetwork(),
            disk=SystemDisk(),
            lanes=lambda name: KernelLane(f"metadata-{name}"),
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, server.request_stop)
        try:
            try:
                await server.start()
            except (MagnetarError, OSError) as error:
                raise StartError(str(error)) from error
            shorten_collections()
            notices.ready()
            await server.over.wait()
        finally:
            notices.stopping()
            await server.drain()
    return 1 if server.failure is not None else 0


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Keep the folder for this process and its user alone. Raises StartError."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.chmod(folder, 0o700)
        lock = os.open(
            os.path.join(folder, LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
    except OSError as error:
        raise StartError(f"cannot use the folder {folder}: {error}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StartError(f"another process uses the folder {folder}") from error
        yield
    finally:
        os.close(lock)
