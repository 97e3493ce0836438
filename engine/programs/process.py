"""Frame of every program of the engine: its log, the limits of the process, its exit status."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from engine.base import log as logs
from engine.base.log import LogSettings
from engine.base.loop import EventLoop
from engine.base.settings import SettingsError
from engine.net.network import raise_socket_limit

log = logging.getLogger("engine")


class StartError(Exception):
    """The server cannot start; the text is one line for the operator."""


class LoggedSettings(Protocol):
    """The group of settings that every program has."""

    @property
    def log(self) -> LogSettings: ...


S = TypeVar("S", bound=LoggedSettings)


def run_process(
    load: Callable[[Mapping[str, str], Path], S],
    serve: Callable[[S], Coroutine[Any, Any, int]],
) -> int:
    """Run ``serve`` and return its exit status; 1 when it raises StartError, 78 (EX_CONFIG) for invalid settings.

    ``load`` raises SettingsError.
    """
    logs.keep_private()
    logs.configure()
    raise_socket_limit()
    try:
        settings = load(os.environ, Path.cwd())
        logs.configure(settings.log)
        with asyncio.Runner(loop_factory=EventLoop) as runner:
            return runner.run(serve(settings))
    except SettingsError as error:
        log.critical("cannot start: %s", error)
        return os.EX_CONFIG  # a restart will not help
    except StartError as error:
        log.critical("cannot start: %s", error)
        return 1
