"""``python -m bookie``: one bookie as a process. Stops cleanly on SIGTERM and SIGINT; status 1 after a failure, 78
(EX_CONFIG) for settings that make no sense."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from bookie.server import Bookie
from bookie.settings import BookieSettings
from bookie.storage.files import SystemDisk, ThreadLane
from engine.base import log as logs
from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.base.loop import EventLoop
from engine.base.settings_file import SettingsError, read_settings, settings_path
from engine.metadata.connect import FORM, connect
from engine.net.network import LoopNetwork

log = logging.getLogger("bookie")

PREFIX = "MAGNETAR_BOOKIE_"
TABLE = "bookie"


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bookie", description=__doc__)
    parser.add_argument("--data-dir", required=True, help="directory for journal and ledgers")
    parser.add_argument("--port", type=int, default=3181, help="BookKeeper port (3181)")
    parser.add_argument("--metadata", default="zk:127.0.0.1:2181", help=FORM)
    parser.add_argument("--status-port", type=int, help="port for /metrics and /ready")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind and advertise")
    parser.add_argument("--accept-journal-loss", action="store_true", help="see the settings")
    parser.add_argument("--log-level", default="INFO")
    return parser.parse_args(argv)


def load_settings(
    arguments: argparse.Namespace, environment: Mapping[str, str], directory: Path
) -> BookieSettings:
    """Command line over ``MAGNETAR_BOOKIE_<SETTING>`` over ``[bookie]`` in ``magnetar.toml`` over defaults.

    Raises SettingsError naming the setting.
    """
    _, values = read_settings(environment, directory, TABLE)
    kinds = {field.name: field.type for field in fields(BookieSettings)}
    for name, value in values.items():
        if name not in kinds:
            path = settings_path(environment, directory)
            raise SettingsError(f"unknown setting {name} in [{TABLE}] of {path}")
        values[name] = _checked(name, kinds[name], value)
    for name, kind in kinds.items():
        text = environment.get(PREFIX + name.upper())
        if text is not None:
            values[name] = _parse(name, kind, text)
    values |= {
        "data_dir": os.path.abspath(arguments.data_dir),
        "bookie_port": arguments.port,
        "listening_host": arguments.host,
    }
    if arguments.status_port is not None:
        values["http_server_port"] = arguments.status_port
    if arguments.accept_journal_loss:
        values["accept_journal_loss"] = True
    return BookieSettings(**values)


def _checked(name: str, kind: object, value: object) -> object:
    """A value of the file in its field's type."""
    if kind is bool or kind is str:
        if type(value) is not kind:
            raise SettingsError(
                f"{name}: {value!r} is not {'true or false' if kind is bool else 'text'}"
            )
        return value
    if isinstance(value, bool) or not isinstance(value, int | float if kind is float else int):
        raise SettingsError(f"{name}: {value!r} is not a {'' if kind is float else 'whole '}number")
    return float(value) if kind is float else value


def _parse(name: str, kind: object, text: str) -> object:
    try:
        if kind is bool:
            if text.lower() not in ("true", "false"):
                raise ValueError("is not true or false")
            return text.lower() == "true"
        if kind is float:
            return float(text)
        return text if kind is str else int(text)
    except ValueError as error:
        raise SettingsError(f"{name}: {text!r} {error}") from error


async def serve(settings: BookieSettings, metadata: str) -> int:
    """Run until a signal or a failure; the exit status."""
    store = await connect(metadata, setting="--metadata", session_timeout_s=settings.zk_timeout_s)
    bookie = Bookie(
        settings,
        clock=SystemClock(),
        entropy=RandomEntropy(),
        network=LoopNetwork(),
        store=store,
        disk=SystemDisk(),
        lanes=lambda name: ThreadLane(f"bookie-{name}"),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, bookie.request_stop)
    try:
        await bookie.start()
        gc.collect()
        gc.freeze()  # what start-up made lives on; collections need not look at it again
        await bookie.over.wait()
    finally:
        await bookie.stop()
        await store.close()
    return 1 if bookie.failed is not None else 0


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    logs.configure(arguments.log_level)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    try:
        settings = load_settings(arguments, os.environ, Path.cwd())
        with asyncio.Runner(loop_factory=EventLoop) as runner:
            return runner.run(serve(settings, arguments.metadata))
    except SettingsError as error:
        log.critical("cannot start: %s", error)
        return os.EX_CONFIG  # trying again will not help
    except (MagnetarError, OSError) as error:
        log.critical("cannot start: %s", error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
