"""The proxy as a process: with the metadata store, or without it where the settings list the brokers."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from engine.auth.authenticators.provider import ProviderError
from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.metadata.store import MetadataStore
from engine.net.network import LoopNetwork
from engine.net.tls import TlsFileError
from engine.programs.process import StartError, run_process
from engine.programs.program import Signals, connected
from engine.proxy.proxy_service import ProxyService
from engine.proxy.settings import PROGRAM, ProxyProgramSettings

log = logging.getLogger(__name__)

SESSION_TIMEOUT_S = 30.0
"""Timeout of the session with the metadata store, which holds nothing."""


def main() -> int:
    """Run the proxy and return its exit status, see ``run_process``: 0 after a drain."""
    return run_process(load, serve)


def load(environ: Mapping[str, str], directory: Path) -> ProxyProgramSettings:
    """Load the settings. Raises SettingsError."""
    return PROGRAM.load(environ, directory)


@asynccontextmanager
async def _store_of(settings: ProxyProgramSettings) -> AsyncIterator[MetadataStore | None]:
    if settings.listed_brokers:
        yield None
        return
    async with connected(settings.metadata, SESSION_TIMEOUT_S) as store:
        yield store


async def serve(settings: ProxyProgramSettings) -> int:
    """Run the proxy until SIGTERM or SIGINT and return 0. Raises StartError."""
    proxy = settings.proxy
    authenticated = settings.authentication.authentication_enabled
    warning = settings.reach.warning(
        "bind_address", proxy.bind_address, authenticated=authenticated
    )
    if warning:
        log.warning("%s", warning)
    signals = Signals(SystemClock())
    signals.listen()
    async with _store_of(settings) as store:
        try:
            service = ProxyService(
                settings,
                clock=SystemClock(),
                entropy=RandomEntropy(),
                network=LoopNetwork(),
                store=store,
            )
            await signals.run(service)
        except (ProviderError, TlsFileError, MagnetarError) as error:
            raise StartError(str(error)) from error
        except OSError as error:
            ports = f"ports {proxy.service_port} and {proxy.web_service_port}"
            where = f"{ports} on {proxy.bind_address}"
            raise StartError(f"cannot listen on {where}: {error}") from error
    return 0
