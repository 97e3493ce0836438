"""``python -m engine broker``: one broker as a process, drained on SIGTERM and SIGINT."""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from engine.auth.internal import TokenError
from engine.base import log as logs
from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.loop import EventLoop, shorten_collections
from engine.base.settings import SettingsError
from engine.metadata.connect import connect
from engine.metadata.layout import LayoutError
from engine.metadata.store import StoreUnavailableError
from engine.net.network import LoopNetwork, raise_socket_limit
from engine.net.tls import TlsFileError
from engine.settings import Settings, load
from engine.wiring import build_broker

USAGE = "usage: python -m engine broker"
log = logging.getLogger("engine")


class StartError(Exception):
    """The broker cannot start; the text is one line for the operator."""


async def serve(settings: Settings) -> None:
    """Run a broker until SIGTERM or SIGINT. Raises StartError."""
    node = settings.node
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    url = settings.metadata.store_url
    try:
        store = await connect(
            url, session_timeout_s=node.metadata_store_session_timeout_millis / 1000
        )
    except StoreUnavailableError as error:
        raise StartError(f"cannot reach the metadata store {url}: {error}") from error
    try:
        broker = build_broker(
            settings,
            clock=SystemClock(),
            entropy=RandomEntropy(),
            network=LoopNetwork(),
            store=store,
        )
        try:
            await broker.start()
            shorten_collections()
            await stop.wait()
        finally:
            await broker.drain()
    except (TokenError, TlsFileError, LayoutError) as error:
        raise StartError(str(error)) from error
    except OSError as error:
        ports = f"{node.broker_port} and {node.broker_http_port} on {node.bind_address}"
        raise StartError(f"cannot listen on ports {ports}: {error}") from error
    finally:
        await store.close()


def main(arguments: list[str]) -> int:
    """Run the program and return its exit status: 0 after a drain, 1 when the broker could not start, 2 for wrong
    usage, 78 (EX_CONFIG) for invalid settings."""
    if arguments != ["broker"]:
        print(USAGE, file=sys.stderr)
        return 2
    logs.keep_private()
    logs.configure()
    raise_socket_limit()
    try:
        settings = load(os.environ, Path.cwd())
        logs.configure(settings.log)
        with asyncio.Runner(loop_factory=EventLoop) as runner:
            runner.run(serve(settings))
    except SettingsError as error:
        log.critical("cannot start: %s", error)
        return os.EX_CONFIG  # a restart will not help
    except StartError as error:
        log.critical("cannot start: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
